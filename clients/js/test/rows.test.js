// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";

import { current, patched, rowOf } from "../src/rows.js";
import { message, randomFrom } from "./support.js";

/**
 * @param {number} sequence
 * @param {string} kind
 * @param {Partial<import("../src/frames.js").Entry>} [fields]
 * @returns {import("../src/frames.js").Entry}
 */
const change = (sequence, kind, fields = {}) => ({
  chat: "c",
  sequence,
  kind,
  sender: "bob",
  created_at: "2026-11-16T10:01:00.000Z",
  target: 2,
  ...fields,
});

test("a message becomes a row", () => {
  const row = rowOf(message(2));
  assert.deepEqual(
    { content: row.content, id: row.id, at: row.at, asOf: row.asOf },
    { content: "text 2", id: "m2", at: Date.parse("2026-11-16T10:00:00.000Z"), asOf: 2 },
  );
});

test("an edit replaces the content, and a redaction takes it away for good", () => {
  const edited = patched(rowOf(message(2)), change(3, "edited", { content: "new" }));
  assert.equal(edited?.content, "new");
  assert.equal(edited?.editedAt, Date.parse("2026-11-16T10:01:00.000Z"));
  const redacted = patched(/** @type {any} */ (edited), change(4, "redacted"));
  assert.equal(redacted?.gone, "redacted");
  assert.equal(redacted && "content" in redacted, false);
  assert.equal(
    patched(/** @type {any} */ (redacted), change(5, "edited", { content: "x" }))?.content,
    undefined,
  );
});

test("reactions are counted once, however the message and they arrive", () => {
  for (let seed = 1; seed <= 200; seed += 1) {
    const random = randomFrom(seed);
    /** @type {import("../src/frames.js").Entry[]} */
    const log = [];
    let count = 0;
    for (let sequence = 3; sequence < 13; sequence += 1) {
      const isMore = count === 0 || random() < 0.6;
      count += isMore ? 1 : -1;
      log.push(change(sequence, isMore ? "reacted" : "unreacted", { emoji: "👍" }));
    }
    // The message is read with all reactions up to `head`; entries from `from` on are applied.
    const head = 2 + Math.floor(random() * 11);
    const from = 3 + Math.floor(random() * 10);
    const before = log.filter((entry) => entry.sequence <= head);
    const total = before.reduce((sum, entry) => sum + (entry.kind === "reacted" ? 1 : -1), 0);
    const reactions = total ? { reactions: { "👍": total } } : {};
    if (from > head + 1) continue; // there would be a gap
    let row = rowOf(message(2, reactions), head);
    for (const entry of log) if (entry.sequence >= from) row = patched(row, entry) ?? row;
    assert.equal(row.reactions?.["👍"] ?? 0, count, `seed ${seed}`);
  }
});

test("a message that came with reactions by itself must be read again at the next reaction", () => {
  const row = rowOf(message(2, { reactions: { "👍": 1 } }));
  assert.equal(patched(row, change(3, "reacted", { emoji: "👍" })), null);
});

test("the content of an expired message is gone at that moment", () => {
  const row = rowOf(message(2, { expires_at: "2026-11-16T10:00:05.000Z" }));
  const end = Date.parse("2026-11-16T10:00:05.000Z");
  assert.equal(current(row, end - 1), row);
  assert.equal(current(row, end).gone, "expired");
});
