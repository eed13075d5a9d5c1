// SPDX-License-Identifier: Apache-2.0
/** What the list of chats shows of chats that nobody has opened. */

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { memory, SignedOut, Tidings } from "../src/index.js";
import { FakeServer, until } from "./fake_server.js";

/** @type {Tidings[]} */
const open = [];
afterEach(() => Promise.all(open.splice(0).map((client) => client.stop())));

/** @param {FakeServer} server */
function client({ WebSocket, fetch }) {
  const options = { storage: memory(), tabs: /** @type {const} */ ("each"), WebSocket, fetch };
  const made = new Tidings("http://test", { token: () => "t", ...options });
  open.push(made);
  return made;
}

function oneChat() {
  const server = new FakeServer();
  server.append("c", { content: "one" });
  return server;
}

test("whoever has sent a message types no longer", async () => {
  const server = oneChat();
  const tidings = client(server);
  await tidings.start();
  await until(() => tidings.chats.record("c"));
  const chat = tidings.chat("c");
  server.say({ op: "typing", chat: "c", user: "bob" });
  await until(() => chat.snapshot().typing.length === 1);
  const arrived = new Promise((resolve) => tidings.on(resolve));
  server.append("c", { sender: "bob", content: "two" });
  await arrived;
  assert.deepEqual(chat.snapshot().typing, []);
});

test("a chat that the user has left does not stay in the list that was kept", async () => {
  const tidings = client(oneChat());
  const kept = ["c", "left"].map((chat_id) => ({ chat_id, last_activity_at: "", members: [] }));
  tidings.chats.keep(/** @type {any} */ (kept));
  assert.equal(tidings.chats.records.length, 2);
  await tidings.start();
  await until(() => tidings.chats.records.length === 1);
  assert.equal(tidings.chats.record("left"), null);
});

test("a list that comes after signing out is not shown", async () => {
  const server = oneChat();
  let letThrough = () => {};
  const gate = new Promise((resolve) => (letThrough = () => resolve(null)));
  const fetch = async (/** @type {[any, any]} */ ...asked) => {
    if (String(asked[0]).includes("/v1/chats?")) await gate;
    return server.fetch(...asked);
  };
  const tidings = client(/** @type {any} */ ({ WebSocket: server.WebSocket, fetch }));
  await tidings.start();
  await until(() => tidings.user);
  const loading = tidings.chats.reload();
  await tidings.signOut();
  letThrough();
  await assert.rejects(loading, SignedOut);
  assert.deepEqual(tidings.chats.records, []);
});
