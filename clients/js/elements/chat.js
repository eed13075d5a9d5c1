// SPDX-License-Identifier: Apache-2.0
/** `<tidings-chat>`: a list of chats beside a conversation. */

import { ChatActions } from "./chat_actions.js";
import { ChatList } from "./chat_list.js";
import { CHAT_STYLE } from "./chat_style.js";
import { composer } from "./composer.js";
import { icon } from "./icons.js";
import { listOf, pinBar, textOf } from "./message_lists.js";
import { menuOf } from "./menu.js";
import { OwnReactions } from "./own_reactions.js";
import { People } from "./people.js";
import { Quotes } from "./quotes.js";
import { ago, chatFace, filled, said } from "./text.js";
import { h } from "./view.js";

export { SignedOut, Tidings, tokenFrom } from "../src/index.js";

/** @typedef {import("../src/chat_view.js").ChatSnapshot} ChatSnapshot */
/** @typedef {import("../src/chats_view.js").ChatRecord} ChatRecord */
/** @typedef {import("../src/rows.js").Row} Row */

const DAY_SHOWN_MS = 1_200;
const PAGES_MAX = 4;
const AGAIN_S = 5;

export class TidingsChat extends ChatActions {
  static observedAttributes = ["chat"];
  #list = new ChatList(this);
  #endView = () => {};
  /** The first unread row when the chat was opened, where the divider stays; null until found. */
  #dividesAt = /** @type {number | null} */ (null);
  #isFinding = false;
  /** Seconds for which something is being loaded. */
  #waited = 0;
  #announced = "";
  #isLate = false;
  #dayTimer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);

  constructor() {
    super();
    this.addStyle(CHAT_STYLE);
  }

  attributeChangedCallback() {
    this.#follow();
  }

