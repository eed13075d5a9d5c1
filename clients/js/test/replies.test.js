// SPDX-License-Identifier: Apache-2.0
/** Replies, mentions, pins and silent messages, as views and lists show them. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { memory } from "../src/index.js";
import { mentionsOf, pinsOf, repliesTo } from "../src/lists.js";
import { client, live, twoMessages } from "./clients.js";
import { until } from "./fake_server.js";

/** @param {import("../src/tidings.js").Tidings} tidings @param {number} sequence */
const row = (tidings, sequence) =>
  tidings
    .chat("c")
    .snapshot()
    .rows.find((one) => one.sequence === sequence);

test("a reply is sent as one, shown at once, and counted in what it answers", async () => {
  const server = twoMessages();
  const tidings = client(server);
  await tidings.start();
  const chat = tidings.chat("c");
  chat.subscribe(() => {});
  await until(() => row(tidings, 2));
  const options = { replyTo: 1, mentions: ["bob"], silent: true };
  const { done } = chat.send("an answer", options);
  const { replyTo, mentions, silent, state } = /** @type {any} */ (chat.snapshot().rows.at(-1));
  assert.deepEqual({ replyTo, mentions, silent }, options);
  assert.equal(state, "pending");
  await done;
  const sent = server.heard.find((frame) => frame.op === "send");
  assert.deepEqual(
    [sent.reply_to, sent.mentions, sent.silent, sent.after, "epoch" in sent],
    [1, ["bob"], true, 2, false],
  );
  await until(() => row(tidings, 3));
  assert.equal(row(tidings, 3)?.replyTo, 1);
  assert.equal(row(tidings, 1)?.replyCount, 1);
  server.append("c", { content: "another", reply_to: 1 });
  await until(() => row(tidings, 1)?.replyCount === 2);
});

test("with an id of the page, a message can be sent again by a page that has seen less", async () => {
  const server = twoMessages();
  const tidings = client(server);
  await tidings.start();
  const chat = tidings.chat("c");
  chat.subscribe(() => {});
  await until(() => row(tidings, 2));
  await chat.send("mine", { id: "reply-2" }).done;
  const sent = server.heard.find((frame) => frame.op === "send");
  assert.deepEqual([sent.client_message_id, sent.after], ["reply-2", undefined]);
});

test("counts are kept over a reload, also those that came with an entry by itself", async () => {
  const server = twoMessages();
  const storage = memory();
  const before = client(server, { storage });
  await before.start();
  before.chat("c").subscribe(() => {});
  await until(() => row(before, 2));
  // The entry was read from the log after its reaction and its reply were written.
  server.append("c", { content: "three", reactions: { "👍": 1 }, reply_count: 1 });
  server.append("c", { kind: "reacted", target: 3, emoji: "👍" });
  server.append("c", { content: "four", reply_to: 3 });
  server.append("c", { kind: "unreacted", target: 3, emoji: "👍" });
  await until(() => row(before, 5));
  await until(() => !row(before, 3)?.reactions?.["👍"]);
  await before.stop();

  server.isUp = false;
  const tidings = client(server, { storage });
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => row(tidings, 3));
  assert.deepEqual([row(tidings, 3)?.reactions, row(tidings, 3)?.replyCount], [{}, 1]);
});

test("mentions of the user and of everyone are counted until they are read", async () => {
  const server = twoMessages();
  const tidings = client(server);
  await tidings.start();
  await live(tidings);
  await until(() => tidings.chats.record("c"));
  const counts = () => {
    const { unread, unread_mentions } = /** @type {any} */ (tidings.chats.record("c"));
    return [unread, unread_mentions];
  };
  server.append("c", { content: "@Alice", mentions: ["alice"] });
  server.append("c", { content: "@Bob", mentions: ["bob"] });
  server.append("c", { content: "@everyone", mentions: ["*"] });
  server.append("c", { content: "@everyone", mentions: ["*"], sender: "alice" });
  await until(() => counts()[0] === 3);
  assert.deepEqual(counts(), [3, 2]);
  server.say({ op: "unread", chat: "c", unread: 2, unread_exact: true, unread_mentions: 1 });
  await until(() => counts()[0] === 2);
  assert.deepEqual(counts(), [2, 1]);
  await until(() => tidings.chats.record("c")?.last_message?.sequence === 6);
  tidings.chat("c").read(6);
  assert.deepEqual(counts(), [0, 0]);
});

/** @param {number} sequence @param {any} [fields] */
const message = (sequence, fields = {}) => ({
  chat_id: "c",
  sequence,
  sender_id: "bob",
  created_at: "2026-11-16T10:00:00.000Z",
  content: `text ${sequence}`,
  ...fields,
});

test("lists are loaded when somebody looks, in pages, and again when something changes", async () => {
  const server = twoMessages();
  let pins = [message(1)];
  let second = [message(4)];
  server.routes["/v1/chats/c/pins"] = () => ({ data: pins });
  server.routes["/v1/chats/c/messages/1/replies"] = () =>
    server.requests.at(-1)?.includes("after=3")
      ? { data: second, next_after: null }
      : { data: [message(3)], next_after: 3 };
  const tidings = client(server);
  await tidings.start();
  await live(tidings);
  await until(() => tidings.chats.record("c"));
  const list = pinsOf(tidings, "c");
  const thread = repliesTo(tidings, "c", 1);
  const shown = (/** @type {typeof list} */ one) => one.snapshot().rows.map((one) => one.sequence);
  assert.equal(list.snapshot().isLoaded, false);
  const ends = [list, thread].map((one) => one.subscribe(() => {}));
  await until(() => shown(list).length === 1 && thread.snapshot().hasMore);
  await thread.more();
  assert.deepEqual(shown(thread), [3, 4]);
  assert.equal(thread.snapshot().hasMore, false);

  pins = [message(1), message(2)];
  server.append("c", { kind: "pinned", target: 2 });
  await until(() => shown(list).length === 2);
  second = [message(4), message(5)];
  server.append("c", { content: "text", reply_to: 1 });
  await until(() => shown(thread).length === 3);
  pins = [message(1, { redacted: true, content: undefined })];
  server.append("c", { kind: "redacted", target: 1 });
  await until(() => list.snapshot().rows[0]?.gone === "redacted");
  pins = [];
  server.say({ op: "erased", n: 1, salt: "00ff", authors: [] });
  await until(() => shown(list).length === 0);
  for (const end of ends) end();
  const { length } = server.requests;
  const arrived = new Promise((resolve) => tidings.on(resolve));
  server.append("c", { kind: "pinned", target: 1 });
  await arrived;
  assert.equal(server.requests.slice(length).filter((one) => one.includes("pins")).length, 0);
});

test("the list of mentions has those of the user by name", async () => {
  const server = twoMessages();
  let found = [message(2)];
  server.routes["/v1/mentions"] = () => ({ data: found, next_cursor: null });
  const tidings = client(server);
  await tidings.start();
  await live(tidings);
  await until(() => tidings.chats.record("c"));
  const list = mentionsOf(tidings);
  list.subscribe(() => {});
  await until(() => list.snapshot().rows.length === 1);
  found = [message(3), message(2)];
  server.append("c", { content: "@Alice", mentions: ["alice"] });
  await until(() => list.snapshot().rows.length === 2);
});
