// SPDX-License-Identifier: Apache-2.0
/** What must not go wrong when things come at a bad moment. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { memory, Refused, SignedOut } from "../src/index.js";
import { client, live, texts, twoMessages } from "./clients.js";
import { FakeLocks, until } from "./fake_server.js";

// Starting and stopping.

test("who looks at a chat before the start sees it after the start", async () => {
  const tidings = client(twoMessages());
  tidings.chat("c").subscribe(() => {});
  await new Promise((resolve) => setTimeout(resolve, 20));
  await tidings.start();
  await until(() => texts(tidings).length === 2);
});

test("what waits for the server when the client stops does not wait for ever", async () => {
  const server = twoMessages();
  server.isUp = false;
  const tidings = client(server);
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  const older = tidings.chat("c").latest();
  await new Promise((resolve) => setTimeout(resolve, 20));
  await tidings.stop();
  await assert.rejects(older);
  server.isUp = true;
  await tidings.start();
  await until(() => texts(tidings).length === 2);
});

test("a message that is too old when the page is opened again is not sent", async () => {
  const server = twoMessages();
  const storage = memory();
  const kept = { chat: "c", id: "old", content: "long ago", createdAt: 1 };
  await storage.save({ outbox: new Map([["c old", kept]]) });
  const tidings = client(server, { storage });
  const chat = tidings.chat("c");
  chat.subscribe(() => {});
  await tidings.start();
  await live(tidings);
  const mine = () => chat.snapshot().rows.find((row) => row.id === "old");
  await until(mine);
  assert.equal(mine()?.error?.code, "send.expired");
  assert.deepEqual(
    server.heard.filter((frame) => frame.op === "send"),
    [],
  );
});

test("a start that overlaps with a stop opens one socket", async () => {
  const server = twoMessages();
  const storage = memory();
  const load = storage.load;
  /** @type {(() => void)[]} */
  const waiting = [];
  storage.load = async () => {
    if (waiting.length === 0) await new Promise((resolve) => waiting.push(() => resolve(null)));
    return load();
  };
  const tidings = client(server, { storage });
  waiting.length = 0;
  const first = tidings.start();
  waiting.shift()?.();
  await first; // the client now loads a second time, before it opens the socket
  await until(() => waiting.length === 1);
  await tidings.stop();
  await tidings.start();
  waiting.shift()?.();
  await live(tidings);
  assert.equal(server.opened, 1);
});

// Signing out.

test("signing out empties every view", async () => {
  const server = twoMessages();
  server.routes["/v1/inboxes/news/notifications"] = {
    data: [{ id: "n", message: { title: "Sale" }, received_at: "2026-11-16T10:00:00.000Z" }],
    next_cursor: null,
  };
  const tidings = client(server);
  await tidings.start();
  const inbox = tidings.inbox("news");
  inbox.subscribe(() => {});
  tidings.chat("c").subscribe(() => {});
  await until(() => texts(tidings).length === 2 && inbox.snapshot().notifications.length === 1);
  await tidings.signOut();
  assert.deepEqual(texts(tidings), []);
  assert.deepEqual(inbox.snapshot().notifications, []);
  assert.deepEqual(tidings.chats.snapshot().chats, []);
});

test("an answer that comes after signing out is not shown, and the next start shows it again", async () => {
  const server = twoMessages();
  /** @type {(() => void)[]} */
  const held = [];
  const hold = (/** @type {object} */ answer) => async () => {
    await new Promise((resolve) => held.push(() => resolve(null)));
    return answer;
  };
  server.routes["/v1/chats/c"] = hold(server.record("c"));
  server.routes["/v1/inboxes/news/unread"] = hold({ total: 3, categories: {} });
  const tidings = client(server);
  await tidings.start();
  await live(tidings);
  await until(() => tidings.chats.records.length === 1);
  const inbox = tidings.inbox("news");
  const loading = inbox.reload();
  tidings.chats.stale("c");
  await until(() => held.length === 2);
  await tidings.signOut();
  for (const go of held) go();
  await assert.rejects(loading, SignedOut);
  await assert.rejects(inbox.reload(), SignedOut);
  assert.equal(inbox.snapshot().unread, 0);
  assert.deepEqual(tidings.chats.records, []);
  server.routes = {};
  await tidings.start();
  await until(() => tidings.chats.records.length === 1);
});

