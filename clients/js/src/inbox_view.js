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

/** @extends {View<InboxSnapshot>} */
export class InboxView extends View {
  #core;
  #items = /** @type {Map<string, NotificationRecord>} */ (new Map());
  #unread = 0;
  #categories = /** @type {Record<string, number>} */ ({});
  #cursor = /** @type {string | null} */ (null);
  #isLoaded = false;
  /** Number of notifications that arrived or were retracted so far. */
  #news = 0;

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
    this.#cursor = null;
    this.counted({ total: 0, categories: {} });
  }

  watched() {
    if (!this.#isLoaded) void this.reload().catch(() => {});
  }

  /** Load the first page and the counts again. */
  async reload() {
    const news = this.#news;
    const [list, counts] = await Promise.all([
      this.#list(""),
      this.#core.rest.request("GET", `${this.#path}/unread`),
    ]);
    this.#items = new Map();
    this.#isLoaded = true;
    this.#put(list);
    this.counted(counts);
    // The list may be older than a notification that has arrived or was retracted meanwhile.
    if (news !== this.#news) await this.reload();
  }

  /** Load the next page. */
  async more() {
    if (this.#cursor) this.#put(await this.#list(`&cursor=${encodeURIComponent(this.#cursor)}`));
  }

  /** @param {string} cursor - The part of the query that names the page; empty for the first. */
  #list(cursor) {
    return this.#core.rest.request("GET", `${this.#path}/notifications?limit=${PAGE}${cursor}`);
  }

  /** @param {string[]} ids */
  async read(ids) {
    const at = new Date(this.#core.clock.wall()).toISOString();
    this.#mark(await this.#core.rest.request("PUT", `${this.#path}/read`, { ids }), ids, at);
  }

  /** Mark all notifications that are shown now as read. */
  async readAll() {
    const ids = [...this.#items.keys()];
    const newest = this.snapshot().notifications[0];
    if (!newest) return;
    const before = new Date(Date.parse(newest.received_at) + 1).toISOString();
    this.#mark(await this.#core.rest.request("PUT", `${this.#path}/read`, { before }), ids, before);
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
    this.#items.set(item.id, { read_at: null, ...item });
    this.#unread += 1;
    const { category } = item;
    if (category)
      this.#categories = { ...this.#categories, [category]: (this.#categories[category] ?? 0) + 1 };
    this.changed();
  }

  /** @param {string} id */
  retracted(id) {
    this.#news += 1;
    if (this.#items.delete(id)) this.changed();
  }

  /** @param {{total: number, categories: Record<string, number>}} counts */
  counted({ total, categories }) {
    this.#unread = total;
    this.#categories = categories;
    this.changed();
  }
}
