// SPDX-License-Identifier: Apache-2.0
/** What views show when things come at a bad moment. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { memory } from "../src/index.js";
import { client, live, texts, twoMessages } from "./clients.js";
import { FakeServer, until } from "./fake_server.js";

test("an entry that comes while the newest page is on its way is shown", async () => {
  const server = twoMessages();
  const page = server.page.bind(server);
  server.page = (frame) => {
    const answer = page(frame);
    server.page = page;
    server.append("c", { content: "three" });
    return answer;
  };
  const tidings = client(server);
  await tidings.start();
  await live(tidings);
  await until(() => tidings.chats.snapshot().chats.length === 1);
  tidings.chat("c").subscribe(() => {});
  await until(() => tidings.chat("c").snapshot().isLoaded);
  server.append("c", { content: "four" });
  await until(() => texts(tidings).includes("four"));
  assert.deepEqual(texts(tidings), ["one", "two", "three", "four"]);
});

test("a message that is redacted while the cache is read is not shown", async () => {
  const server = twoMessages();
  const storage = memory();
  const before = client(server, { storage });
  await before.start();
  before.chat("c").subscribe(() => {});
  await until(() => texts(before).length === 2);
  await before.stop();

  let applied = 0;
  const page = async (/** @type {[string, number, number]} */ ...range) => {
    const kept = await storage.page(...range);
    server.append("c", { kind: "redacted", target: 1 });
    await until(() => applied === 1);
    return kept;
  };
  const tidings = client(server, { storage: { ...storage, page } });
  tidings.on(({ type }) => void (type === "entry" && (applied += 1)));
  await tidings.start();
  await live(tidings);
  tidings.chat("c").subscribe(() => {});
  await until(() => tidings.chat("c").snapshot().isLoaded);
  assert.deepEqual(texts(tidings), ["redacted", "two"]);
});

test("a message that is redacted while older ones are loaded is not shown", async () => {
  const server = new FakeServer();
  for (let n = 1; n <= 60; n += 1) server.append("c", { content: `${n}` });
  const tidings = client(server);
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => texts(tidings).length === 50);
  const page = server.page.bind(server);
  server.page = (frame) => {
    const answer = structuredClone(page(frame));
    server.append("c", { kind: "redacted", target: 3 });
    return answer;
  };
  await tidings.chat("c").older();
  assert.deepEqual(texts(tidings).slice(0, 4), ["1", "2", "redacted", "4"]);
});

test("a message that comes while older ones are loaded leaves no hole", async () => {
  const server = new FakeServer();
  for (let n = 1; n <= 460; n += 1) server.append("c", { content: `${n}` });
  const tidings = client(server);
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => texts(tidings).length === 50);
  const chat = tidings.chat("c");
  for (let n = 0; n < 7; n += 1) await chat.older();
  const page = server.page.bind(server);
  server.page = (frame) => {
    server.append("c", { content: "461" });
    return page(frame);
  };
  await chat.older();
  const sequences = chat.snapshot().rows.map((row) => row.sequence);
  assert.deepEqual(
    sequences,
    [...Array(400).keys()].map((n) => n + sequences[0]),
  );
});

test("a chat is shown with a whole page, not with the few rows that came by themselves", async () => {
  const server = twoMessages();
  const tidings = client(server);
  let entries = 0;
  tidings.on(({ type }) => void (type === "entry" && (entries += 1)));
  await tidings.start();
  await live(tidings);
  await until(() => tidings.chats.record("c") !== null);
  server.append("c", { content: "three" });
  await until(() => entries === 1);
  const view = tidings.chat("c");
  /** @type {number[]} */
  const shown = [];
  view.subscribe(() => void (view.snapshot().isLoaded && shown.push(texts(tidings).length)));
  await until(() => shown.length > 0);
  assert.equal(shown[0], 3);
});

test("what a blocked user wrote is gone at once, and is not unread", async () => {
  const server = twoMessages();
  const tidings = client(server);
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => texts(tidings).length === 2 && tidings.chats.record("c"));
  const entries = server.logs.get("c") ?? [];
  const [first] = /** @type {[any]} */ (/** @type {unknown} */ (entries));
  entries[0] = { ...first, content: undefined, blocked: true };
  /** @type {Set<any>} */
  const shown = new Set();
  const end = tidings.chat("c").subscribe(() => void shown.add(texts(tidings)[1]));
  server.say({ op: "chat_changed" });
  await until(() => texts(tidings)[0] === "blocked");
  assert.deepEqual([...shown], ["two"], "what others wrote stays");
  end();
  server.append("c", { blocked: true });
  await until(() => texts(tidings).length === 3);
  assert.equal(tidings.chats.record("c")?.unread, 0);
  entries[0] = first;
  server.say({ op: "chat_changed" });
  await until(() => texts(tidings)[0] === "one");
});

test("a message is gone from the view when it expires", async () => {
  const server = twoMessages();
  const tidings = client(server);
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => texts(tidings).length === 2);
  const expires_at = new Date(Date.now() + 150).toISOString();
  server.append("c", { content: "a secret", expires_at });
  // A snapshot stays the same until the view has changed.
  await until(() => texts(tidings)[2] === "expired");
});

/** @param {FakeServer} server @param {string} author */
async function erase(server, author) {
  const salt = "00ff";
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const bytes = new Uint8Array([0, 255]);
  const key = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]);
  const digest = await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(author));
  const authors = [
    { digest: Buffer.from(digest).toString("hex", 0, 8), before: "2030-01-01T00:00:00.000Z" },
  ];
  server.say({ op: "erased", n: 7, salt, authors });
}

