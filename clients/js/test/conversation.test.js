// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";

import { Conversation } from "../src/conversation.js";
import { WrongUser } from "../src/errors.js";
import { Diary, message } from "./support.js";

const WELCOME = {
  op: /** @type {const} */ ("welcome"),
  user: "alice",
  device: "d",
  epoch: "e1",
  heartbeat_ms: 20_000,
};
const LIVE = { op: /** @type {const} */ ("live") };

/** @param {Partial<import("../src/listener.js").SavedState>} [saved] */
function talk(saved = {}) {
  const diary = new Diary();
  const state = { user: null, epoch: null, held: [], reads: [], ...saved };
  const conversation = new Conversation(state, diary, () => 0.5);
  /** @type {any[]} */
  const said = [];
  const connect = () => conversation.connected((frame) => said.push(frame), { token: "t" }, 0);
  return { conversation, diary, said, connect, take: () => said.splice(0) };
}

/** @param {string} id */
const outgoing = (id) => ({ chat: "c", id, content: `text ${id}`, createdAt: 0 });

test("hello says what is kept, and after live each kept chat is followed", () => {
  const { conversation, connect, take, diary } = talk({
    user: "alice",
    epoch: "e1",
    held: [["c", 4]],
    reads: [["c", 3]],
  });
  connect();
  assert.deepEqual(take(), [
    { op: "hello", token: "t", epoch: "e1", have: { c: 4 }, catch_up: "heads" },
  ]);
  conversation.receive(WELCOME, 1);
  conversation.receive({ op: "heads", chats: { c: 6, d: 9 } }, 1);
  conversation.receive(LIVE, 1);
  assert.deepEqual(take(), [
    { op: "follow", chat: "c", after: 4 },
    { op: "read", chat: "c", sequence: 3 },
  ]);
  assert.deepEqual(diary.take(), [
    ["welcome", "alice", "e1", false],
    ["heads", { c: 6, d: 9 }],
    ["live"],
  ]);
  conversation.follow("d");
  assert.deepEqual(take(), [{ op: "follow", chat: "d", after: 9 }]);
  conversation.follow("d");
  assert.deepEqual(take(), [], "a chat is followed once a connection");
});

test("a follow that was refused is repeated when the server names the chat", () => {
  const { conversation, connect, take } = talk({ user: "alice", epoch: "e1", held: [["c", 4]] });
  connect();
  for (const frame of [WELCOME, LIVE]) conversation.receive(frame, 1);
  take();
  const refused = { code: "rate.limited", detail: "", retryable: true };
  conversation.receive({ op: "refused", ...refused }, 2);
  conversation.receive({ op: "heads", chats: { c: 5 } }, 3);
  conversation.follow("c");
  assert.deepEqual(take(), [{ op: "follow", chat: "c", after: 4 }]);
});

test("a message is sent until it is answered, and its answer is its entry", () => {
  const { conversation, connect, take, diary } = talk({
    user: "alice",
    epoch: "e1",
    held: [["c", 4]],
  });
  conversation.post(outgoing("m"), 0);
  connect();
  conversation.receive(WELCOME, 1);
  const [, send] = take();
  assert.equal(send.op, "send");
  conversation.lost();
  connect();
  conversation.receive(WELCOME, 2);
  const again = take().find((frame) => frame.op === "send");
  assert.equal(again.client_message_id, "m");
  diary.take();
  conversation.receive(
    {
      op: "sent",
      id: again.id,
      chat: "c",
      sequence: 5,
      message_id: "c.5",
      created_at: "2026-11-16T10:00:00Z",
    },
    3,
  );
  assert.deepEqual(diary.take(), [
    ["sent", "m", 5],
    ["applied", "c", 5],
  ]);
});

test("a message is sent with what it had seen, which means nothing in another epoch", () => {
  const { conversation, connect, take } = talk({ user: "alice", epoch: "e1" });
  const first = { ...outgoing("m"), after: 4, epoch: "e1", reply_to: 2, mentions: ["*"] };
  conversation.post(first, 0);
  conversation.post({ ...outgoing("n"), chat: "d", after: undefined, epoch: "e1" }, 0);
  const sends = () => take().filter((frame) => frame.op === "send");
  connect();
  conversation.receive(WELCOME, 1);
  const [{ id: _, ...frame }, other] = sends();
  const content = { content: "text m", reply_to: 2, mentions: ["*"] };
  assert.deepEqual(frame, { op: "send", chat: "c", client_message_id: "m", ...content, after: 4 });
  conversation.lost();
  connect();
  conversation.receive({ ...WELCOME, epoch: "e2" }, 2);
  assert.deepEqual(
    [...sends(), other].map(({ after }) => after),
    [0, undefined, undefined],
  );
});