  /** Look at the chat that is open now. */
  #follow() {
    this.#endView();
    this.editing = this.answering = this.opened = null;
    this.picker.reset();
    this.#dividesAt = null;
    this.messages.reset();
    const { view } = this;
    const { chat } = this;
    this.pins = view && listOf(this, { kind: "pins", chat });
    const ends = this.isConnected
      ? [view, this.pins].map((one) => one?.subscribe(this.update))
      : [];
    this.#endView = () => ends.forEach((end) => end?.());
    this.update();
  }

  /** @param {import("../src/tidings.js").Tidings} tidings */
  start(tidings) {
    this.prepare(tidings);
    this.people = new People(tidings, this.update);
    this.own = new OwnReactions(tidings, this.update);
    this.quotes = new Quotes(tidings, this.update);
    this.watch(tidings.chats);
    this.watch(tidings.unread);
    this.watch(tidings.state);
    this.until(tidings.on((event) => this.#happens(event)));
    const ticking = setInterval(() => this.#tick(), 1_000);
    this.until(() => clearInterval(ticking));
    const leaving = new AbortController();
    const { signal } = leaving;
    for (const name of ["focus", "visibilitychange"]) {
      const target = name === "focus" ? globalThis : document;
      target.addEventListener(name, () => this.#readIfSeen(), { signal });
    }
    globalThis.addEventListener("pagehide", () => this.redactions.hurry(), { signal });
    this.until(() => leaving.abort());
    this.until(() => this.#endView());
    this.until(() => this.redactions.hurry());
    this.#follow();
  }

  #tick() {
    const { connection, queued } = this.tidings?.state.snapshot() ?? {};
    // A connection that is made anew at once is not worth a banner. One without a network may look
    // live for a while, but nothing gets through.
    const isLate = connection !== "live" || !!(queued && !navigator.onLine);
    if (isLate !== this.#isLate) this.update();
    this.#isLate = isLate;
    if (this.view?.snapshot().rows.some((row) => row.expiresAt && !row.gone)) this.view.changed();
    this.#loadAgain(connection === "live");
  }

  /** Load again what the client could not load: it does not try for long. @param {boolean} isLive */
  #loadAgain(isLive) {
    const { view, tidings } = this;
    const chat = view?.snapshot();
    const isListed = tidings?.chats.snapshot().isLoaded;
    const isShown = !chat || this.#why(chat) !== this.strings.loading;
    this.#waited = !isLive || (isListed && isShown) ? 0 : this.#waited + 1;
    if (this.#waited < AGAIN_S) return;
    this.#waited = 0;
    if (!isListed) tidings?.chats.reload().catch(() => {});
    if (!isShown) view?.latest().catch(() => {});
  }

  /** Let screen readers say what arrives in the open chat. @param {any} event */
  #happens(event) {
    this.quotes?.happened(event);
    if (event.type !== "entry") return;
    if (event.isOwn) return this.own?.applied(event.entry);
    const { chat, kind, sender } = event.entry;
    const text = textOf(event.entry, this.strings);
    if (chat !== this.chat || kind !== "message" || !text) return;
    const name = this.people?.nameOf(sender, this.view?.snapshot().record);
    this.#announced = `${name}: ${text}`;
    this.update();
  }

  // Describing.

  render() {
    const shown = this.view?.snapshot() ?? null;
    const chat = (shown && this.files.value?.with(shown)) ?? shown;
    const { strings } = this;
    if (this.people) this.people.operator = strings.operator;
    return [
      this.#banner(),
      h("div", { class: chat ? "frame open" : "frame", onkeydown: this.pressed }, [
        this.#list.describe(),
        this.#talk(chat),
        this.opened && menuOf(this, this.opened),
      ]),
      h("p", { class: "notice", part: "notice", role: "status" }, this.notice),
      h("p", { class: "unseen", role: "status" }, this.#announced),
      this.dialogs.describe(),
    ];
  }

  /** @param {ChatSnapshot | null} chat */
  #talk(chat) {
    const drop = chat && { ondragover: this.hover, ondrop: this.take(chat.id) };
    const label = this.strings.messages;
    const props = { class: "talk", part: "conversation", "aria-label": label, ...drop };
    return h("section", props, [chat ? this.#conversation(chat) : this.#nothing()]);
  }

  #nothing() {
    return h("div", { class: "empty big" }, icon("chat"), h("p", null, this.strings.pickChat));
  }

  #banner() {
    const { strings } = this;
    const state = this.tidings?.state.snapshot();
    if (!state) return null;
    const { connection, storage, error } = state;
    const uploads = this.files.value?.waiting ?? 0;
    const queued = state.queued + uploads;
    const isOffline = connection === "waiting" || this.#isLate;
    const isUnsaved =
      (storage === "memory" && queued > 0) ||
      (uploads > 0 && !this.files.value?.uploads.snapshot().isKept);
    if (!isOffline && !isUnsaved) return null;
    return h("p", { class: "banner", part: "banner", role: "status" }, [
      isOffline && (error ? strings.wentWrong : strings.offline),
      isOffline && queued ? ` · ${said(strings.waiting, { n: queued })}` : null,
      isUnsaved && ` · ${strings.unsaved}`,
    ]);
  }

  /** @param {ChatSnapshot} chat */
  #conversation(chat) {
    const { strings } = this;
    const missed = this.messages.isAtBottom ? 0 : this.messages.missed(chat);
    return [
      this.#head(chat),
      pinBar(this),
      h("div", { class: "scroller", key: chat.id }, [
        h(
          "div",
          {
            class: "log",
            role: "log",
            part: "log",
            "aria-live": "off",
            "aria-label": strings.messages,
            "aria-busy": String(!chat.isLoaded),
            tabindex: "0",
            onscroll: () => this.messages.scrolled(),
          },
          [
            chat.rows.length ? null : h("p", { class: "empty", key: "none" }, this.#why(chat)),
            this.messages.describe(chat, this.#dividesAt ?? 0),
          ],
        ),
        h("div", { class: "floating day", "aria-hidden": "true" }, h("span")),
        this.messages.isAtBottom && !chat.hasNewer
          ? null
          : h("button", { class: "jump", "aria-label": strings.jump, onclick: () => this.jump() }, [
              icon("down"),
              missed ? h("span", { class: "badge" }, missed) : null,
            ]),
      ]),
      composer(this, chat, this.editing),
    ];
  }

  /** Return why there are no messages. @param {ChatSnapshot} chat */
  #why({ isLoaded, record }) {
    const { strings, tidings } = this;
    if (isLoaded) return strings.noMessages;
    const { isLoaded: isListed, hasMore } = tidings?.chats.snapshot() ?? {};
    return isListed && !hasMore && !record ? strings.notMember : strings.loading;
  }

  /** @param {ChatSnapshot} chat */
  #head(chat) {
    const { strings } = this;
    const { record } = chat;
    const title = record ? (this.people?.titleOf(record) ?? "") : "";
    const menu = (/** @type {any} */ event) => record && this.chatMenu(record, event.currentTarget);
    return h("header", { class: "head bar", part: "header" }, [
      h(
        "button",
        { class: "round back", "aria-label": strings.back, onclick: () => this.open("") },
        icon("back"),
      ),
      record ? chatFace(title, record) : null,
      h("div", { class: "grow lines" }, [
        h("h2", { class: "cut" }, h("bdi", null, title)),
        h("span", { class: "faint cut", role: "status" }, this.#subtitle(chat)),
      ]),
      h(
        "button",
        {
          class: "round",
          "aria-label": strings.options,
          "aria-haspopup": "menu",
          onclick: menu,
        },
        icon("more"),
      ),
    ]);
  }

  /** @param {ChatSnapshot} chat */
  #subtitle({ typing, record }) {
    const { strings, people } = this;
    if (typing.length) {
      const names = typing.map((user, index) => [index ? ", " : "", people?.named(user, record)]);
      return filled(typing.length > 1 ? strings.areTyping : strings.isTyping, { who: names });
    }
    if (!record) return "";
    if (record.type === "group") return said(strings.memberCount, { n: record.member_count });
    if (this.isOnline(record)) return strings.online;
    const seen = this.tidings?.presence(record.members[0] ?? "")?.lastSeen;
    return seen ? said(strings.lastSeen, { when: ago(Date.parse(seen), Date.now(), strings) }) : "";
  }

  /** @param {ChatRecord} record */
  isOnline({ type, members: [peer] }) {
    return type === "direct" && !!peer && !!this.tidings?.presence(peer)?.online;
  }

  // Reading.

  rendering() {
    this.messages.before();
  }

  rendered() {
    this.messages.after();
    this.#findUnread();
    this.#readIfSeen();
  }

  /** Find the first unread message of a chat that was opened, and show it. */
  #findUnread() {
    const { view } = this;
    const chat = view?.snapshot();
    if (!view || !chat?.isLoaded || !chat.record || this.#dividesAt !== null || this.#isFinding)
      return;
    const { unread, marked_unread } = chat.record;
    if (marked_unread) void this.tidings?.chats.set(chat.id, "unread", { from: null });
    if (!unread) return void (this.#dividesAt = 0);
    this.#isFinding = true;
    void this.#unreadRow(unread).then((row) => {
      this.#isFinding = false;
      // Another chat was opened meanwhile, and its first unread message is looked for next.
      if (this.view !== view) return this.update();
      this.#dividesAt = row?.sequence ?? 0;
      if (row && this.messages.isAtBottom) this.messages.toRow(row, false);
      this.update();
    });
  }

  /** @param {number} unread @returns {Promise<Row | null>} */
  async #unreadRow(unread) {
    const { view } = this;
    for (let page = 0; view && page < PAGES_MAX; page += 1) {
      const { rows, hasOlder } = view.snapshot();
      const others = rows.filter(
        (row) =>
          row.kind === "message" && row.sequence && !row.gone && row.sender !== this.tidings?.user,
      );
      const first = others.at(-unread) ?? (hasOlder ? null : others[0]);
      if (first || !hasOlder) return first ?? null;
      await view.older().catch(() => {});
    }
    return null;
  }

  /** Mark the chat as read only if somebody looks at its end. */
  #readIfSeen() {
    if (this.#dividesAt === null || !this.messages.isAtBottom) return;
    if (document.hidden || !document.hasFocus()) return;
    const chat = this.view?.snapshot();
    if (chat?.isLoaded && !chat.hasNewer) this.view?.read();
  }

  /** Show the day of what is seen, while it is scrolled. @param {string} day */
  seen(day) {
    const label = this.root.querySelector(".floating");
    if (!label?.firstElementChild) return;
    if (label.firstElementChild.textContent !== day) label.firstElementChild.textContent = day;
    label.classList.toggle("shown", !!day && !this.messages.isAtBottom);
    clearTimeout(this.#dayTimer);
    this.#dayTimer = setTimeout(() => label.classList.remove("shown"), DAY_SHOWN_MS);
    this.#readIfSeen();
  }
}

if (!customElements.get("tidings-chat")) customElements.define("tidings-chat", TidingsChat);
