// SPDX-License-Identifier: Apache-2.0
/** The small rules without I/O: pauses, pings, receipts, repeated notifications, tokens. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Backoff } from "../src/backoff.js";
import { Heartbeat } from "../src/heartbeat.js";
import { InboxEvents } from "../src/inbox_events.js";
import { Receipts } from "../src/receipts.js";
import { Tokens } from "../src/tokens.js";

test("pauses grow from 1 to 60 seconds, and are short again after a steady connection", () => {
  const backoff = new Backoff(() => 1);
  const pause = () => {
    return backoff.after({ code: 1006 });
  };
  assert.deepEqual([pause(), pause(), pause()], [1_000, 2_000, 4_000]);
  for (let i = 0; i < 20; i += 1) pause();
  assert.equal(pause(), 60_000);
  backoff.steady();
  assert.equal(pause(), 1_000);
});

test("the server decides when and whether to come again", () => {
  const backoff = new Backoff(() => 1);
  assert.deepEqual(backoff.after({ code: 1012, retry_after_ms: 250 }), 250);
  const tooMany = { code: 4409, retry_after_ms: 30_000, reconnect: true };
  assert.deepEqual(backoff.after(tooMany), 30_000);
  assert.deepEqual(backoff.after({ code: 4403 }), null);
  assert.deepEqual(backoff.after({ code: 1012, reconnect: false }), null);
});

test("a refused token is replaced at once, and a second one after a pause", () => {
  const backoff = new Backoff(() => 1);
  assert.deepEqual(backoff.after({ code: 4401 }), 0);
  assert.deepEqual(backoff.after({ code: 4401 }), 1_000);
});

test("a ping is due after each interval, and three without an answer mean that the server is dead", () => {
  const heartbeat = new Heartbeat(0);
  assert.equal(heartbeat.tick(14_999), null);
  heartbeat.welcomed(0, 20_000);
  assert.equal(heartbeat.tick(19_999), null);
  assert.deepEqual(
    [20_000, 40_000, 60_000].map((now) => heartbeat.tick(now)),
    ["ping", "ping", "ping"],
  );
  assert.equal(heartbeat.tick(80_000), "dead");
  heartbeat.heard();
  assert.equal(heartbeat.tick(80_000), "ping");
});

test("a server that does not say welcome is dead", () => {
  assert.equal(new Heartbeat(0).tick(15_000), "dead");
});

test("received is sent at a tick, but not for own messages alone", () => {
  const receipts = new Receipts([]);
  receipts.taken("c", 5, false);
  assert.deepEqual(receipts.received(true), []);
  receipts.taken("d", 7, true);
  assert.deepEqual(receipts.received(true), [
    { op: "received", chat: "c", sequence: 5 },
    { op: "received", chat: "d", sequence: 7 },
  ]);
  receipts.lost();
  assert.equal(receipts.received(true).length, 2, "a lost connection may have lost them");
});

test("read marks move forward only, and the latest are repeated", () => {
  const receipts = new Receipts([["c", 4]]);
  assert.equal(receipts.read("c", 4), false);
  assert.equal(receipts.read("c", 6), true);
  assert.deepEqual(receipts.marks(), [{ op: "read", chat: "c", sequence: 6 }]);
  receipts.forget("c");
  assert.deepEqual(receipts.marks(), []);
});

test("a notification is news once, and never after its retraction", () => {
  const events = new InboxEvents();
  const frame = { op: /** @type {const} */ ("notification"), inbox: "news", id: "1" };
  const retracted = { ...frame, op: /** @type {const} */ ("retracted") };
  assert.deepEqual(
    [frame, frame, retracted, retracted, frame].map((one) => events.take(one)),
    [true, false, true, false, false],
  );
  assert.equal(events.take({ ...retracted, id: "2" }), true, "a retraction may come first");
  assert.equal(events.take({ ...frame, id: "2" }), false);
});

test("a token is asked for once, kept until shortly before its end, and again when it is refused", async () => {
  let now = 0;
  let calls = 0;
  const token = (/** @type {number} */ exp) => `x.${btoa(JSON.stringify({ iat: 0, exp }))}.y`;
  const tokens = new Tokens(
    async () => ((calls += 1), token(1_000 + calls)),
    () => now,
  );
  assert.equal(await tokens.current(), await tokens.current());
  assert.equal(calls, 1);
  now = 941_001;
  await tokens.current();
  assert.equal(calls, 2);
  tokens.refused(tokens.current());
  await tokens.current();
  assert.equal(calls, 3);
});

test("a provider that fails is asked again", async () => {
  let calls = 0;
  const tokens = new Tokens(
    () => {
      calls += 1;
      if (calls === 1) throw new Error("no");
      return "opaque";
    },
    () => 0,
  );
  await assert.rejects(tokens.current(), /no/);
  assert.equal(await tokens.current(), "opaque");
});
