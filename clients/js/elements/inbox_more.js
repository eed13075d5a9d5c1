// SPDX-License-Identifier: Apache-2.0
/**
 * What `<tidings-inbox>` needs now and then: archived and snoozed notifications, the choices of a
 * snooze, preferences. This is loaded when the user opens one of them.
 */

import { h } from "./describe.js";
import { basicIcon } from "./icons_basic.js";
import { localTime, MINUTE_MS } from "./local_time.js";
import { opening, show, step } from "./popup.js";
import { Preferences } from "./preferences.js";
import { DAY_MS, SNOOZE_MS_MAX, snoozeChoices } from "./snoozing.js";
import { inboxWords } from "./strings_inbox.js";
import { moment, said } from "./words.js";

/** @typedef {import("./describe.js").Child} Child */
/** @typedef {import("./inbox.js").TidingsInbox} TidingsInbox */
/** @typedef {import("../src/frames.js").NotificationRecord} NotificationRecord */
/** @typedef {{label: string, hint?: string, run: () => unknown}} Choice */
/** @typedef {"archived" | "snoozed" | "preferences"} Page */
/** @typedef {{anchor: HTMLElement, choices?: Choice[], snoozed?: string, key?: string}} Menu */

const PAGE_SIZE = 50;
const MORE_STYLE = `
.menu { inset: auto; margin: 0; min-inline-size: 190px; padding: 6px; position: fixed; }
.menu:popover-open { display: grid; }
.menu button { text-align: start; }
.menu .faint { display: block; }
.pick form { display: grid; gap: 10px; padding: 6px; }
.pick button { text-align: center; }
.away { align-items: start; border-block-start: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: 4px 10px; overflow-wrap: anywhere; padding: 12px 16px; }
.away .grow { min-inline-size: 60%; }
.away .line { display: block; }
`;

export class InboxMore {
  #element;
  #tidings;
  #preferences;
  #page = /** @type {Page | null} */ (null);
  #items = /** @type {NotificationRecord[] | null} */ (null);
  #cursor = /** @type {string | null} */ (null);
  #menu = /** @type {Menu | null} */ (null);

  /**
   * @param {TidingsInbox} element
   * @param {import("../src/tidings.js").Tidings} tidings
   */
  constructor(element, tidings) {
    this.#element = element;
    this.#tidings = tidings;
    this.#preferences = new Preferences(element, tidings);
    element.addStyle(MORE_STYLE);
  }

  // Menus.

