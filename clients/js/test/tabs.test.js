// SPDX-License-Identifier: Apache-2.0
/** Which of the tabs of a browser leads. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Tabs } from "../src/tabs.js";
import { FakeLocks, until } from "./fake_server.js";

const NAME = "tabs of a test";

beforeEach(() => {
  const value = { locks: new FakeLocks() };
  Object.defineProperty(globalThis, "navigator", { value, configurable: true });
});

/**
 * Two tabs, of which the first one leads, and the letters that they write.
 *
 * @param {import("node:test").TestContext} context
 */
async function twoTabs(context) {
  const nothing = () => {};
  const events = { leads: nothing, serve: nothing, discarded: nothing, signedOut: nothing };
  /** @type {import("../src/tabs.js").Letter[]} */
  const letters = [];
  const channel = new BroadcastChannel(NAME);
  channel.onmessage = ({ data }) => letters.push(data);
  const tabs = [new Tabs(NAME, events), new Tabs(NAME, events)];
  context.after(() => {
    for (const one of [...tabs, channel]) one.close();
  });
  await until(() => tabs[0]?.leads);
  return { first: /** @type {Tabs} */ (tabs[0]), second: /** @type {Tabs} */ (tabs[1]), letters };
}

test("tabs that lead in turn do not pile up requests for the lock", async (context) => {
  let waiting = 0;
  const request = FakeLocks.prototype.request;
  /** @this {FakeLocks} @param {Parameters<typeof request>} details */
  const counted = async function (...details) {
    waiting += 1;
    await request.apply(this, details).finally(() => (waiting -= 1));
  };
  context.mock.method(FakeLocks.prototype, "request", counted);
  const { first, second, letters } = await twoTabs(context);
  for (const [leader, next] of [
    [first, second],
    [second, first],
    [first, second],
    [second, first],
  ]) {
    letters.length = 0;
    next?.tell({ about: "asks" });
    const asks = () => letters.find((letter) => letter.about === "asks");
    await until(asks);
    leader?.tell({ to: asks()?.from, about: "may" });
    await until(() => next?.leads && !leader?.leads);
  }
  assert.equal(waiting, 3, "that of the leader, and one of each tab");
});

test("a tab that takes the lock from itself still leads", async (context) => {
  /** What is to be stolen, which a browser may do after the tab got the lock in its turn. */
  const late = /** @type {(() => void)[]} */ ([]);
  const request = FakeLocks.prototype.request;
  /** @this {FakeLocks} @param {Parameters<typeof request>} details */
  const slow = async function (...details) {
    if (details[1].steal) await new Promise((resolve) => late.push(() => resolve(null)));
    await request.apply(this, details);
  };
  context.mock.method(FakeLocks.prototype, "request", slow);
  const { first, second, letters } = await twoTabs(context);
  second.tell({ about: "asks" });
  await until(() => letters.length);
  first.tell({ to: letters.at(-1)?.from, about: "may" });
  await until(() => late.length);
  first.close();
  await until(() => second.leads);
  let follows = 0;
  late.forEach((steal) => steal());
  // What was taken is given up a few turns later.
  for (let turn = 0; turn < 50; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    if (!second.leads) follows += 1;
  }
  assert.equal(follows, 0);
});

test("a hidden tab that gets to lead says so, because another one may be visible", async (context) => {
  const { first, second, letters } = await twoTabs(context);
  /** @type {any} */
  const page = globalThis;
  context.after(() => delete page.document);
  page.document = { hidden: true };
  first.close();
  await until(() => second.leads && letters.some((letter) => letter.about === "hidden"));
});

test("a tab takes over from a leader that never answers, but not from one that does", async (context) => {
  let now = 0;
  context.mock.method(performance, "now", () => now);
  const { first, second, letters } = await twoTabs(context);
  const steals = () => request.mock.calls.filter((call) => call.arguments[1].steal).length;
  const request = context.mock.method(FakeLocks.prototype, "request");
  /** @type {string[]} */
  const heard = [];
  const events = {
    opened: () => {},
    receive: (/** @type {any} */ frame) => heard.push(frame.op),
    ended: () => {},
  };

  const answered = second.connect(events);
  now += 1_000;
  answered.say(/** @type {any} */ ({ op: "hello" }));
  await until(() => letters.some((letter) => letter.up));
  first.tell({ to: letters.find((letter) => letter.up)?.from, down: { op: "pong" } });
  await until(() => heard.length);
  now += 16_000;
  answered.close();
  assert.equal(steals(), 0);

  const silent = second.connect(events);
  now += 16_000;
  silent.close();
  assert.equal(steals(), 1);
  await until(() => second.leads);
});
