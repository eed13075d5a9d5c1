// SPDX-License-Identifier: Apache-2.0
/** The client against a real server, whose address and tokens come from the environment. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { memory, Refused, SignedOut, Tidings } from "../../src/index.js";
import { randomFrom } from "../support.js";

const URL = process.env.TIDINGS_URL ?? "";
/** @type {Record<string, string>} */
const TOKENS = JSON.parse(process.env.TIDINGS_TOKENS ?? "{}");
const WAIT_MS = 60_000;

/** @type {Tidings[]} */
const open = [];
/** @type {Tidings} */
let alice;
/** @type {Tidings} */
let bob;

/**
 * @param {string} user
 * @param {Partial<import("../../src/tidings.js").Options>} [options]
 */
function client(user, options = {}) {
  const token = () => TOKENS[user] ?? "";
  const made = new Tidings(URL, { token, storage: memory(), ...options });
  open.push(made);
  return made;
}

/**
 * Wait until a view is as expected.
 *
 * @template T
 * @param {{snapshot: () => T, subscribe: (listener: () => void) => () => void}} view
 * @param {(snapshot: T) => unknown} expected
 * @returns {Promise<T>}
 */
function until(view, expected) {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`not yet: ${JSON.stringify(view.snapshot())}`));
    const timer = setTimeout(late, WAIT_MS);
    const look = () => {
      if (!expected(view.snapshot())) return;
      clearTimeout(timer);
      queueMicrotask(end);
      resolve(view.snapshot());
    };
    const end = view.subscribe(look);
    look();
  });
}

/** @param {import("../../src/chat_view.js").ChatSnapshot} snapshot */
const texts = ({ rows }) => rows.flatMap((row) => (row.kind === "message" ? [row.content] : []));

/** @param {Tidings} tidings */
const live = (tidings) => until(tidings.state, (state) => state.connection === "live");

before(async () => {
  alice = client("alice");
  bob = client("bob");
  await Promise.all([alice.start(), bob.start()]);
  await Promise.all([live(alice), live(bob)]);
});

after(() => Promise.all(open.map((one) => one.stop())));

test("a message is shown at once, and reaches the other person", async () => {
  const { chat_id } = await alice.chats.direct("bob");
  const mine = alice.chat(chat_id);
  const sent = mine.send("Hello Bob");
  assert.equal(mine.snapshot().rows.at(-1)?.state, "pending");
  const { sequence } = await sent.done;
  const theirs = bob.chat(chat_id);
  await until(theirs, (chat) => texts(chat).includes("Hello Bob"));
  await until(
    bob.chats,
    ({ chats }) => chats.find((chat) => chat.chat_id === chat_id)?.unread === 1,
  );
  theirs.read();
  await until(mine, (chat) => chat.read >= sequence);
  await until(
    bob.chats,
    ({ chats }) => chats.find((chat) => chat.chat_id === chat_id)?.unread === 0,
  );
});

test("edits, reactions and redactions change what is shown", async () => {
  const { chat_id } = await alice.chats.group("Lunch", ["bob"]);
  const mine = alice.chat(chat_id);
  const theirs = bob.chat(chat_id);
  const { sequence } = await mine.send("One?").done;
  /** @param {import("../../src/chat_view.js").ChatSnapshot} chat */
  const row = (chat) => chat.rows.find((one) => one.sequence === sequence);
  await until(theirs, row);
  await mine.edit(sequence, "Two?");
  await until(theirs, (chat) => row(chat)?.content === "Two?" && row(chat)?.editedAt);
  await theirs.react(sequence, "👍");
  await until(mine, (chat) => row(chat)?.reactions?.["👍"] === 1);
  await theirs.unreact(sequence, "👍");
  await until(mine, (chat) => !row(chat)?.reactions?.["👍"]);
  await mine.redact(sequence);
  await until(
    theirs,
    (chat) => row(chat)?.gone === "redacted" && !("content" in (row(chat) ?? {})),
  );
});

