// SPDX-License-Identifier: Apache-2.0
/** `<tidings-chat>`: a list of chats beside a conversation. */

import { TidingsElement } from "./base.js";
import { chatList } from "./chat_list.js";
import { composer } from "./composer.js";
import { keyOf, messageRow } from "./message_row.js";
import { day, dayOf, named, titleOf } from "./text.js";
import { h } from "./view.js";

/** @typedef {import("../src/chat_view.js").ChatSnapshot} ChatSnapshot */
/** @typedef {import("../src/chat_view.js").ChatView} ChatView */
/** @typedef {import("../src/rows.js").Row} Row */

const UNDO_MS = 5_000;
const NEAR_PX = 240;
const BOTTOM_PX = 40;
const TOGETHER_MS = 5 * 60_000;

export class TidingsChat extends TidingsElement {
  static observedAttributes = ["chat"];
  #query = "";
  #dialog = /** @type {"direct" | "group" | null} */ (null);
  #editing = /** @type {Row | null} */ (null);
  #undoable = /** @type {Map<number, ReturnType<typeof setTimeout>>} */ (new Map());
  #endView = () => {};
  /** The last entry that was read when the chat was opened; the divider stays there. */
  #dividesAfter = /** @type {number | null} */ (null);
  #isAtBottom = true;
  #ticking = /** @type {ReturnType<typeof setInterval> | undefined} */ (undefined);

  /** The chat that is open. */
  get chat() {
    return this.getAttribute("chat") ?? "";
  }

  set chat(chat) {
    if (chat) this.setAttribute("chat", chat);
    else this.removeAttribute("chat");
  }

  attributeChangedCallback() {
    this.#endView();
    this.#editing = null;
    this.#dividesAfter = null;
    this.#isAtBottom = true;
    const view = this.view;
    this.#endView = view && this.isConnected ? view.subscribe(this.update) : () => {};
    this.update();
    this.tell("open", { chat: this.chat });
  }

  /** The live view of the open chat. */
  get view() {
    return this.chat && this.tidings ? this.tidings.chat(this.chat) : null;
  }

  /** @param {import("../src/tidings.js").Tidings} tidings */
  start(tidings) {
    this.watch(tidings.chats);
    this.watch(tidings.state);
    this.attributeChangedCallback();
    this.#ticking = setInterval(() => this.#countDown(), 1_000);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    clearInterval(this.#ticking);
    this.#endView();
  }

