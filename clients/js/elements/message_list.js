// SPDX-License-Identifier: Apache-2.0
/**
 * The rows of a conversation: about 200 of them are in the page, and what the user looks at stays
 * where it is, whatever is added above, grows or disappears.
 */

import { EVERYONE } from "./mentions.js";
import { day, dayOf } from "./text.js";
import { h } from "./view.js";
import { keyOf, leftOf, messageRow, statusOf } from "./message_row.js";
import { found, Heights, slide } from "./window.js";

/** @typedef {import("../src/chat_view.js").ChatSnapshot} ChatSnapshot */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */
/** @typedef {import("./message_row.js").Look} Look */

const NEAR_PX = 800;
const BOTTOM_PX = 40;
const TOGETHER_MS = 5 * 60_000;
const TARGET_MS = 2_500;
/** Time until rows that could not be loaded are asked for again. */
const AGAIN_MS = 5_000;

export class MessageList {
  /** Whether the end of the log is seen, so that the list follows it. */
  isAtBottom = true;
  #element;
  #keys = /** @type {string[]} */ ([]);
  #range = { from: 0, to: 0 };
  #heights = new Heights();
  /** The first row that is seen, and where. */
  #anchor = /** @type {{key: string, offset: number} | null} */ (null);
  #top = 0;
  #known = /** @type {Map<string, {look: Look, made: import("./view.js").Element_}>} */ (new Map());
  #observed = new WeakSet();
  #observer;
  #target = "";
  /** The chat of which rows are being loaded. */
  #loading = /** @type {object | null} */ (null);
  /** Whether the list is on its way to a row. */
  #isMoving = false;
  /** The newest row when the end was seen last. */
  #seen = 0;
  /** The row that has the focus, before the page changes. @type {HTMLElement | null | undefined} */
  #focused;

  /** @param {TidingsChat} element */
  constructor(element) {
    this.#element = element;
    this.#observer = new ResizeObserver((entries) => this.#resized(entries));
  }

  /** Begin with another chat. */
  reset() {
    this.isAtBottom = true;
    this.#anchor = null;
    this.#keys = [];
    this.#range = { from: 0, to: 0 };
    this.#heights = new Heights();
    this.#known.clear();
    this.#target = "";
    this.#seen = 0;
  }

  /** @returns {HTMLElement | null} */
  get log() {
    return this.#element.root.querySelector(".log");
  }

