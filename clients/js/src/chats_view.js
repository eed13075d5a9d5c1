// SPDX-License-Identifier: Apache-2.0
/** The live view of the chat list, newest activity first. */

import { View } from "./view.js";

/** @typedef {import("./frames.js").Entry} Entry */
/** @typedef {import("./core.js").Core} Core */

/**
 * A chat, as the server describes it to one member.
 *
 * @typedef {object} ChatRecord
 * @property {string} chat_id
 * @property {"direct" | "group"} type
 * @property {string | null} name
 * @property {string[]} members - At most 10 other members.
 * @property {number} member_count
 * @property {string} role
 * @property {string} created_at
 * @property {string | null} created_by
 * @property {string} updated_at
 * @property {string} last_activity_at
 * @property {{sequence: number, sender_id: string, preview: string | null, created_at: string,
 *   gone?: string | null} | null} last_message
 * @property {number} message_count - Including messages whose content is gone.
 * @property {number} unread
 * @property {boolean} unread_exact
 * @property {number} unread_mentions - Unread messages that mention the user or everyone.
 * @property {boolean} marked_unread
 * @property {boolean} hidden
 * @property {string | null} muted_until
 * @property {boolean} frozen
 * @property {number} slow_mode_seconds
 * @property {boolean} mute_except_mentions - Whether messages that mention the user are pushed.
 * @property {boolean} deleted_user - Whether the other user of a direct chat was deleted.
 * @property {{user_id: string, display_name: string | null, avatar_url: string | null}[]} [others]
 */

/**
 * @typedef {object} ChatsSnapshot
 * @property {readonly ChatRecord[]} chats
 * @property {boolean} isLoaded
 * @property {boolean} hasMore
 */

const PAGE_CHATS = 50;
const RELOAD_MS = 300;

/** @extends {View<ChatsSnapshot>} */
export class ChatsView extends View {
  #core;
  #records = /** @type {Map<string, ChatRecord>} */ (new Map());
  /** Where the next page begins; undefined until the first is loaded. @type {?string | undefined} */
  #cursor;
  #isLoaded = false;
  #stale = /** @type {Set<string>} */ (new Set());
  /** The records of an earlier run, which are shown until the server sends newer ones. */
  #kept = /** @type {ChatRecord[]} */ ([]);

