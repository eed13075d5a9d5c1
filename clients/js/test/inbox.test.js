// SPDX-License-Identifier: Apache-2.0
/** What `<tidings-inbox>` decides without a page: the times of a snooze, and quiet hours. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { snoozeChoices } from "../elements/snoozing.js";
import { isQuiet } from "../elements/sound.js";

/** A local time of June 2026, whose 1st is a Monday. */
const at = (/** @type {number} */ day, hour = 0, minute = 0) =>
  new Date(2026, 5, day, hour, minute).getTime();

test("a snooze ends in an hour, this evening, tomorrow morning or next week", () => {
  assert.deepEqual(snoozeChoices(at(3, 9, 30)), [
    ["snoozeHour", at(3, 10, 30)],
    ["snoozeEvening", at(3, 18)],
    ["snoozeTomorrow", at(4, 8)],
    ["snoozeWeek", at(8, 8)],
  ]);
});

test("next week begins with the next Monday, on every day of this one", () => {
  for (let day = 1; day <= 7; day += 1) {
    assert.deepEqual(snoozeChoices(at(day, 12)).at(-1), ["snoozeWeek", at(8, 8)]);
  }
});

test("late in the day there is no evening to wait for", () => {
  const names = (/** @type {number} */ now) => snoozeChoices(now).map(([name]) => name);
  assert.ok(names(at(3, 16, 59)).includes("snoozeEvening"));
  assert.ok(!names(at(3, 17)).includes("snoozeEvening"));
  assert.ok(!names(at(3, 23)).includes("snoozeEvening"));
});

test("quiet hours are those of the user's clock, and may cross midnight", () => {
  const night = { from: "22:00", to: "07:00", timezone: "Europe/Berlin" };
  const noon = { from: "12:00", to: "13:00", timezone: "Asia/Tokyo" };
  const utc = (/** @type {number} */ hour, minute = 0) => Date.UTC(2026, 0, 5, hour, minute);
  assert.equal(isQuiet(null, utc(23)), false);
  assert.equal(isQuiet(night, utc(20, 59)), false);
  assert.equal(isQuiet(night, utc(21)), true);
  assert.equal(isQuiet(night, utc(5, 59)), true);
  assert.equal(isQuiet(night, utc(6)), false);
  assert.equal(isQuiet(noon, utc(3, 30)), true);
  assert.equal(isQuiet(noon, utc(4)), false);
});
