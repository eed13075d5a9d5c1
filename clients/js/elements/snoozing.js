// SPDX-License-Identifier: Apache-2.0
/** The times until which a notification can be snoozed. */

const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
/** The server allows a year. */
export const SNOOZE_MS_MAX = 364 * DAY_MS;
const MORNING = 8;
const EVENING = 18;
const MONDAY = 1;
const WEEK = 7;

/** @typedef {"snoozeHour" | "snoozeEvening" | "snoozeTomorrow" | "snoozeWeek"} SnoozeName */

/**
 * Return the choices with their times, in the time zone of the browser. There is no evening left in
 * the hour before it.
 *
 * @param {number} now
 * @returns {[SnoozeName, number][]}
 */
export function snoozeChoices(now) {
  const at = (/** @type {number} */ days, /** @type {number} */ hour) => {
    const day = new Date(now);
    day.setDate(day.getDate() + days);
    return day.setHours(hour, 0, 0, 0);
  };
  const days = WEEK - ((new Date(now).getDay() - MONDAY + WEEK) % WEEK);
  /** @type {[SnoozeName, number][]} */
  const choices = [
    ["snoozeHour", now + HOUR_MS],
    ["snoozeEvening", at(0, EVENING)],
    ["snoozeTomorrow", at(1, MORNING)],
    ["snoozeWeek", at(days, MORNING)],
  ];
  return choices.filter(([name, time]) => name !== "snoozeEvening" || time > now + HOUR_MS);
}
