// SPDX-License-Identifier: Apache-2.0
/** The names of users. Chats bring those of a few members; others are asked for, many at once. */

import { h } from "./view.js";

/** @typedef {import("../src/chats_view.js").ChatRecord} ChatRecord */
/** @typedef {import("../src/tidings.js").Tidings} Tidings */

const IDS_MAX = 100;
/** The sender of what a tenant does. */
const TENANT = "~tenant";

export class People {
  #names = /** @type {Map<string, string>} */ (new Map());
  #wanted = /** @type {Set<string>} */ (new Set());
  #tidings;
  #changed;
  #operator = "";

  /**
   * @param {Tidings} tidings
   * @param {() => void} changed - Called when names have arrived.
   */
  constructor(tidings, changed) {
    this.#tidings = tidings;
    this.#changed = changed;
  }

  /** @param {string} text - What whoever runs the server is called. */
  set operator(text) {
    this.#operator = text;
  }

  /**
   * Return the name of a user, and ask for it if it is not known; until then it is the id.
   *
   * @param {string} user
   * @param {ChatRecord | null} [record]
   * @returns {string}
   */
  nameOf(user, record) {
    if (user === TENANT) return this.#operator;
    const other = record?.others?.find((one) => one.user_id === user);
    const name = other?.display_name ?? this.#names.get(user);
    if (name === undefined) this.#ask(user);
    return name || user;
  }

  /**
   * Return the name of a user as an element that keeps it from turning the text around it.
   *
   * @param {string} user
   * @param {ChatRecord | null} [record]
   */
  named(user, record) {
    return h("bdi", null, this.nameOf(user, record));
  }

  /**
   * Return the title of a chat: its name, or the names of the others.
   *
   * @param {ChatRecord} record
   */
  titleOf(record) {
    const names = record.members.slice(0, 5).map((user) => this.nameOf(user, record));
    return record.name || names.join(", ") || record.chat_id;
  }

  /** Return the users of all chats that are loaded, by name. */
  known() {
    /** @type {Map<string, string>} */
    const found = new Map();
    for (const chat of this.#tidings.chats.snapshot().chats) {
      for (const user of chat.members) found.set(user, this.nameOf(user, chat));
    }
    found.delete(this.#tidings.user ?? "");
    return [...found].sort(([, a], [, b]) => a.localeCompare(b));
  }

  /** @param {string} user */
  #ask(user) {
    if (!this.#tidings.user || this.#wanted.has(user)) return;
    if (!this.#wanted.size) setTimeout(() => void this.#fetch(), 0);
    this.#wanted.add(user);
  }

  async #fetch() {
    const ids = [...this.#wanted].slice(0, IDS_MAX);
    const path = `/v1/users?ids=${ids.map(encodeURIComponent).join(",")}`;
    const { data } = await this.#tidings.request("GET", path).catch(() => ({ data: null }));
    // Who is not in the answer has no name; who could not be asked for is asked for later.
    if (data) for (const id of ids) this.#names.set(id, "");
    for (const { user_id, display_name } of data ?? [])
      this.#names.set(user_id, display_name ?? "");
    for (const id of ids) this.#wanted.delete(id);
    if (data) this.#changed();
    if (this.#wanted.size) setTimeout(() => void this.#fetch(), 0);
  }
}
