// SPDX-License-Identifier: Apache-2.0
/** Cache the logs that were loaded, so that a page shows them at once, even without a network. */

import { erasedBy } from "./erasures.js";
import { current, rowOf, targetOf, without } from "./rows.js";

/** @typedef {import("./frames.js").Entry} Entry */
/** @typedef {import("./frames.js").ServerFrame} ServerFrame */
/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./storage.js").Range} Range */

const KEEP_MS = 30 * 24 * 60 * 60 * 1_000;

export class Cache {
  ranges = /** @type {Map<string, Range>} */ (new Map());
  #storage;
  #journal;
  #clock;
  #mayWrite;

  /**
   * @param {import("./storage.js").Storage} storage
   * @param {import("./journal.js").Journal} journal
   * @param {{wall: () => number}} clock
   * @param {() => boolean} mayWrite - Whether this tab writes logs. Only the one with the socket
   *   does, so that nothing is written twice.
   */
  constructor(storage, journal, clock, mayWrite) {
    this.#storage = storage;
    this.#journal = journal;
    this.#clock = clock;
    this.#mayWrite = mayWrite;
  }

  /**
   * Keep an entry that follows the kept ones.
   *
   * @param {Entry} entry
   */
  add(entry) {
    const { chat, sequence } = entry;
    this.#set({ start: sequence, ...this.ranges.get(chat), chat, have: sequence });
    if (!this.#mayWrite()) return;
    if (targetOf(entry)) this.#journal.changes.patches.push(entry);
    if (!entry.target) this.#journal.changes.rows.push(rowOf(entry));
  }

  /**
   * Keep the newest page of a chat.
   *
   * @param {Range} range
   * @param {Row[]} rows
   */
  begin(range, rows) {
    this.#set(range);
    if (this.#mayWrite()) this.#journal.changes.rows.push(...rows);
  }

  /**
   * Keep an older page of a chat, if it is adjacent to the kept rows.
   *
   * @param {string} chat
   * @param {number} start
   * @param {number} end - The first sequence after the page.
   * @param {Row[]} rows
   */
  extend(chat, start, end, rows) {
    const range = this.ranges.get(chat);
    if (range?.start === end) this.begin({ ...range, start }, rows);
  }

  /** @param {string} chat - A chat whose kept entries are not valid any more. */
  drop(chat) {
    this.ranges.delete(chat);
    if (this.#mayWrite()) this.#journal.changes.ranges.set(chat, null);
  }

  /** @param {Range} range */
  #set(range) {
    this.ranges.set(range.chat, range);
    if (this.#mayWrite()) this.#journal.changes.ranges.set(range.chat, range);
  }

  /**
   * Return the newest kept rows before a sequence, oldest first, and the range of the chat that is
   * kept.
   *
   * @param {string} chat
   * @param {number} before
   * @param {number} limit
   */
  async page(chat, before, limit) {
    await this.#journal.flush();
    return this.#storage.page(chat, before, limit);
  }

  /**
   * Delete the content of erased authors; return the change for rows that are shown.
   *
   * @param {Extract<ServerFrame, {op: "erased"}>} frame
   * @param {Iterable<string>} shown - The senders of rows that are shown.
   */
  async erase(frame, shown) {
    await this.#journal.flush();
    const senders = new Set(shown);
    await this.#storage.sweep((row) => (senders.add(row.sender), row));
    const isErased = await erasedBy(frame, senders);
    /** @param {Row} row */
    const fades = (row) => (isErased(row) ? without(row, "erased") : row);
    if (this.#mayWrite()) await this.#storage.sweep(fades);
    return fades;
  }

  /** Delete expired content, and rows that were kept for too long. */
  async sweep() {
    if (!this.#mayWrite()) return;
    const wall = this.#clock.wall();
    /** @type {Map<string, number>} */
    const deleted = new Map();
    await this.#storage.sweep((row) => {
      if (row.at >= wall - KEEP_MS) return current(row, wall);
      deleted.set(row.chat, Math.max(row.sequence, deleted.get(row.chat) ?? 0));
      return null;
    });
    for (const [chat, sequence] of deleted) {
      const range = this.ranges.get(chat);
      if (!range) continue;
      if (sequence >= range.have) this.drop(chat);
      else this.#set({ ...range, start: sequence + 1 });
    }
  }
}
