// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";

import { AGE_MS_MAX, Outbox } from "../src/outbox.js";

/**
 * @param {string} id
 * @param {Partial<import("../src/frames.js").Outgoing>} [fields]
 */
const outgoing = (id, fields = {}) => ({ chat: "c", id, content: id, createdAt: 1_000, ...fields });

/** @param {Iterable<{id: string}>} messages */
const ids = (messages) => [...messages].map((message) => message.id);

test("the messages of a chat are sent one after the other, those of two chats at once", () => {
  const outbox = new Outbox(() => 0.5);
  for (const id of ["a", "b"]) outbox.add(outgoing(id));
  outbox.add(outgoing("x", { chat: "d" }));
  assert.deepEqual(ids(outbox.due(0)), ["a", "x"]);
  assert.deepEqual(ids(outbox.due(0)), []);
  assert.equal(outbox.answered({ chat: "c", id: "a" })?.id, "a");
  assert.deepEqual(ids(outbox.due(0)), ["b"]);
  assert.equal(outbox.answered({ chat: "c", id: "a" }), undefined, "an answer counts once");
});

test("a message is added once", () => {
  const outbox = new Outbox(() => 0.5);
  for (const id of ["a", "a"]) outbox.add(outgoing(id));
  assert.equal(outbox.answered({ chat: "c", id: "a" })?.id, "a");
  assert.deepEqual(ids(outbox.due(0)), []);
});

test("after a temporary refusal the chat rests, longer each time, and keeps its order", () => {
  const outbox = new Outbox(() => 1);
  for (const id of ["a", "b"]) outbox.add(outgoing(id));
  assert.deepEqual(ids(outbox.due(0)), ["a"]);
  outbox.refused({ chat: "c", id: "a" }, 0);
  assert.deepEqual(ids(outbox.due(499)), []);
  assert.deepEqual(ids(outbox.due(500)), ["a"]);
  outbox.refused({ chat: "c", id: "a" }, 500);
  assert.deepEqual(ids(outbox.due(1_499)), []);
  assert.deepEqual(ids(outbox.due(1_500)), ["a"]);
});

test("a lost connection sends what was in flight again, first", () => {
  const outbox = new Outbox(() => 0.5);
  for (const id of ["a", "b"]) outbox.add(outgoing(id));
  assert.deepEqual(ids(outbox.due(0)), ["a"]);
  outbox.lost();
  assert.deepEqual(ids(outbox.due(0)), ["a"]);
});

test("an entry may confirm a message that was not sent again yet", () => {
  const outbox = new Outbox(() => 0.5);
  for (const id of ["a", "b"]) outbox.add(outgoing(id));
  [...outbox.due(0)];
  outbox.lost();
  assert.equal(outbox.answered({ chat: "c", id: "a" })?.id, "a");
  assert.deepEqual(ids(outbox.due(0)), ["b"]);
});

test("messages that are too old are given up", () => {
  const outbox = new Outbox(() => 0.5);
  outbox.add(outgoing("old"));
  outbox.add(outgoing("new", { createdAt: 2_000 }));
  assert.deepEqual(ids(outbox.expired(1_001 + AGE_MS_MAX)), ["old"]);
  assert.deepEqual(ids(outbox.due(0)), ["new"]);
});