test("an entry confirms an own message whose answer was lost", () => {
  const { conversation, connect, diary } = talk({ user: "alice", epoch: "e1", held: [["c", 4]] });
  connect();
  conversation.receive(WELCOME, 1);
  conversation.post(outgoing("m"), 1);
  diary.take();
  conversation.receive(
    { op: "entry", ...message(5, { sender: "alice", client_message_id: "m" }) },
    2,
  );
  assert.deepEqual(diary.take(), [
    ["sent", "m", 5],
    ["applied", "c", 5],
  ]);
});

test("a refusal is final or not, as the server says", () => {
  const { conversation, connect, take, diary } = talk({ user: "alice", epoch: "e1" });
  connect();
  conversation.receive(WELCOME, 1);
  conversation.post(outgoing("m"), 1);
  const id = take().at(-1).id;
  diary.take();
  conversation.receive({ op: "refused", id, code: "chat.busy", detail: "", retryable: true }, 2);
  assert.deepEqual(diary.take(), []);
  conversation.tick(1_000, 1_000);
  const again = take().find((frame) => frame.op === "send");
  conversation.receive(
    { op: "refused", id: again.id, code: "chat.not_found", detail: "", retryable: false },
    1_001,
  );
  assert.deepEqual(diary.take(), [["failed", "m", "chat.not_found"]]);
});

test("a gap is fetched, four pages at a time", () => {
  const held = /** @type {[string, number][]} */ (
    Array.from({ length: 6 }, (_, i) => [`c${i}`, 1])
  );
  const { conversation, connect, take } = talk({ user: "alice", epoch: "e1", held });
  connect();
  conversation.receive(WELCOME, 1);
  take();
  for (const [chat] of held) conversation.receive({ op: "entry", ...message(9, { chat }) }, 2);
  const fetches = take().filter((frame) => frame.op === "fetch");
  assert.equal(fetches.length, 4);
  const [first] = fetches;
  conversation.receive(
    { op: "page", id: first.id, chat: first.chat, entries: [], head: 9, more: false },
    3,
  );
  assert.equal(take().filter((frame) => frame.op === "fetch").length, 1);
});

test("questions of the application wait for a connection, and outlive one", () => {
  const { conversation, connect, take } = talk({ user: "alice", epoch: "e1" });
  /** @type {any[]} */
  const answers = [];
  conversation.ask(
    { chat: "c", before: 9, limit: 50, answer: (answer) => answers.push(answer) },
    0,
  );
  connect();
  conversation.receive(WELCOME, 1);
  take();
  conversation.lost();
  connect();
  conversation.receive(WELCOME, 2);
  const { id } = take().at(-1);
  conversation.receive({ op: "page", id, chat: "c", entries: [], head: 8, more: false }, 3);
  assert.equal(answers.length, 1);
});

test("a new epoch invalidates what is kept", () => {
  const { conversation, connect, diary, take } = talk({
    user: "alice",
    epoch: "e0",
    held: [
      ["c", 4],
      ["d", 2],
    ],
  });
  connect();
  conversation.receive(WELCOME, 1);
  conversation.receive({ op: "heads", chats: { c: 3 } }, 1);
  conversation.receive(LIVE, 1);
  assert.deepEqual(diary.take(), [
    ["welcome", "alice", "e1", true],
    ["restarted", "c", 4],
    ["heads", { c: 3 }],
    ["forgotten", "d"],
    ["live"],
  ]);
  assert.deepEqual(take().at(-1), { op: "follow", chat: "c", after: 3 });
});

test("another user's token is noticed", () => {
  const { conversation, connect } = talk({ user: "bob", epoch: "e1" });
  connect();
  assert.throws(() => conversation.receive(WELCOME, 1), WrongUser);
});

test("a silent server is noticed", () => {
  const { conversation, connect, take } = talk();
  connect();
  conversation.receive(WELCOME, 0);
  take();
  for (const now of [20_000, 40_000, 60_000]) assert.equal(conversation.tick(now, 0), false);
  assert.equal(take().length, 3);
  assert.equal(conversation.tick(80_000, 0), true);
});

test("typing is sent at most every three seconds", () => {
  const { conversation, connect, take } = talk();
  connect();
  conversation.receive(WELCOME, 0);
  conversation.receive(LIVE, 0);
  take();
  for (const now of [0, 2_999, 3_000]) conversation.typing("c", now);
  assert.equal(take().length, 2);
});
