// SPDX-License-Identifier: Apache-2.0
/** The messages that replies answer: those that are shown anyway, and others that are loaded. */

import { messageRow } from "../src/lists.js";

/** @typedef {import("../src/rows.js").ChatSnapshot} ChatSnapshot */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("../src/tidings.js").Tidings} Tidings */

const LOADED_MAX = 500;

export class Quotes {
  #loaded = /** @type {Map<string, Row>} */ (new Map());
  #wanted = /** @type {Map<string, {chat: string, sequence: number}>} */ (new Map());
  #tidings;
  #changed;

  /**
   * @param {Tidings} tidings
   * @param {() => void} changed - Called when a message has been loaded.
   */
  constructor(tidings, changed) {
    this.#tidings = tidings;
    this.#changed = changed;
  }

  /**
   * Return a message, and ask for it if it is not known; null until then. The result is the same
   * object until it changes.
   *
   * @param {ChatSnapshot} snapshot
   * @param {number} sequence
   */
  of({ id: chat, rows }, sequence) {
    const key = `${chat} ${sequence}`;
    const row = rows.find((one) => one.sequence === sequence) ?? this.#loaded.get(key);
    if (row) return row;
    if (!this.#wanted.size) setTimeout(() => void this.#load(), 0);
    this.#wanted.set(key, { chat, sequence });
    return null;
  }

  /** Forget what an event has changed, so that it is loaded again. @param {any} event */
  happened({ type, entry }) {
    if (type === "erased") this.#loaded.clear();
    else if (type === "entry") this.#loaded.delete(`${entry.chat} ${entry.target}`);
  }

  /** Load the messages one by one. The one that was asked for last comes first. */
  async #load() {
    while (this.#wanted.size) {
      const [key, wanted] = /** @type {[string, any]} */ ([...this.#wanted].at(-1));
      const row = await this.#one(wanted);
      this.#wanted.delete(key);
      if (!row) continue; // it is asked for again when the chat is shown anew
      if (this.#loaded.size >= LOADED_MAX) this.#loaded.clear();
      this.#loaded.set(key, row);
      this.#changed();
    }
  }

  /**
   * @param {{chat: string, sequence: number}} wanted
   * @returns {Promise<Row | null>}
   */
  async #one({ chat, sequence }) {
    try {
      const path = `/v1/chats/${chat}/messages/${sequence}`;
      return messageRow(await this.#tidings.request("GET", path));
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "Refused") return null;
      const at = { sender: "", at: 0, asOf: 0 };
      return { chat, sequence, kind: "message", gone: "expired", ...at };
    }
  }
}
