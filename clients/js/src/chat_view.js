// SPDX-License-Identifier: Apache-2.0
/** The live view of one chat: a window on its log, who types, and how far others have read. */

import { current, nextExpiry, patched, rowOf, rowsOf, startOf, targetOf } from "./rows.js";
import { View } from "./view.js";

/** @typedef {import("./frames.js").Entry} Entry */
/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./core.js").Core} Core */

/** @typedef {import("./rows.js").ChatSnapshot} ChatSnapshot */
/** @typedef {{delivered: number, read: number}} Receipt */

/**
 * @typedef {object} SendOptions
 * @property {string} [contentType] - By default `text/plain`.
 * @property {number} [ttlSeconds] - The content disappears after this time.
 * @property {number} [replyTo] - The sequence of the message that this one answers.
 * @property {string[]} [mentions] - Members whom the message mentions, or `["*"]` for everyone.
 * @property {boolean} [silent] - Whether nobody gets a push notice of the message.
 * @property {import("./frames.js").Attachment[]} [attachments] - Finished uploads of the user. The
 *   content may then be empty.
 * @property {string} [id] - The client_message_id; by default a new one.
 */

const PAGE_ROWS = 50;
/** Maximum number of rows in the window, so that a page can scroll through a log of any length. */
const WINDOW_ROWS_MAX = 400;
const TYPING_MS = 6_000;
const DAY_MS = 86_400_000;
const LATE_MAX = 100;
/** Members of larger chats do not see each other's receipts. */
const SMALL_MEMBERS_MAX = 64;
const SEQUENCE_MAX = 2 ** 53 - 1;

/** @extends {View<ChatSnapshot>} */
export class ChatView extends View {
  #core;
  #rows = /** @type {Row[]} */ ([]);
  /** The window covers the log from `#from` to `#to`; `#to` follows the head if `#isAtEnd`. */
  #from = 0;
  #to = 0;
  #isAtEnd = true;
  #isLoaded = false;
  #loading = Promise.resolve();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #expiring;
  #typing = /** @type {Map<string, ReturnType<typeof setTimeout>>} */ (new Map());
  #receipts = /** @type {Map<string, Receipt>} */ (new Map());
  /** The last changes of messages, because rows that are loaded meanwhile may be older. */
  #late = /** @type {Entry[]} */ ([]);

  /** @param {Core} core @param {string} id */
  constructor(core, id) {
    super(() => this.#make());
    this.#core = core;
    this.id = id;
  }

  /** @returns {ChatSnapshot} */
  #make() {
    const wall = this.#core.clock.wall();
    this.#awaitExpiry(wall);
    const others = [...this.#receipts].filter(([user]) => user !== this.#core.user);
    /** @param {"delivered" | "read"} mark */
    const all = (mark) => others.length && Math.min(...others.map(([, one]) => one[mark]));
    return {
      id: this.id,
      record: this.#core.views.chats.record(this.id),
      rows: [
        ...this.#rows.map((row) => current(row, wall)),
        ...this.#core.sending.rows(this.id, this.#core.user ?? ""),
      ],
      isLoaded: this.#isLoaded,
      hasOlder: this.#from > 1,
      hasNewer: !this.#isAtEnd,
      typing: [...this.#typing.keys()],
      delivered: all("delivered"),
      read: all("read"),
      draft: this.#core.drafts.get(this.id) ?? "",
    };
  }

  /** @param {boolean} [isLive] - Whether frames may have been lost with a connection. */
  watched(isLive) {
    if (!this.#isLoaded) this.latest().catch(() => {});
    else if (isLive) this.#loadReceipts().catch(() => {});
  }

  /** Forget everything, because the user has signed out. */
  clear() {
    this.#late = [];
    this.#show([], 0, 0);
    this.#isLoaded = false;
    this.#receipts.clear();
    this.changed();
  }

  /** Make a new snapshot when the next message expires. @param {number} wall */
  #awaitExpiry(wall) {
    clearTimeout(this.#expiring);
    const next = nextExpiry(this.#rows, wall);
    if (next < wall + DAY_MS) this.#expiring = setTimeout(() => this.changed(), next - wall);
  }

  // The window.

  /** Show the newest rows. */
  latest() {
    return this.#load(async () => {
      const { rows, range } = await this.#core.cache.page(this.id, Infinity, PAGE_ROWS);
      // A few rows that came by themselves are not shown if a whole page can be had.
      const isShort = rows.length < PAGE_ROWS && range?.start !== 1 && this.#core.isLive;
      if (range && rows.length && !isShort) {
        this.#show(rows, keptFrom(rows, range), range.have);
        this.#core.follow(this.id, range.have);
      } else await this.#begin();
      while (!this.#isAtEnd) await this.#append();
      void this.#loadReceipts().catch(() => {});
    });
  }

  /** Show the newest page of the server, and follow the chat from there. */
  async #begin() {
    const page = await this.#core.ask({ chat: this.id, before: SEQUENCE_MAX, limit: PAGE_ROWS });
    this.#show(rowsOf(page), startOf(page), page.head);
    // Otherwise entries after the page were applied to what is kept, and the page may be older.
    if ((this.#core.at(this.id) ?? page.head) === page.head) {
      this.#core.cache.begin({ chat: this.id, start: this.#from, have: page.head }, this.#rows);
    }
    this.#core.follow(this.id, page.head);
    // Entries up to the head are in the page and do not come again, but the record may be older.
    this.#core.views.chats.stale(this.id);
  }

  /** Load rows before the window. */
  older() {
    return this.#load(async () => {
      if (!this.#isLoaded || this.#from <= 1) return;
      const { rows, range } = await this.#core.cache.page(this.id, this.#from, PAGE_ROWS);
      if (range && range.start < this.#from && rows.length) {
        return this.#prepend(rows, keptFrom(rows, range));
      }
      const page = await this.#core.ask({ chat: this.id, before: this.#from, limit: PAGE_ROWS });
      const before = rowsOf(page);
      const start = startOf(page);
      this.#core.cache.extend(this.id, start, this.#from, before);
      this.#prepend(before, start);
    });
  }

  /** Load rows after the window, if it does not reach the end of the log. */
  newer() {
    return this.#load(async () => {
      if (!this.#isAtEnd) await this.#append();
    });
  }

  async #append() {
    const page = await this.#core.ask({ chat: this.id, after: this.#to, limit: PAGE_ROWS });
    this.#rows = [...this.#rows, ...rowsOf(page)];
    // The rows before the page may be older than its edits, redactions and reactions.
    for (const entry of page.entries) this.#patch(entry);
    this.#to = page.entries.at(-1)?.sequence ?? this.#to;
    this.#isAtEnd = !page.more && this.#to >= (this.#core.at(this.id) ?? 0);
    this.#trim(false);
  }