  #countDown() {
    if (this.view?.snapshot().rows.some((row) => row.expiresAt && !row.gone)) this.view.changed();
  }

  render() {
    const chat = this.view?.snapshot() ?? null;
    return [
      this.#banner(),
      h("div", { class: chat ? "frame open" : "frame" }, [
        chatList(this, this.#query),
        h(
          "section",
          { class: "talk" },
          chat ? this.#conversation(chat) : h("p", { class: "empty" }, this.strings.pickChat),
        ),
      ]),
      this.#dialog && this.#form(this.#dialog),
    ];
  }

  #banner() {
    const state = this.tidings?.state.snapshot();
    if (!state || state.connection === "live" || state.connection === "connecting") return null;
    const waiting = state.queued ? ` · ${state.queued} ${this.strings.waiting}` : "";
    return h("p", { class: "banner", role: "status" }, this.strings.offline + waiting);
  }

  /** @param {ChatSnapshot} chat */
  #conversation(chat) {
    const { strings } = this;
    const typing = chat.typing;
    if (this.#dividesAfter === null && chat.mine !== null) this.#dividesAfter = chat.mine;
    return [
      h("header", { class: "head bar" }, [
        h("button", { "aria-label": strings.back, onclick: () => (this.chat = "") }, "‹"),
        h("h2", { class: "grow cut" }, chat.record ? titleOf(chat.record) : ""),
        typing.length ? h("span", { class: "faint", role: "status" }, this.#typing(chat)) : null,
      ]),
      h(
        "div",
        {
          class: "log",
          role: "log",
          "aria-label": strings.messages,
          tabindex: "0",
          onscroll: () => this.#scrolled(),
        },
        [
          chat.hasOlder
            ? h("button", { key: "older", onclick: () => this.view?.older() }, strings.older)
            : null,
          chat.isLoaded && !chat.rows.length
            ? h("p", { key: "none", class: "empty" }, strings.noMessages)
            : null,
          this.#rows(chat),
        ],
      ),
      this.#isAtBottom && !chat.hasNewer
        ? null
        : h("button", { class: "jump", onclick: () => this.jump() }, `↓ ${strings.jump}`),
      composer(this, chat, this.#editing),
    ];
  }

  /** @param {ChatSnapshot} chat */
  #typing({ typing, record }) {
    const names = typing.map((user, index) => [index ? ", " : "", named(user, record)]);
    return [names, " ", typing.length > 1 ? this.strings.areTyping : this.strings.isTyping];
  }

  /** @param {ChatSnapshot} chat */
  #rows(chat) {
    const now = Date.now();
    return chat.rows.map((row, index) => {
      const before = chat.rows[index - 1];
      const isNewDay = !before || dayOf(before.at) !== dayOf(row.at);
      const isFirst = isNewDay || before.sender !== row.sender || row.at - before.at > TOGETHER_MS;
      const isDivided = this.#isDivided(before, row);
      return [
        isNewDay
          ? h("div", { class: "day", key: `d${dayOf(row.at)}` }, day(row.at, now, this.strings))
          : null,
        isDivided ? h("div", { class: "divider", key: "unread" }, this.strings.unreadFrom) : null,
        messageRow(this, chat, row, isFirst || isDivided),
      ];
    });
  }

  /**
   * @param {Row | undefined} before
   * @param {Row} row
   */
  #isDivided(before, row) {
    const after = this.#dividesAfter;
    if (after === null || !row.sequence || row.sequence <= after) return false;
    return row.sender !== this.tidings?.user && (!before || before.sequence <= after) && after > 0;
  }

  // Scrolling.

  get #log() {
    return this.root.querySelector(".log");
  }

  rendered() {
    const log = this.#log;
    if (!log) return;
    if (this.#isAtBottom) log.scrollTop = log.scrollHeight;
    this.#readIfSeen();
  }

  #scrolled() {
    const log = this.#log;
    const chat = this.view?.snapshot();
    if (!log || !chat) return;
    const below = log.scrollHeight - log.scrollTop - log.clientHeight;
    const wasAtBottom = this.#isAtBottom;
    this.#isAtBottom = below < BOTTOM_PX && !chat.hasNewer;
    if (wasAtBottom !== this.#isAtBottom) this.update();
    if (log.scrollTop < NEAR_PX && chat.hasOlder) void this.#anchored(() => this.view?.older());
    else if (below < NEAR_PX && chat.hasNewer) void this.#anchored(() => this.view?.newer());
    this.#readIfSeen();
  }

  #isLoading = false;

  /**
   * Load rows, and keep what the user looks at where it is.
   *
   * @param {() => Promise<void> | undefined} load
   */
  async #anchored(load) {
    if (this.#isLoading) return;
    this.#isLoading = true;
    const log = this.#log;
    const row = [...(log?.querySelectorAll(".row") ?? [])].find(
      (one) => one.getBoundingClientRect().bottom > (log?.getBoundingClientRect().top ?? 0),
    );
    const before = row?.getBoundingClientRect().top ?? 0;
    await load()?.catch(() => {});
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    if (log && row?.isConnected) log.scrollTop += row.getBoundingClientRect().top - before;
    this.#isLoading = false;
  }

  /** Mark the chat as read only if somebody looks at its end. */
  #readIfSeen() {
    if (!this.#isAtBottom || document.hidden || !document.hasFocus()) return;
    this.view?.read();
  }

  /** Show the newest message. */
  async jump() {
    this.#isAtBottom = true;
    if (this.view?.snapshot().hasNewer) await this.view.latest();
    this.update();
  }

  // What the user does.

  /** @param {string} query */
  search(query) {
    this.#query = query;
    this.update();
  }

  /** @param {string} text */
  send(text) {
    const { view } = this;
    if (!view || !text.trim()) return;
    const editing = this.#editing;
    if (editing) {
      this.#editing = null;
      void view.edit(editing.sequence, text);
    } else if (this.tell("send", { chat: this.chat, text })) view.send(text);
    view.draft("");
    void this.jump();
  }

  /** @param {Row | null} row - The message to edit; null for none. */
  edit(row) {
    this.#editing = row;
    this.update();
  }

  /** Edit the last message of the user. */
  editLast() {
    const rows = this.view?.snapshot().rows ?? [];
    const last = rows.findLast(
      (row) =>
        row.sender === this.tidings?.user && row.sequence && !row.gone && row.kind === "message",
    );
    if (last) this.edit(last);
  }

  /** @param {number} sequence */
  redact(sequence) {
    const { view } = this;
    const send = () => {
      this.#undoable.delete(sequence);
      void view?.redact(sequence);
      this.update();
    };
    this.#undoable.set(sequence, setTimeout(send, UNDO_MS));
    this.update();
  }

  /** @param {number} sequence */
  undo(sequence) {
    clearTimeout(this.#undoable.get(sequence));
    this.#undoable.delete(sequence);
    this.update();
  }

  /** @param {number} sequence */
  isUndoable(sequence) {
    return this.#undoable.has(sequence);
  }

  /**
   * @param {number} sequence
   * @param {string} emoji
   * @param {ChatView | undefined} view
   */
  async toggle(sequence, emoji, view) {
    const path = `/v1/chats/${this.chat}/messages/${sequence}/reactions`;
    const { data } = await this.tidings?.request("GET", path);
    const isMine = data.some(
      (/** @type {any} */ one) => one.emoji === emoji && one.user_id === this.tidings?.user,
    );
    await (isMine ? view?.unreact(sequence, emoji) : view?.react(sequence, emoji));
  }

  /** @param {"direct" | "group" | null} kind */
  dialog(kind) {
    this.#dialog = kind;
    this.update();
  }

  /** @param {"direct" | "group"} kind */
  #form(kind) {
    const { strings } = this;
    const close = () => this.dialog(null);
    const submit = async (/** @type {any} */ event) => {
      event.preventDefault();
      const { name, people } = Object.fromEntries(new FormData(event.target));
      const users = String(people)
        .split(",")
        .map((user) => user.trim())
        .filter(Boolean);
      const chats = this.tidings?.chats;
      const made =
        kind === "group" ? chats?.group(String(name), users) : chats?.direct(users[0] ?? "");
      const record = await made?.catch(
        (/** @type {Error} */ error) => this.tell("error", error) && null,
      );
      close();
      if (record) this.chat = record.chat_id;
    };
    const open = (/** @type {any} */ dialog) =>
      queueMicrotask(() => dialog.isConnected && dialog.showModal());
    return h("dialog", { key: "dialog", ref: open, onclose: close }, [
      h("form", { onsubmit: submit }, [
        h("h2", null, kind === "group" ? strings.newGroup : strings.newChat),
        kind === "group" &&
          h(
            "label",
            null,
            strings.name,
            h("input", { name: "name", required: true, maxLength: 100 }),
          ),
        h(
          "label",
          null,
          kind === "group" ? strings.people : strings.person,
          h("input", { name: "people", required: true }),
        ),
        h("div", { class: "bar" }, [
          h("button", { class: "main" }, strings.create),
          h("button", { type: "button", onclick: close }, strings.cancel),
        ]),
      ]),
    ]);
  }
}

export { keyOf };

if (!customElements.get("tidings-chat")) customElements.define("tidings-chat", TidingsChat);