  /** Offer the other pages of the inbox. @param {HTMLElement} anchor */
  options(anchor) {
    const words = inboxWords(this.#element);
    const pages = /** @type {const} */ (["archived", "snoozed", "preferences"]);
    const choices = pages.map((page) => ({ label: words[page], run: () => this.#open(page) }));
    this.#offer({ choices, anchor });
  }

  /** Offer the times for a snooze. @param {string} id @param {HTMLElement} anchor */
  snooze(id, anchor) {
    const words = inboxWords(this.#element);
    /** @type {Choice[]} */
    const choices = snoozeChoices(Date.now()).map(([name, at]) => ({
      label: words[name],
      hint: moment(at, words),
      run: () => this.#snooze(id, at),
    }));
    const pick = { label: words.snoozePick, run: () => this.#offer({ snoozed: id, anchor }) };
    this.#offer({ choices: [...choices, pick], anchor });
  }

  /** @param {string} id @param {number} at */
  #snooze(id, at) {
    const until = new Date(at).toISOString();
    return this.#element.attempt(this.#element.mark(id, { snooze_until: until }));
  }

  /** @param {Menu} menu */
  #offer(menu) {
    this.#menu = opening(menu, this.#menu);
    this.#element.update();
  }

  #close() {
    this.#menu?.anchor.focus({ preventScroll: true });
    this.#menu = null;
    this.#element.update();
  }

  /** Describe the open menu, or the form for the end of a snooze. @returns {Child} */
  menu() {
    const menu = this.#menu;
    if (!menu) return null;
    const { choices, snoozed = "", anchor, key } = menu;
    const run = (/** @type {Choice} */ choice) => () => {
      if (this.#menu !== menu) return;
      this.#close();
      void choice.run();
    };
    // In a field for a time, Chromium would close the inbox too.
    const leave = (/** @type {any} */ event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      this.#close();
    };
    // The news may come when the next menu is open.
    const closed = (/** @type {any} */ event) =>
      event.newState === "closed" && this.#menu === menu && this.#close();
    const props = {
      key,
      "aria-label": anchor.getAttribute("aria-label"),
      popover: "auto",
      ref: (/** @type {HTMLElement} */ menu) => queueMicrotask(() => show(menu, anchor)),
      ontoggle: closed,
    };
    const pick = { ...props, class: "menu pick", role: "dialog", onkeydown: leave };
    if (!choices) return h("div", pick, this.#picker(snoozed));
    const item = (/** @type {Choice} */ choice) =>
      h("button", { role: "menuitem", onclick: run(choice) }, [
        choice.label,
        choice.hint ? h("span", { class: "faint" }, choice.hint) : null,
      ]);
    const list = { ...props, class: "menu", role: "menu", onkeydown: step };
    return h("div", list, choices.map(item));
  }

  /** Describe the form in which the user picks the end of a snooze. @param {string} id */
  #picker(id) {
    const words = inboxWords(this.#element);
    const now = Date.now();
    const submit = (/** @type {any} */ event) => {
      event.preventDefault();
      const at = Date.parse(String(new FormData(event.target).get("at")));
      this.#close();
      void this.#snooze(id, at);
    };
    return h("form", { onsubmit: submit }, [
      h("label", null, [
        words.snoozeUntil,
        h("input", {
          name: "at",
          type: "datetime-local",
          defaultValue: localTime(now + DAY_MS),
          min: localTime(now + MINUTE_MS),
          max: localTime(now + SNOOZE_MS_MAX),
          required: true,
        }),
      ]),
      h("button", { class: "main" }, words.snooze),
    ]);
  }

  // Pages.

  /** @param {Page | null} page */
  #open(page) {
    this.#page = page;
    this.#items = this.#cursor = null;
    if (page === "preferences") void this.#element.attempt(this.#preferences.load());
    void this.load();
    this.#element.update();
  }

  /** Load the list of the open page, if it has one. Preferences stay as the user leaves them. */
  async load() {
    if (this.#page && this.#page !== "preferences") await this.#element.attempt(this.#fetch(""));
  }

  /** @param {string} cursor - The part of the query that names the page; empty for the first. */
  async #fetch(cursor) {
    const page = this.#page;
    const from = this.#cursor;
    const path = `${this.#element.path}/notifications?${page}=true&limit=${PAGE_SIZE}${cursor}`;
    const { data, next_cursor } = await this.#tidings.request("GET", path);
    // Another page was opened, or the button for more was pressed twice.
    if (page !== this.#page || (cursor && from !== this.#cursor)) return;
    this.#items = cursor ? [...(this.#items ?? []), ...data] : data;
    this.#cursor = next_cursor;
  }

  /** Describe the open page; null if the inbox itself is shown. @returns {Child} */
  page() {
    const page = this.#page;
    if (!page) return null;
    const words = inboxWords(this.#element);
    const back = {
      class: "round",
      "aria-label": words.backToInbox,
      title: words.backToInbox,
      onclick: () => this.#open(null),
    };
    return h("div", { key: page }, [
      h("div", { class: "bar top" }, [
        h("button", back, basicIcon("back")),
        h("h2", { class: "grow" }, words[page]),
      ]),
      page === "preferences" ? this.#preferences.form() : this.#list(page),
    ]);
  }

  /** @param {"archived" | "snoozed"} page */
  #list(page) {
    const words = inboxWords(this.#element);
    const nothing = page === "archived" ? words.noArchived : words.noSnoozed;
    if (!this.#items?.length)
      return h("p", { class: "empty", role: "status" }, this.#items ? nothing : words.loading);
    const more = () =>
      this.#element.attempt(this.#fetch(`&cursor=${encodeURIComponent(this.#cursor ?? "")}`));
    return [
      h(
        "ul",
        { role: "list", "aria-label": words[page] },
        this.#items.map((one) => this.#one(one, page)),
      ),
      this.#cursor ? h("button", { class: "wide", onclick: more }, words.more) : null,
    ];
  }

  /**
   * @param {NotificationRecord} one
   * @param {"archived" | "snoozed"} page
   */
  #one({ id, message, sender, received_at, snoozed_until }, page) {
    const words = inboxWords(this.#element);
    const { title, body } = /** @type {Record<string, string>} */ (message);
    const isArchived = page === "archived";
    const at = Date.parse(isArchived ? received_at : (snoozed_until ?? ""));
    const when = moment(at, words);
    const back = () => this.#element.attempt(this.#bringBack(id, isArchived));
    return h("li", { class: "away", key: id }, [
      h("span", { class: "grow" }, [
        h("strong", { dir: "auto" }, title ?? sender ?? ""),
        body ? h("span", { class: "line", dir: "auto" }, body) : null,
        h("span", { class: "line faint" }, isArchived ? when : said(words.snoozedUntil, { when })),
      ]),
      h("button", { class: "link", onclick: back }, isArchived ? words.unarchive : words.endSnooze),
    ]);
  }

  /** @param {string} id @param {boolean} isArchived */
  async #bringBack(id, isArchived) {
    await this.#element.mark(id, isArchived ? { archived: false } : { snooze_until: null });
    this.#items = this.#items?.filter((one) => one.id !== id) ?? null;
  }
}
