// SPDX-License-Identifier: Apache-2.0
/**
 * Which reactions are the user's own. A log has only their numbers, so this is asked for, once for
 * all messages that are shown, and then kept up to date from the entries of the log.
 */

/** @typedef {import("../src/frames.js").Entry} Entry */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("../src/tidings.js").Tidings} Tidings */

const PAGE_MESSAGES = 100;
const MESSAGES_MAX = 2_000;

/** @param {{chat: string, sequence: number}} message */
const keyOf = ({ chat, sequence }) => `${chat} ${sequence}`;

export class OwnReactions {
  /** The user's reactions to each message. */
  #known = /** @type {Map<string, readonly string[]>} */ (new Map());
  #wanted = /** @type {Map<string, Row>} */ (new Map());
  /** Number of own reactions that were added or removed so far. */
  #news = 0;
  #tidings;
  #changed;

  /**
   * @param {Tidings} tidings
   * @param {() => void} changed - Called when there is more to show.
   */
  constructor(tidings, changed) {
    this.#tidings = tidings;
    this.#changed = changed;
  }

  /**
   * Return the user's reactions to a message, and ask for them if they are not known. The result is
   * the same object until it changes.
   *
   * @param {Row} row
   */
  to(row) {
    if (!Object.keys(row.reactions ?? {}).length) return null;
    const known = this.#known.get(keyOf(row));
    if (!known) this.#ask(row);
    return known ?? null;
  }

  /**
   * Return whether a reaction is the user's own.
   *
   * @param {Row} row
   * @param {string} emoji
   */
  async has(row, emoji) {
    if (!row.reactions?.[emoji]) return false;
    if (!this.#known.has(keyOf(row))) await this.#load(row.chat, [row.sequence]);
    return !!this.#known.get(keyOf(row))?.includes(emoji);
  }

  /** Handle an entry of the user. @param {Entry} entry */
  applied({ chat, target, kind, emoji }) {
    if (!target || !emoji) return;
    this.#news += 1;
    const key = keyOf({ chat, sequence: target });
    const others = this.#known.get(key)?.filter((one) => one !== emoji);
    if (others) this.#known.set(key, kind === "reacted" ? [...others, emoji] : others);
    this.#changed();
  }

  /** @param {Row} row */
  #ask(row) {
    if (this.#wanted.has(keyOf(row))) return;
    if (!this.#wanted.size) setTimeout(() => void this.#fetch(), 0);
    this.#wanted.set(keyOf(row), row);
  }

  async #fetch() {
    const rows = [...this.#wanted.values()];
    let isLoaded = true;
    for (const chat of new Set(rows.map((row) => row.chat))) {
      const sequences = rows.filter((row) => row.chat === chat).map((row) => row.sequence);
      await this.#load(chat, sequences).catch(() => (isLoaded = false));
    }
    // What could not be loaded is asked for again with the next update, which must not be now.
    for (const row of rows) this.#wanted.delete(keyOf(row));
    if (isLoaded) this.#changed();
  }

  /**
   * Load the reactions to some messages, in pages that begin with the newest of them.
   *
   * @param {string} chat
   * @param {number[]} sequences
   * @returns {Promise<void>}
   */
  async #load(chat, sequences) {
    if (this.#known.size > MESSAGES_MAX) this.#known.clear();
    const news = this.#news;
    let left = sequences;
    while (left.length) {
      const query = `before=${Math.max(...left) + 1}&limit=${PAGE_MESSAGES}`;
      const { data } = await this.#tidings.request("GET", `/v1/chats/${chat}/messages?${query}`);
      // The answer may be older than what the user has done meanwhile.
      if (news !== this.#news) return this.#load(chat, left);
      const found = new Map(data.map((/** @type {any} */ one) => [one.sequence, one.reactions]));
      const end = data.at(-1)?.sequence ?? 0;
      for (const sequence of left.filter((one) => one >= end)) {
        const own = (found.get(sequence) ?? []).filter((/** @type {any} */ one) => one.mine);
        const emoji = own.map((/** @type {any} */ one) => one.emoji);
        this.#known.set(keyOf({ chat, sequence }), emoji);
      }
      left = left.filter((one) => one < end);
    }
  }
}
