// SPDX-License-Identifier: Apache-2.0
/** The live view of one inbox, newest notification first. */

import { View } from "./view.js";

/** @typedef {import("./frames.js").NotificationRecord} NotificationRecord */
/** @typedef {import("./core.js").Core} Core */

/**
 * @typedef {object} InboxSnapshot
 * @property {string} name
 * @property {readonly NotificationRecord[]} notifications
 * @property {number} unread
 * @property {Readonly<Record<string, number>>} categories - Unread notifications by category.
 * @property {boolean} isLoaded
 * @property {boolean} hasMore
 */

const PAGE = 50;
const GATHER_MS = 300;

/** @typedef {{total: number, categories: Record<string, number>}} Counts */

/** @extends {View<InboxSnapshot>} */
export class InboxView extends View {
  #core;
  #items = /** @type {Map<string, NotificationRecord>} */ (new Map());
  #unread = 0;
  #categories = /** @type {Record<string, number>} */ ({});
  #cursor = /** @type {string | null} */ (null);
  #isLoaded = false;
  /** Number of changes so far. */
  #news = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #loading = /** @type {Promise<void> | null} */ (null);

  /**
   * @param {Core} core
   * @param {string} name
   */
  constructor(core, name) {
    super(() => ({
      name,
      notifications: [...this.#items.values()].sort((a, b) =>
        a.received_at < b.received_at ? 1 : -1,
      ),
      unread: this.#unread,
      categories: this.#categories,
      isLoaded: this.#isLoaded,
      hasMore: !!this.#cursor,
    }));
    this.#core = core;
    this.name = name;
  }

  /** Forget everything, because the user has signed out. */
  clear() {
    this.#isLoaded = false;
    this.#items = new Map();
    this.#unread = 0;
    this.#categories = {};
    this.#cursor = null;
    this.changed();
  }

  watched() {
    // As long as nobody looked, changes were not applied.
    void this.reload().catch(() => {});
  }

  /** Load the first page and the counts again. */
  reload() {
    this.#news += 1;
    return (this.#loading ??= this.#load().finally(() => (this.#loading = null)));
  }

  async #load() {
    let news;
    do {
      news = this.#news;
      const [list, counts] = await Promise.all([
        this.#list(""),
        this.#core.request("GET", `${this.#path}/unread`),
      ]);
      this.#isLoaded = true;
      this.#items = new Map();
      this.#unread = counts.total;
      this.#categories = counts.categories;
      this.#put(list);
      // The list may be older than something that has happened meanwhile.
    } while (news !== this.#news);
  }

  /** Reload soon: the server knows best what is shown now. */
  #refresh() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.isWatched && this.watched(), GATHER_MS);
  }

  /** Load the next page. */
  async more() {
    if (this.#cursor) this.#put(await this.#list(`&cursor=${encodeURIComponent(this.#cursor)}`));
  }

  /** @param {string} cursor - The part of the query that names the page; empty for the first. */
  #list(cursor) {
    return this.#core.request("GET", `${this.#path}/notifications?limit=${PAGE}${cursor}`);
  }

  /** @param {string[]} ids */
  async read(ids) {
    const at = new Date(this.#core.clock.wall()).toISOString();
    this.#mark(await this.#core.request("PUT", `${this.#path}/read`, { ids }), ids, at);
  }

  /** Mark all notifications that are shown now as read. */
  async readAll() {
    const ids = [...this.#items.keys()];
    const newest = this.snapshot().notifications[0];
    if (!newest) return;
    const before = new Date(Date.parse(newest.received_at) + 1).toISOString();
    this.#mark(await this.#core.request("PUT", `${this.#path}/read`, { before }), ids, before);
  }

  /**
   * @param {{total: number, categories: Record<string, number>}} counts
   * @param {string[]} ids
   * @param {string} at
   */
  #mark(counts, ids, at) {
    for (const id of ids) {
      const item = this.#items.get(id);
      if (item && !item.read_at) this.#items.set(id, { ...item, read_at: at });
    }
    this.counted(counts);
  }

  get #path() {
    return `/v1/inboxes/${encodeURIComponent(this.name)}`;
  }

  /** @param {{data: NotificationRecord[], next_cursor: string | null}} page */
  #put({ data, next_cursor }) {
    for (const item of data) this.#items.set(item.id, item);
    this.#cursor = next_cursor;
    this.changed();
  }

  /** @param {NotificationRecord} item - A notification that has just arrived. */
  arrived(item) {
    this.#news += 1;
    if (!this.#isLoaded || this.#items.has(item.id)) return;
    const { category } = item;
    this.#items.set(item.id, { read_at: null, ...item });
    this.#unread += 1;
    if (category)
      this.#categories = {
        ...this.#categories,
        [category]: (this.#categories[category] ?? 0) + 1,
      };
    this.changed();
  }

  /** @param {string} id */
  retracted(id) {
    this.#news += 1;
    if (this.#items.delete(id)) this.changed();
  }

  /**
   * Follow what the user did with notifications, on whatever device.
   *
   * @param {Extract<import("./frames.js").ServerFrame, {op: "marked"}>} frame
   */
  marked({ op: _, inbox: __, ids: ___, before: ____, seen: _____, ...changed }) {
    // What was only seen looks as before.
    if (Object.keys(changed).length) this.#refresh();
  }

  /** Take new counts, which also come when the user reads elsewhere. @param {Counts} counts */
  counted({ total, categories }) {
    this.#unread = total;
    this.#categories = categories;
    this.changed();
    const shown = [...this.#items.values()].filter((one) => !one.read_at).length;
    if (this.#cursor ? shown > total : shown !== total) this.#refresh();
  }
}