  /** @param {Core} core */
  constructor(core) {
    super(() => this.#make());
    this.#core = core;
  }

  /** @returns {ChatsSnapshot} */
  #make() {
    const chats = this.records.sort((a, b) => (a.last_activity_at < b.last_activity_at ? 1 : -1));
    return { chats, isLoaded: this.#isLoaded, hasMore: !!this.#cursor };
  }

  /** @param {string} chat */
  record(chat) {
    return this.#records.get(chat) ?? null;
  }

  /** Load the first page again, because it may have changed while there was no connection. */
  async reload() {
    if (this.#core.leads) await this.#load("");
  }

  /** Load the next page. */
  async more() {
    if (this.#cursor) await this.#load(`&cursor=${encodeURIComponent(this.#cursor)}`);
  }

  /** @param {string} cursor - The part of the query that names the page; empty for the first. */
  async #load(cursor) {
    const before = new Map(this.#records);
    const page = await this.#core.request("GET", `/v1/chats?limit=${PAGE_CHATS}${cursor}`);
    if (cursor || this.#cursor === undefined) this.#cursor = page.next_cursor;
    this.take(page.data, before);
    // The list has ended, and did not replace a kept record: the user has left that chat.
    if (this.#cursor === null)
      for (const kept of this.#kept)
        if (this.record(kept.chat_id) === kept) this.forgotten(kept.chat_id);
  }

  /** All records that are loaded. */
  get records() {
    return [...this.#records.values()];
  }

  /**
   * @param {ChatRecord[]} records - The records that this tab or the leading tab has loaded.
   * @param {Map<string, ChatRecord>} [before] - The records when this tab asked for them.
   */
  take(records, before) {
    this.#isLoaded = true;
    this.#put(records, before);
  }

  /** @param {ChatRecord[]} records - The records of an earlier run. */
  keep(records) {
    this.take((this.#kept = records));
  }

  /** @param {ChatRecord[]} records @param {Map<string, ChatRecord>} [before] */
  #put(records, before = this.#records) {
    this.#core.broadcast({ op: "records", records });
    for (const record of records) {
      const chat = record.chat_id;
      this.#core.follow(chat);
      // A record that has changed meanwhile may be newer than the answer.
      if (this.#records.get(chat) === before.get(chat)) this.#set(record);
      else this.stale(chat);
    }
    this.changed();
  }

  /**
   * Start a direct chat, or return the one that exists.
   *
   * @param {string} user
   */
  direct(user) {
    return this.#create({ type: "direct", members: [user] });
  }

  /**
   * Start a group.
   *
   * @param {string} name
   * @param {string[]} members
   */
  group(name, members) {
    return this.#create({ type: "group", name, members });
  }

  /**
   * @param {object} body
   * @returns {Promise<ChatRecord>}
   */
  async #create(body) {
    const key = { "idempotency-key": crypto.randomUUID() };
    const record = await this.#core.request("POST", "/v1/chats", body, key);
    this.#put([record]);
    return record;
  }

  /**
   * Change a setting of the user for a chat: `mute`, `hidden` or `unread`.
   *
   * @param {string} chat
   * @param {"mute" | "hidden" | "unread"} setting
   * @param {object} body
   */
  async set(chat, setting, body) {
    await this.#core.request("PUT", `/v1/chats/${chat}/${setting}`, body);
    this.stale(chat);
  }

  // Frames of the connection.

  /**
   * @param {Entry} entry
   * @param {boolean} isOwn
   */
  applied(entry, isOwn) {
    const record = this.#records.get(entry.chat);
    const isMessage = entry.kind === "message";
    const news = isOwn || entry.blocked ? 0 : 1;
    const isMentioned = entry.mentions?.some((one) => one === this.#core.user || one === "*");
    // Entries without a target change more than the last line.
    if (!record || !(isMessage || entry.target)) return this.stale(entry.chat);
    const last = record.last_message;
    if (isMessage && entry.sequence > (last?.sequence ?? 0)) {
      this.#set({
        ...record,
        last_activity_at: entry.created_at,
        last_message: {
          sequence: entry.sequence,
          sender_id: entry.sender,
          preview: entry.content ?? null,
          created_at: entry.created_at,
        },
        message_count: record.message_count + 1,
        unread: record.unread + news,
        unread_mentions: record.unread_mentions + (isMentioned ? news : 0),
      });
    } else if (entry.target === last?.sequence || (entry.kind === "redacted" && record.unread))
      this.stale(entry.chat);
  }

  /**
   * @param {{op?: string, chat: string, unread: number, unread_exact: boolean,
   *   unread_mentions: number}} frame
   */
  unread({ op: _, chat, ...counts }) {
    const record = this.#records.get(chat);
    if (record) this.#set({ ...record, ...counts, marked_unread: false });
  }

  /**
   * Show the new name or picture of a user.
   *
   * @param {Extract<import("./frames.js").ServerFrame, {op: "profile"}>} frame
   */
  profile({ user: user_id, display_name, avatar_url }) {
    const other = { user_id, display_name, avatar_url };
    for (const record of this.records) {
      const others = record.others?.map((one) => (one.user_id === user_id ? other : one));
      if (others?.includes(other)) this.#set({ ...record, others });
    }
  }

  /** @param {ChatRecord} record */
  #set(record) {
    this.#records.set(record.chat_id, record);
    this.#core.chatChanged(record.chat_id);
    this.changed();
  }

  /** @param {string} chat - A chat whose record must be asked for again. */
  stale(chat) {
    if (!this.#core.leads) return;
    if (!this.#stale.size) setTimeout(() => this.#refresh(), RELOAD_MS);
    this.#stale.add(chat);
  }

  async #refresh() {
    const chats = [...this.#stale];
    this.#stale.clear();
    for (const chat of chats) {
      try {
        const before = new Map(this.#records);
        this.#put([await this.#core.request("GET", `/v1/chats/${chat}`)], before);
      } catch (/** @type {any} */ error) {
        if (error.status === 404) this.forgotten(chat);
      }
    }
  }

  clear() {
    this.#records.clear();
    this.#cursor = undefined;
    this.#isLoaded = false;
    this.changed();
  }

  /** @param {string} chat */
  forgotten(chat) {
    if (this.#records.delete(chat)) this.changed();
  }
}
