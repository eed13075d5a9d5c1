// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { erasedBy } from "../src/erasures.js";
import { rowOf } from "../src/rows.js";
import { memory, reserve } from "../src/storage.js";
import { message } from "./support.js";

/** @param {number[]} sequences */
const rows = (...sequences) => sequences.map((sequence) => rowOf(message(sequence)));

test("pages are the newest rows before a sequence, oldest first", async () => {
  const storage = memory();
  const range = { chat: "c", start: 1, have: 5 };
  await storage.save({ rows: rows(1, 2, 3, 4, 5), ranges: new Map([["c", range]]) });
  const page = await storage.page("c", 5, 2);
  assert.deepEqual(
    page.rows.map((row) => row.sequence),
    [3, 4],
  );
  assert.deepEqual(page.range, range);
});

test("a dropped chat has no rows, and others keep theirs", async () => {
  const storage = memory();
  const other = rowOf(message(1, { chat: "d" }));
  await storage.save({ rows: [...rows(1, 2), other] });
  await storage.save({ ranges: new Map([["c", null]]) });
  assert.deepEqual((await storage.page("c", 9, 9)).rows, []);
  assert.equal((await storage.page("d", 9, 9)).rows.length, 1);
});

test("changes reach rows that are kept", async () => {
  const storage = memory();
  await storage.save({ rows: rows(1) });
  const entry = { ...message(2), kind: "redacted", target: 1 };
  await storage.save({ patches: [entry] });
  assert.equal((await storage.page("c", 9, 9)).rows[0]?.gone, "redacted");
});

test("a storage that fails is replaced by memory, and nothing is lost of what comes after", async () => {
  const broken = { ...memory(), kind: "indexeddb", save: () => Promise.reject(new Error("full")) };
  let changes = 0;
  const storage = reserve(broken, () => (changes += 1));
  await storage.save({ rows: rows(1) });
  assert.deepEqual([storage.kind, changes], ["memory", 1]);
  assert.equal((await storage.page("c", 9, 9)).rows.length, 1);
});

test("a storage that never answers is given up", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const silent = { ...memory(), kind: "silent", save: () => new Promise(() => {}) };
  const storage = reserve(/** @type {any} */ (silent), () => {});
  const saved = storage.save({ rows: rows(1) });
  context.mock.timers.tick(30_000);
  await saved;
  assert.equal(storage.kind, "memory");
  assert.equal((await storage.page("c", 9, 9)).rows.length, 1);
});

test("a storage that never answers does not hold up who signs out", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const silent = { ...memory(), wipe: () => new Promise(() => {}) };
  const wiped = reserve(silent, () => {}).wipe();
  context.mock.timers.tick(30_000);
  await wiped;
});

test("erased authors are found by their digests, up to the moment of the erasure", async () => {
  const salt = "00ff10";
  const key = Buffer.from(salt, "hex");
  const digest = createHmac("sha256", key).update("bob").digest("hex").slice(0, 16);
  const at = "2026-11-16T10:00:00.000Z";
  const frame = {
    op: /** @type {const} */ ("erased"),
    n: 1,
    salt,
    authors: [{ digest, before: at }],
  };
  const isErased = await erasedBy(frame, ["alice", "bob"]);
  const row = rowOf(message(1));
  assert.equal(isErased(row), true);
  assert.equal(isErased({ ...row, at: row.at + 1 }), false);
  assert.equal(isErased({ ...row, sender: "alice" }), false);
});