  /** Show the rows around a sequence. @param {number} sequence */
  around(sequence) {
    return this.#load(async () => {
      const before = sequence + PAGE_ROWS / 2;
      const page = await this.#core.ask({ chat: this.id, before, limit: PAGE_ROWS });
      const to = page.entries.at(-1)?.sequence ?? 0;
      this.#show(rowsOf(page), startOf(page), to);
      this.#isAtEnd &&= to >= page.head;
    });
  }

  /**
   * Run one change of the window after the other.
   *
   * @param {() => Promise<void>} work
   */
  #load(work) {
    this.#loading = this.#loading.catch(() => {}).then(work);
    return this.#loading.then(() => {
      for (const entry of this.#late) this.#patch(entry);
      this.changed();
    });
  }

  /**
   * @param {Row[]} rows
   * @param {number} from
   * @param {number} to
   */
  #show(rows, from, to) {
    this.#rows = rows;
    this.#from = from;
    this.#to = to;
    this.#isLoaded = true;
    // Entries may have come while the rows were read, or another tab may not have saved them yet.
    this.#isAtEnd = to >= (this.#core.at(this.id) ?? 0);
  }

  /**
   * @param {Row[]} rows
   * @param {number} from
   */
  #prepend(rows, from) {
    this.#rows = [...rows, ...this.#rows];
    this.#from = from;
    this.#trim(true);
  }

  /**
   * @param {boolean} atEnd - Whether the user looks at rows farther up.
   */
  #trim(atEnd) {
    if (this.#rows.length <= WINDOW_ROWS_MAX) return;
    if (atEnd) {
      this.#rows = this.#rows.slice(0, WINDOW_ROWS_MAX);
      this.#to = this.#rows.at(-1)?.sequence ?? this.#to;
      this.#isAtEnd = false;
    } else {
      this.#rows = this.#rows.slice(-WINDOW_ROWS_MAX);
      this.#from = this.#rows[0]?.sequence ?? this.#from;
    }
  }

  // Frames of the connection.

  /** @param {Entry} entry */
  applied(entry) {
    // The list of chats shows who types, also in chats that are not loaded.
    this.#stopTyping(entry.sender);
    if (targetOf(entry)) this.#late = [...this.#late, entry].slice(-LATE_MAX);
    if (!this.#isLoaded) return;
    if (entry.kind === "removed") for (const user of entry.users ?? []) this.#receipts.delete(user);
    this.#patch(entry);
    if (!entry.target && this.#isAtEnd && entry.sequence > this.#to) {
      this.#rows = [...this.#rows, rowOf(entry)];
      // Rows that are being loaded belong before the first one of now.
      if (this.#rows.length > WINDOW_ROWS_MAX) void this.#load(async () => this.#trim(false));
    }
    if (this.#isAtEnd) this.#to = Math.max(this.#to, entry.sequence);
    this.changed();
  }

  /** Change the row of an entry's target, if it is shown. @param {Entry} entry */
  #patch(entry) {
    const target = targetOf(entry);
    this.#rows = this.#rows.map((row) => (row.sequence === target ? patched(row, entry) : row));
  }

  /** The senders of all rows. */
  get senders() {
    return this.#rows.map((row) => row.sender);
  }

  /** @param {(row: Row) => Row} change */
  replace(change) {
    this.#rows = this.#rows.map(change);
    this.changed();
  }

  /** Begin again, because the entries so far are not valid any more. */
  restarted() {
    this.#late = [];
    this.#receipts.clear();
    if (this.#isLoaded) this.latest().catch(() => {});
  }

  /** @param {string} user @param {Receipt} receipt */
  receipt(user, receipt) {
    const known = this.#receipts.get(user);
    // The answer to a request may be older than a frame that has overtaken it.
    if (known && known.delivered + known.read > receipt.delivered + receipt.read) return;
    this.#receipts.set(user, receipt);
    this.changed();
  }

  async #loadReceipts() {
    const record = this.#core.views.chats.record(this.id);
    if (record && record.member_count > SMALL_MEMBERS_MAX) return;
    const { data } = await this.#core.request("GET", `/v1/chats/${this.id}/receipts`);
    for (const receipt of data) this.receipt(receipt.user_id, receipt);
  }

  /** @param {string} user */
  types(user) {
    this.#stopTyping(user);
    this.#typing.set(
      user,
      setTimeout(() => this.#stopTyping(user), TYPING_MS),
    );
    this.#core.chatChanged(this.id);
  }

  /** @param {string} user */
  #stopTyping(user) {
    clearTimeout(this.#typing.get(user));
    if (this.#typing.delete(user)) this.#core.chatChanged(this.id);
  }

  // Actions of the user.

  /**
   * Send a message. It is shown at once; `done` resolves when it is in the log, and rejects with
   * `Refused` when it never will be.
   *
   * @param {string} content
   * @param {SendOptions} [options]
   * @returns {{id: string, done: Promise<import("./listener.js").Place>}}
   */
  send(content, { contentType, ttlSeconds, replyTo, ...same } = {}) {
    return this.#core.sending.send({
      ...{ ...same, chat: this.id, content },
      content_type: contentType,
      ttl_seconds: ttlSeconds,
      reply_to: replyTo,
    });
  }

  /** Report that the user is typing. May be called at every key: few reports are sent. */
  typing() {
    this.#core.typing(this.id);
  }

  /**
   * Mark the chat as read up to a sequence, or up to its newest row.
   *
   * @param {number} [sequence]
   */
  read(sequence = this.#to) {
    if (sequence > 0) this.#core.read(this.id, sequence);
  }

  /** @param {string} text - The unfinished message, kept over reloads. */
  draft(text) {
    this.#core.draft(this.id, text);
    this.changed();
  }

  /**
   * @param {number} sequence
   * @param {string} content
   */
  edit(sequence, content) {
    return this.#request("PATCH", sequence, { content });
  }

  /** @param {number} sequence */
  redact(sequence) {
    return this.#request("DELETE", sequence);
  }

  /**
   * @param {number} sequence
   * @param {string} emoji
   */
  react(sequence, emoji) {
    return this.#request("PUT", `${sequence}/reactions/${encodeURIComponent(emoji)}`);
  }

  /**
   * @param {number} sequence
   * @param {string} emoji
   */
  unreact(sequence, emoji) {
    return this.#request("DELETE", `${sequence}/reactions/${encodeURIComponent(emoji)}`);
  }

  /**
   * @param {string} method
   * @param {number | string} path - What follows the path of the messages.
   * @param {unknown} [body]
   */
  #request(method, path, body) {
    return this.#core.request(method, `/v1/chats/${this.id}/messages/${path}`, body);
  }
}

/**
 * @param {Row[]} rows
 * @param {import("./storage.js").Range} range
 */
const keptFrom = (rows, range) =>
  rows.length < PAGE_ROWS ? range.start : (rows[0]?.sequence ?? 1);
