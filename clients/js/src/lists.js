// SPDX-License-Identifier: Apache-2.0
/**
 * Live lists of messages that not every page needs: the pins of a chat, the replies to a message,
 * and the messages that mention the user. `index.js` does not contain them.
 *
 * A list is loaded over REST when somebody begins to look at it, and again when something changes
 * it, as long as somebody looks.
 */

import { current, nextExpiry, rowOf } from "./rows.js";
import { View } from "./view.js";

/** @typedef {import("./frames.js").Entry} Entry */
/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./tidings.js").Tidings} Tidings */

/**
 * @typedef {object} ListSnapshot
 * @property {readonly Row[]} rows - Without reactions.
 * @property {boolean} isLoaded
 * @property {boolean} hasMore
 */

const PAGE_ROWS = 50;
const RELOAD_MS = 200;
const DAY_MS = 86_400_000;

/** @extends {View<ListSnapshot>} */
export class MessagesView extends View {
  #tidings;
  #path;
  #concerns;
  #rows = /** @type {Row[]} */ ([]);
  #isLoaded = false;
  /** The part of the query that names the next page; empty if there is none. */
  #next = "";
  #pages = 1;
  /** Number of changes so far: a page may be older than one that came while it was loaded. */
  #news = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #expiring;
  #ends = /** @type {(() => void)[]} */ ([]);

  /**
   * @param {Tidings} tidings
   * @param {string} path - The address of the first page.
   * @param {(entry: Entry) => unknown} concerns - Whether an entry changes the list. One that
   *   changes a message of the list always does.
   */
  constructor(tidings, path, concerns) {
    super(() => this.#make());
    this.#tidings = tidings;
    this.#path = path;
    this.#concerns = concerns;
    const { subscribe } = this;
    this.subscribe = (/** @type {() => void} */ listener) => {
      const end = subscribe(listener);
      return () => {
        end();
        if (!this.isWatched) this.#rest();
        return undefined;
      };
    };
  }

  /** @returns {ListSnapshot} */
  #make() {
    const wall = Date.now();
    clearTimeout(this.#expiring);
    const next = nextExpiry(this.#rows, wall);
    if (this.isWatched && next < wall + DAY_MS)
      this.#expiring = setTimeout(() => this.changed(), next - wall);
    const rows = this.#rows.map((row) => current(row, wall));
    return { rows, isLoaded: this.#isLoaded, hasMore: this.#next !== "" };
  }

  watched() {
    if (this.#ends.length) return;
    const { state } = this.#tidings;
    let wasLive = state.snapshot().connection === "live";
    const connected = () => {
      const isLive = state.snapshot().connection === "live";
      // Entries may be missing that came while there was no connection.
      if (isLive && !wasLive) this.#outdated();
      wasLive = isLive;
    };
    this.#ends = [
      state.subscribe(connected),
      this.#tidings.on((event) => {
        const isChange = event.type === "entry" && this.#isChangedBy(event.entry);
        if (isChange || event.type === "erased") this.#outdated();
      }),
    ];
    void this.reload().catch(() => {});
  }

  #rest() {
    for (const end of this.#ends.splice(0)) end();
    clearTimeout(this.#timer);
    clearTimeout(this.#expiring);
  }

  /** @param {Entry} entry */
  #isChangedBy(entry) {
    const isListed = (/** @type {Row} */ { chat, sequence }) =>
      chat === entry.chat && sequence === entry.target;
    return this.#rows.some(isListed) || this.#concerns(entry);
  }

  /** Load the list again soon, once for all changes until then. */
  #outdated() {
    this.#news += 1;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.reload().catch(() => {}), RELOAD_MS);
  }

  /** Load all loaded pages again. @returns {Promise<void>} */
  async reload() {
    const news = this.#news;
    /** @type {Row[]} */
    const rows = [];
    let next = "";
    for (let page = 0; page < this.#pages && (next || !page); page += 1) {
      next = await this.#load(next, rows);
    }
    if (news !== this.#news) return; // it is loaded again soon
    this.#show(rows, next);
  }

  /** Load the next page. */
  async more() {
    if (!this.#next) return;
    const rows = [...this.#rows];
    const news = this.#news;
    const next = await this.#load(this.#next, rows);
    this.#pages += 1;
    if (news === this.#news) this.#show(rows, next);
  }

  /**
   * Add the rows of a page; return the part of the query that names the next one.
   *
   * @param {string} query
   * @param {Row[]} rows
   * @returns {Promise<string>}
   */
  async #load(query, rows) {
    const page = await this.#tidings.request("GET", this.#path + query);
    rows.push(...page.data.map(messageRow));
    if (page.next_after) return `&after=${page.next_after}`;
    return page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : "";
  }

  /**
   * @param {Row[]} rows
   * @param {string} next
   */
  #show(rows, next) {
    this.#rows = rows;
    this.#next = next;
    this.#isLoaded = true;
    this.changed();
  }
}

/**
 * Return the row of a message that came over REST.
 *
 * @param {any} message
 * @returns {Row}
 */
export const messageRow = ({ chat_id, sender_id, reactions: _, ...message }) =>
  rowOf({ ...message, chat: chat_id, sender: sender_id, kind: "message" }, message.sequence);

/**
 * Return the pinned messages of a chat, in the order of pinning.
 *
 * @param {Tidings} tidings
 * @param {string} chat
 */
export const pinsOf = (tidings, chat) =>
  new MessagesView(
    tidings,
    `/v1/chats/${chat}/pins`,
    (entry) => entry.chat === chat && /^(un)?pinned$/.test(entry.kind),
  );

/**
 * Return the replies to a message, oldest first.
 *
 * @param {Tidings} tidings
 * @param {string} chat
 * @param {number} sequence
 */
export const repliesTo = (tidings, chat, sequence) =>
  new MessagesView(
    tidings,
    `/v1/chats/${chat}/messages/${sequence}/replies?limit=${PAGE_ROWS}`,
    (entry) => entry.chat === chat && entry.reply_to === sequence,
  );

/**
 * Return the messages that mention the user by name, newest first.
 *
 * @param {Tidings} tidings
 */
export const mentionsOf = (tidings) =>
  new MessagesView(tidings, `/v1/mentions?limit=${PAGE_ROWS}`, (entry) =>
    entry.mentions?.includes(tidings.user ?? ""),
  );