test("erased content goes, even if it comes after the word of it", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const server = twoMessages();
  const storage = memory();
  const tidings = client(server, { storage });
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => texts(tidings).length === 2);
  await erase(server, "bob");
  await until(() => texts(tidings).every((text) => text === "erased"));
  server.append("c", { content: "late" });
  server.append("c", { content: "of carol", sender: "carol" });
  await until(() => texts(tidings).length === 4);
  context.mock.timers.tick(60_000);
  await until(() => texts(tidings)[2] === "erased");
  assert.equal(texts(tidings)[3], "of carol");
  await until(async () => (await storage.load()).meta.erasures === 7);
});

test("if everything was erased nothing is shown until it is read again", async () => {
  const server = twoMessages();
  const tidings = client(server);
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => texts(tidings).length === 2);
  server.page = () => ({ op: "nothing" });
  server.say({ op: "erased", all: true, n: 9 });
  await until(() => texts(tidings).every((text) => text === "erased"));
});

test("a new name of somebody is shown in the chat list", async () => {
  const server = twoMessages();
  const record = server.record.bind(server);
  const bob = { user_id: "bob", display_name: "Bob", avatar_url: null };
  server.record = (chat) => ({ ...record(chat), others: [bob] });
  const tidings = client(server);
  await tidings.start();
  await until(() => tidings.chats.snapshot().chats[0]?.others?.[0]?.display_name === "Bob");
  server.say({ op: "profile", user: "bob", display_name: "Robert", avatar_url: null });
  await until(() => tidings.chats.snapshot().chats[0]?.others?.[0]?.display_name === "Robert");
});

// Listeners.

test("a listener that throws does not keep others from hearing", async (context) => {
  /** @type {Error[]} */
  const errors = [];
  process.setUncaughtExceptionCaptureCallback((error) => void errors.push(error));
  context.after(() => process.setUncaughtExceptionCaptureCallback(null));
  const server = twoMessages();
  const tidings = client(server);
  const heard = { events: 0, views: 0 };
  const fail = () => {
    throw new Error("not our fault");
  };
  const ends = [tidings.on(fail), tidings.chat("c").subscribe(fail)];
  tidings.on(({ type }) => void (type === "entry" && (heard.events += 1)));
  tidings.chat("c").subscribe(() => void (heard.views += 1));
  await tidings.start();
  await until(() => texts(tidings).length === 2);
  server.append("c", { content: "three" });
  await until(() => heard.events === 1 && heard.views > 0);
  assert.equal(tidings.state.snapshot().connection, "live");
  assert(errors.length >= 2);
  for (const end of ends) end();
});

/** How far everyone else has received and read a chat. @param {any} tidings */
const marks = (tidings) => {
  const { delivered, read } = tidings.chat("c").snapshot();
  return [delivered, read];
};

const CHANGED = { op: "chat_changed", chat: "c" };
const RECEIPTS = "/v1/chats/c/receipts";
const CAROL = { user_id: "carol", delivered: 1, read: 1 };

test("receipts that were asked for do not replace newer ones", async () => {
  const server = twoMessages();
  const tidings = client(server);
  server.routes[RECEIPTS] = async () => {
    server.say({ op: "receipt", chat: "c", user: "bob", delivered: 2, read: 2 });
    await until(() => marks(tidings)[1] === 2);
    return { data: [{ user_id: "bob", delivered: 1, read: 0 }, CAROL] };
  };
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => marks(tidings)[1] < 2 && marks(tidings)[0] > 0);
  assert.deepEqual(marks(tidings), [1, 1], "Carol's");
  server.say({ op: "receipt", chat: "c", user: "carol", delivered: 2, read: 2 });
  await until(() => marks(tidings)[1] === 2);
});

test("receipts that came while there was no connection are asked for", async () => {
  const server = twoMessages();
  const bob = { user_id: "bob", delivered: 1, read: 1 };
  server.routes[RECEIPTS] = () => ({ data: [bob] });
  const tidings = client(server);
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => marks(tidings)[1] === 1);
  bob.read = bob.delivered = 2;
  server.cut();
  await until(() => marks(tidings)[1] === 2);
});

test("members who have left do not hold up the others' receipts", async () => {
  const server = twoMessages();
  const bob = { user_id: "bob", delivered: 2, read: 2 };
  server.routes[RECEIPTS] = () => ({ data: [bob, CAROL] });
  const tidings = client(server);
  await tidings.start();
  tidings.chat("c").subscribe(() => {});
  await until(() => marks(tidings)[1] === CAROL.read);
  server.append("c", { kind: "removed", users: ["carol"] });
  await until(() => marks(tidings)[1] === 2);
});

for (const [what, path, cause] of [
  ["a chat", "/v1/chats/c", (/** @type {FakeServer} */ one) => one.say(CHANGED)],
  ["the chat list", "/v1/chats", (/** @type {FakeServer} */ one) => one.cut()],
]) {
  test(`an answer about ${what} does not replace what came after it`, async () => {
    const server = twoMessages();
    const tidings = client(server);
    const preview = () => tidings.chats.record("c")?.last_message?.preview;
    await tidings.start();
    await until(() => preview() === "two");
    server.routes[path] = async () => {
      const old = server.record("c");
      server.append("c", { content: "three" });
      await until(() => preview() === "three");
      delete server.routes[path];
      return path.endsWith("c") ? old : { data: [old], next_cursor: null };
    };
    const asked = server.requests.length;
    cause(server);
    await until(() => server.requests.slice(asked + 1).includes("GET /v1/chats/c"));
    assert.equal(preview(), "three");
  });
}