  /** @returns {HTMLElement[]} */
  get #items() {
    return [...(this.log?.querySelectorAll(".item") ?? [])].map((one) => /** @type {any} */ (one));
  }

  /**
   * Return the number of messages that have come while the user looks further up.
   *
   * @param {ChatSnapshot} chat
   */
  missed(chat) {
    if (chat.hasNewer) return chat.record?.unread ?? 0;
    const { user } = this.#element.tidings ?? {};
    return chat.rows.filter(
      (row) => row.sequence > this.#seen && row.kind === "message" && row.sender !== user,
    ).length;
  }

  // Describing.

  /**
   * @param {ChatSnapshot} chat
   * @param {number} dividesAt - The first unread row; 0 for none.
   */
  describe(chat, dividesAt) {
    const keys = chat.rows.map(keyOf);
    const anchored = this.#anchor ? keys.indexOf(this.#anchor.key) : -1;
    const at = this.isAtBottom || anchored < 0 ? keys.length - 1 : anchored;
    const { from, to } = this.#range;
    const old = found(keys, this.#keys[from], this.#keys[to - 1]);
    this.#range = slide(keys.length, old, at, Math.min(keys.length - 1, at + 15));
    this.#keys = keys;
    this.#heights.keep(keys);
    if (this.#known.size > 3 * keys.length) this.#known.clear();
    if (this.isAtBottom && !chat.hasNewer) {
      this.#seen = chat.rows.findLast((row) => row.sequence)?.sequence ?? 0;
    }
    const rows = chat.rows.slice(this.#range.from, this.#range.to);
    const made = rows.map((row, index) =>
      this.#row(chat, row, this.#range.from + index, dividesAt),
    );
    return [
      this.#spacer("above", keys.slice(0, this.#range.from)),
      made,
      this.#spacer("below", keys.slice(this.#range.to)),
    ];
  }

  /**
   * @param {string} key
   * @param {string[]} keys
   */
  #spacer(key, keys) {
    return h("div", { key, class: "spacer", style: `block-size: ${this.#heights.of(keys)}px` });
  }

  /**
   * @param {ChatSnapshot} chat
   * @param {Row} row
   * @param {number} index
   * @param {number} dividesAt
   */
  #row(chat, row, index, dividesAt) {
    const key = this.#keys[index] ?? "";
    const look = this.#look(chat, row, chat.rows[index - 1], dividesAt);
    const known = this.#known.get(key);
    if (known && isSame(known.look, look)) return known.made;
    const made = messageRow(this.#element, look);
    this.#known.set(key, { look, made });
    return made;
  }

  /**
   * @param {ChatSnapshot} chat
   * @param {Row} row
   * @param {Row | undefined} before
   * @param {number} dividesAt
   * @returns {Look}
   */
  #look(chat, row, before, dividesAt) {
    const { tidings, strings, people } = this.#element;
    const now = Date.now();
    const isNewDay = !before || dayOf(before.at) !== dayOf(row.at);
    const isDivided = row.sequence > 0 && row.sequence === dividesAt;
    const isOther = before?.sender !== row.sender || before.kind !== "message";
    return {
      row,
      day: isNewDay ? day(row.at, now, strings) : "",
      isDivided,
      isFirst: isNewDay || isDivided || isOther || row.at - (before?.at ?? 0) > TOGETHER_MS,
      isOwn: row.sender === tidings?.user,
      isGroup: chat.record?.type === "group",
      isTarget: keyOf(row) === this.#target,
      isUndoable: this.#element.isUndoable(row.sequence),
      status: statusOf(chat, row),
      name: people?.nameOf(row.sender, chat.record) ?? "",
      users: (row.users ?? []).map((user) => people?.nameOf(user, chat.record)).join(", "),
      left: leftOf(row, now, strings),
      own: this.#element.own?.to(row) ?? null,
      ...this.#context(chat, row),
      strings,
    };
  }

  /**
   * What the look of a row takes from elsewhere: what it answers, whom it mentions, its pin.
   *
   * @param {ChatSnapshot} chat
   * @param {Row} row
   */
  #context(chat, row) {
    const { replyTo, mentions = [], sequence, sender } = row;
    const { tidings, strings, people, quotes } = this.#element;
    const quoted = (replyTo && quotes?.of(chat, replyTo)) || null;
    const name = (/** @type {string} */ user) =>
      user === EVERYONE ? strings.everyone : (people?.nameOf(user, chat.record) ?? user);
    return {
      quoted,
      quotedName: quoted?.sender ? name(quoted.sender) : "",
      mentioned: mentions.map(name).join("\n"),
      isCalled:
        sender !== tidings?.user &&
        mentions.some((user) => user === EVERYONE || user === tidings?.user),
      isPinned: this.#element.isPinned(sequence),
      files: (row.attachments && this.#element.files.value?.stampOf(row)) ?? 0,
    };
  }

  // Scrolling.

  /** Remember what is seen and what has the focus, before the page changes. */
  before() {
    this.#focused = this.#element.root.activeElement?.closest(".item");
    if (this.log && !this.isAtBottom && !this.#isMoving) this.#anchor = this.#firstSeen();
  }

  /** Put what was seen back to where it was, after the page has changed. */
  after() {
    for (const item of this.#items) {
      if (this.#observed.has(item)) continue;
      this.#observed.add(item);
      this.#observer.observe(item);
    }
    const { log } = this;
    if (log && !this.#observed.has(log)) {
      this.#observed.add(log);
      this.#observer.observe(log);
    }
    this.#restore();
    // A button of the row may be gone, such as that of a reaction which was removed.
    if (!this.#element.root.activeElement) this.#focused?.focus({ preventScroll: true });
    if (this.#isMoving) this.#arrived();
    this.#load();
  }

  /** Find out whether the row that was looked for is at the end. */
  #arrived() {
    this.#isMoving = false;
    const key = this.#target;
    if (key) {
      this.#item(key)?.focus({ preventScroll: true });
      setTimeout(() => {
        if (this.#target === key) this.#target = "";
        this.#element.update();
      }, TARGET_MS);
    }
    this.scrolled();
  }

  /** @param {string} key */
  #item(key) {
    return this.#items.find((one) => one.dataset.key === key);
  }

  /** @param {readonly ResizeObserverEntry[]} entries */
  #resized(entries) {
    for (const { target, borderBoxSize } of entries) {
      const { key } = /** @type {HTMLElement} */ (target).dataset;
      if (!target.isConnected) this.#observer.unobserve(target);
      else if (key) this.#heights.set(key, borderBoxSize[0]?.blockSize ?? 0);
    }
    this.#restore();
  }

  #restore() {
    const { log } = this;
    if (!log) return;
    if (this.isAtBottom) log.scrollTop = log.scrollHeight;
    else if (this.#anchor) {
      const { key, offset } = this.#anchor;
      const item = this.#item(key);
      const moved = item ? item.offsetTop - log.scrollTop - offset : 0;
      if (Math.abs(moved) >= 1) log.scrollTop += moved;
    }
    this.#top = log.scrollTop;
  }

  #firstSeen() {
    const { log } = this;
    if (!log) return null;
    const item = this.#items.find((one) => one.offsetTop + one.offsetHeight > log.scrollTop + 1);
    return item ? { key: item.dataset.key ?? "", offset: item.offsetTop - log.scrollTop } : null;
  }

  /** Handle that the list was scrolled, by the user or by us. */
  scrolled() {
    const { log } = this;
    const chat = this.#element.view?.snapshot();
    if (!log || !chat || this.#isMoving) return;
    const below = log.scrollHeight - log.scrollTop - log.clientHeight;
    const isUp = log.scrollTop < this.#top - 1;
    this.#top = log.scrollTop;
    const was = this.isAtBottom;
    if (below < BOTTOM_PX && !chat.hasNewer) this.isAtBottom = true;
    // What grows below must not be taken for the user going up.
    else if (isUp || chat.hasNewer) this.isAtBottom = false;
    this.#anchor = this.#firstSeen();
    if (was !== this.isAtBottom || this.#needsOthers()) this.#element.update();
    this.#element.seen(this.#dayAt(chat));
    this.#load();
  }

  #needsOthers() {
    const at = this.#anchor ? this.#keys.indexOf(this.#anchor.key) : -1;
    if (at < 0) return false;
    const last = Math.min(this.#keys.length - 1, at + 15);
    const next = slide(this.#keys.length, this.#range, at, last);
    return next.from !== this.#range.from || next.to !== this.#range.to;
  }

  /** @param {ChatSnapshot} chat */
  #dayAt(chat) {
    const row = chat.rows[this.#keys.indexOf(this.#anchor?.key ?? "")];
    return row ? day(row.at, Date.now(), this.#element.strings) : "";
  }

  /** Load more rows before the user comes to where they are missing. */
  #load() {
    const { log } = this;
    const { view } = this.#element;
    const chat = view?.snapshot();
    if (!log || !view || !chat?.isLoaded || this.#loading === view) return;
    const below = log.scrollHeight - log.scrollTop - log.clientHeight;
    const wantsOlder = chat.hasOlder && this.#range.from === 0 && log.scrollTop < NEAR_PX;
    const wantsNewer = chat.hasNewer && this.#range.to === this.#keys.length && below < NEAR_PX;
    if (wantsOlder) void this.#loaded(view, view.older());
    else if (wantsNewer) void this.#loaded(view, view.newer());
  }

  /**
   * @param {object} view
   * @param {Promise<void>} load
   */
  async #loaded(view, load) {
    this.#loading = view;
    await load.catch(() => new Promise((resolve) => setTimeout(resolve, AGAIN_MS)));
    if (this.#loading === view) this.#loading = null;
    this.#element.update();
  }

  /** Follow the end of the log. */
  toBottom() {
    this.isAtBottom = true;
    this.#target = "";
    this.#element.update();
  }

  /**
   * Show a row, and stay there.
   *
   * @param {Row} row
   * @param {boolean} isMarked - Whether the row is shown to be the one that was looked for.
   */
  toRow(row, isMarked) {
    const key = keyOf(row);
    this.isAtBottom = false;
    this.#anchor = { key, offset: Math.round((this.log?.clientHeight ?? 300) / 4) };
    this.#isMoving = true;
    this.#seen ||= row.sequence - 1;
    this.#target = isMarked ? key : "";
    this.#element.update();
  }

  /**
   * Move the focus through the messages.
   *
   * @param {number} step
   */
  focus(step) {
    const items = this.#items.filter((one) => one.tabIndex === -1 && one.role === "article");
    const at = items.findIndex((one) => one.matches(":focus, :focus-within"));
    const next = at < 0 ? items.length - 1 : at + step;
    items[Math.max(0, Math.min(items.length - 1, next))]?.focus({ preventScroll: false });
  }

  /** Return the row that has the focus. */
  focused() {
    const item = this.#items.find((one) => one.matches(":focus, :focus-within"));
    const rows = this.#element.view?.snapshot().rows ?? [];
    return item ? { item, row: rows.find((row) => keyOf(row) === item.dataset.key) } : null;
  }
}

/**
 * @param {Look} one
 * @param {Look} other
 */
function isSame(one, other) {
  const names = /** @type {(keyof Look)[]} */ (Object.keys(other));
  return names.every((name) => one[name] === other[name]);
}