test("signing out deletes what was kept before the storage failed", async () => {
  const server = twoMessages();
  const storage = memory();
  const broken = { ...storage, kind: "broken" };
  let wiped = 0;
  broken.wipe = async () => void (wiped += 1);
  const tidings = client(server, { storage: broken });
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => texts(tidings).length === 2);
  broken.save = () => Promise.reject(new Error("the disk is full"));
  server.append("c", { content: "three" });
  await until(() => tidings.state.snapshot().storage === "memory");
  await tidings.signOut();
  assert.equal(wiped, 1);
});

test("a storage that cannot be deleted now does not keep anything on the screen", async () => {
  const server = twoMessages();
  const storage = { ...memory(), wipe: () => new Promise(() => {}) };
  const tidings = client(server, { storage });
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => texts(tidings).length === 2);
  void tidings.signOut();
  await until(() => texts(tidings).length === 0);
});

test("a message that waits when the user signs out is discarded, and says so", async () => {
  const server = twoMessages();
  server.isUp = false;
  const tidings = client(server);
  await tidings.start();
  const { done } = tidings.chat("c").send("too late");
  const signedOut = tidings.signOut();
  await assert.rejects(done, { code: "send.discarded" });
  await signedOut;
});

// Tabs.

/** A server with two messages, and two tabs of one browser, both live; the first one leads. */
async function twoTabs() {
  const locks = new FakeLocks();
  Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true });
  const server = twoMessages();
  const storage = memory();
  const shared = { tabs: "share", storage };
  const leader = client(server, shared);
  const other = client(server, shared);
  for (const tab of [leader, other]) {
    await tab.start();
    await live(tab);
  }
  return { server, leader, other, storage };
}

test("the leader sends what a tab wrote that was closed before it could hand it over", async () => {
  const { server, leader, other } = await twoTabs();
  server.isUp = false;
  server.cut();
  await until(() => leader.state.snapshot().connection !== "live");
  other.chat("c").send("from the other tab");
  await until(() => other.state.snapshot().queued === 1);
  await other.stop();
  server.isUp = true;
  await until(() => server.logs.get("c")?.at(-1)?.content === "from the other tab");
  assert.equal(server.logs.get("c")?.length, 3);
});

test("a leader without a connection answers the tabs that wait for it", async (context) => {
  const { server, leader, other } = await twoTabs();
  server.isUp = false;
  server.cut();
  await until(() => leader.state.snapshot().connection !== "live");
  const post = context.mock.method(BroadcastChannel.prototype, "postMessage");
  await other.stop();
  await other.start();
  await until(() => post.mock.calls.some((call) => call.arguments[0]?.down?.op === "pong"));
});

test("what one tab discards no other tab sends", async (context) => {
  const { server, leader, other, storage } = await twoTabs();
  server.isUp = false;
  server.cut();
  await until(() => leader.state.snapshot().connection !== "live");
  const post = context.mock.method(BroadcastChannel.prototype, "postMessage");
  const { id, done } = other.chat("c").send("a mistake");
  await until(() => post.mock.calls.some((call) => call.arguments[0]?.up?.op === "send"));
  other.discard("c", id);
  await assert.rejects(done, Refused);
  await until(async () => (await storage.load()).outbox.length === 0);
  server.isUp = true;
  await live(leader);
  leader.chat("c").send("right");
  await until(() => server.logs.get("c")?.at(-1)?.content === "right");
  assert.equal(server.logs.get("c")?.length, 3);
});

test("a message of a tab is in the log once, although the leader dies before the answer", async () => {
  const { server, leader, other } = await twoTabs();
  server.answers = false;
  const { done } = other.chat("c").send("once");
  await until(() => server.logs.get("c")?.length === 3);
  server.answers = true;
  await leader.stop();
  assert.equal((await done).sequence, 3);
  await live(other);
  assert.equal(server.logs.get("c")?.length, 3);
  assert.equal(other.state.snapshot().queued, 0);
});

test("who signs out of a client that is stopped is signed out in the other tabs", async () => {
  const { leader, other } = await twoTabs();
  await leader.stop();
  await leader.signOut();
  await until(() => other.state.snapshot().connection === "stopped");
  assert.equal(other.user, null);
});