test("a long log is read page by page, from the end to the beginning", async () => {
  const { chat_id } = await alice.chats.group("Long", ["bob"]);
  const mine = alice.chat(chat_id);
  const sent = Array.from({ length: 120 }, (_, number) => `line ${number}`);
  await Promise.all(sent.map((text) => mine.send(text).done));
  const late = client("bob", { device: "late" });
  await late.start();
  const view = late.chat(chat_id);
  await until(view, (chat) => chat.isLoaded);
  while (view.snapshot().hasOlder) await view.older();
  assert.deepEqual(texts(view.snapshot()), sent);
  await view.around(20);
  assert.equal(view.snapshot().hasNewer, true);
  while (view.snapshot().hasNewer) await view.newer();
  assert.equal(texts(view.snapshot()).at(-1), "line 119");
});

test("a message that the server refuses fails visibly, and can be discarded", async () => {
  const { chat_id } = await alice.chats.group("Left", ["bob"]);
  await until(bob.chats, ({ chats }) => chats.some((chat) => chat.chat_id === chat_id));
  await bob.request("DELETE", `/v1/chats/${chat_id}/members/bob`);
  const view = bob.chat(chat_id);
  const { id, done } = view.send("still here?");
  await assert.rejects(
    done,
    (error) => error instanceof Refused && error.code === "chat.not_found",
  );
  assert.equal(view.snapshot().rows.at(-1)?.state, "failed");
  bob.discard(chat_id, id);
  assert.deepEqual(texts(view.snapshot()), []);
});

test("cut off fifty times in the middle of sends, nothing is lost, doubled or out of order", async () => {
  const random = randomFrom(7);
  let cuts = 0;
  /** A socket that ends by itself now and then, with frames on their way. */
  class Fragile extends WebSocket {
    /** @param {any} data */
    send(data) {
      super.send(data);
      if (cuts < 50 && random() < 0.3) {
        cuts += 1;
        this.close();
      }
    }
  }
  const clock = { now: () => performance.now(), wall: () => Date.now(), random: () => 0 };
  const carol = client("carol", { WebSocket: Fragile, clock });
  await carol.start();
  const { chat_id } = await carol.chats.direct("bob");
  const view = carol.chat(chat_id);
  const sent = [];
  const done = [];
  while (cuts < 50) {
    sent.push(`word ${sent.length}`);
    done.push(view.send(sent.at(-1) ?? "").done);
    if (done.length % 5 === 0) await Promise.all(done.splice(0));
  }
  await Promise.all(done);
  const theirs = bob.chat(chat_id);
  await until(theirs, (chat) => texts(chat).at(-1) === sent.at(-1));
  while (theirs.snapshot().hasOlder) await theirs.older();
  assert.deepEqual(texts(theirs.snapshot()), sent);
  assert.ok(cuts >= 50);
});

test("drafts and unsent messages outlive the client, and signing out deletes everything", async () => {
  const storage = memory();
  const { chat_id } = await alice.chats.direct("dave");
  const first = client("dave", { storage });
  await first.start();
  await live(first);
  await first.stop();
  const offline = client("dave", { storage, token: () => Promise.reject(new Error("offline")) });
  await offline.start();
  offline.chat(chat_id).draft("unfinished");
  void offline.chat(chat_id).send("written offline");
  await offline.stop();
  const again = client("dave", { storage });
  await again.start();
  assert.equal(again.chat(chat_id).snapshot().draft, "unfinished");
  await until(alice.chat(chat_id), (chat) => texts(chat).includes("written offline"));
  await again.signOut();
  const { meta, outbox, drafts, ranges } = await storage.load();
  assert.deepEqual([meta.user, outbox, drafts, ranges], [null, [], [], []]);
});

test("a provider that says that the user is signed out stops the client", async () => {
  const gone = client("dave", {
    token: () => {
      throw new SignedOut();
    },
  });
  await gone.start();
  const state = await until(gone.state, ({ error }) => error);
  assert.ok(state.error instanceof SignedOut);
  assert.equal(state.connection, "stopped");
});
