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
  const files = [{ attachment_id: "a", name: "plan.pdf", content_type: "x/y", size: 9 }];
  const first = rowOf({ ...message(2), attachments: files });
  const edited = patched(first, change(3, "edited", { content: "new" }));
  assert.deepEqual(edited?.attachments, files);
  assert.equal(edited?.content, "new");
  assert.equal(edited?.editedAt, Date.parse("2026-11-16T10:01:00.000Z"));
  const redacted = patched(/** @type {any} */ (edited), change(4, "redacted"));
  assert.equal(redacted?.gone, "redacted");
  assert.equal(redacted && "content" in redacted, false);
  assert.equal(redacted && "attachments" in redacted, false);
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

test("what a message counts that came by itself is counted when it comes", () => {
  // It was read from the log when entry 4 was in it.
  let row = rowOf(message(2, { reactions: { "👍": 1 }, reply_count: 1 }));
  assert.deepEqual([row.reactions, row.replyCount], [undefined, undefined]);
  row = patched(row, change(3, "reacted", { emoji: "👍" }));
  row = patched(row, message(4, { reply_to: 2 }));
  assert.deepEqual([row.reactions, row.replyCount], [{ "👍": 1 }, 1]);
});

test("replies are counted once, and a redaction takes the mentions but not the replies", () => {
  const row = rowOf(message(2, { reply_count: 3, mentions: ["alice"], silent: true }), 9);
  assert.equal(patched(row, message(8, { reply_to: 2 })), row);
  const answered = patched(row, message(10, { reply_to: 2 }));
  assert.equal(patched(answered, message(10, { reply_to: 2 })).replyCount, 4);
  const gone = patched(answered, change(11, "redacted"));
  assert.deepEqual([gone.replyCount, "mentions" in gone, gone.silent], [4, false, true]);
});

test("the content of an expired message is gone at that moment", () => {
  const row = rowOf(message(2, { expires_at: "2026-11-16T10:00:05.000Z" }));
  const end = Date.parse("2026-11-16T10:00:05.000Z");
  assert.equal(current(row, end - 1), row);
  assert.equal(current(row, end).gone, "expired");
});
