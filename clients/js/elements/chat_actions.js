// SPDX-License-Identifier: Apache-2.0
/** What the user does with chats and messages. */

import { ChatParts } from "./chat_parts.js";
import { Dialogs } from "./dialogs.js";
import { MentionPicker } from "./mentions.js";
import { chatChoices, messageChoices } from "./menu.js";
import { MessageList } from "./message_list.js";
import { OwnReactions } from "./own_reactions.js";
import { People } from "./people.js";
import { opening } from "./popup.js";
import { Quotes } from "./quotes.js";
import { english } from "./strings.js";
import { Undoable } from "./undoable.js";

/** @typedef {import("../src/chats_view.js").ChatRecord} ChatRecord */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */

export class ChatActions extends ChatParts {
  static texts = english;
  /** What is in the field, while it is written. */
  text = "";
  /** The lifetime in seconds of the messages to be sent; 0 if they stay. */
  lifetime = 0;
  /** How often the user has changed what is in the field. */
  keystrokes = 0;
  /** Whether nobody gets a push notice of the messages to be sent. */
  isSilent = false;
  people = /** @type {People | null} */ (null);
  own = /** @type {OwnReactions | null} */ (null);
  opened = /** @type {import("./menu.js").Menu | null} */ (null);
  editing = /** @type {Row | null} */ (null);
  answering = /** @type {Row | null} */ (null);
  pins = /** @type {import("../src/lists.js").MessagesView | null} */ (null);
  quotes = /** @type {Quotes | null} */ (null);
  messages = new MessageList(/** @type {TidingsChat} */ (/** @type {unknown} */ (this)));
  dialogs = new Dialogs(/** @type {TidingsChat} */ (/** @type {unknown} */ (this)));
  picker = new MentionPicker(/** @type {TidingsChat} */ (/** @type {unknown} */ (this)));
  redactions = new Undoable();

  /** The chat that is open. */
  get chat() {
    return this.getAttribute("chat") ?? "";
  }

  set chat(chat) {
    if (chat === this.chat) return;
    if (chat) this.setAttribute("chat", chat);
    else this.removeAttribute("chat");
  }

  /** The live view of the open chat. */
  get view() {
    return this.chat && this.tidings ? this.tidings.chat(this.chat) : null;
  }

  // Getting about.

  /**
   * Open a chat, at a message if one is given.
   *
   * @param {string} chat
   * @param {number} [sequence]
   */
  open(chat, sequence) {
    const before = this.chat;
    if (chat !== before && !this.tell("open", { chat })) return;
    this.dialogs.show(null);
    this.chat = chat;
    if (!chat) return this.focusChat(before);
    if (sequence) return void this.goTo(sequence);
    if (before === chat) this.focusField();
  }

  /** Return a function that says whether the user is still where they are now, and does not write. */
  place() {
    const { chat, keystrokes } = this;
    const { opened } = this.dialogs;
    return () =>
      this.chat === chat && this.keystrokes === keystrokes && this.dialogs.opened === opened;
  }

  /**
   * Show a message of the open chat.
   *
   * @param {number} sequence
   */
  async goTo(sequence) {
    const { view, keystrokes } = this;
    if (!view) return;
    const find = () => view.snapshot().rows.find((row) => row.sequence === sequence);
    this.messages.isAtBottom = false;
    if (!find()) await this.attempt(view.around(sequence));
    const row = find() ?? view.snapshot().rows.find((one) => one.sequence > sequence);
    // Whoever writes meanwhile keeps the field.
    if (row && this.view === view) this.messages.toRow(row, this.keystrokes === keystrokes);
  }

  /** Show the newest message. */
  async jump() {
    const { view } = this;
    const { activeElement } = this.root;
    this.messages.toBottom();
    if (view?.snapshot().hasNewer) await this.attempt(view.latest());
    if (this.view !== view) return;
    this.messages.toBottom();
    if ([activeElement, null].includes(this.root.activeElement)) this.focusField();
  }

  /** @param {import("./dialogs.js").Dialog | null} dialog */
  show(dialog) {
    this.dialogs.show(dialog);
  }

  /** @param {import("./menu.js").Menu | null} menu */
  menu(menu) {
    this.opened = opening(menu, this.opened);
    this.update();
  }

  /**
   * @param {Row} row
   * @param {HTMLElement} anchor
   */
  messageMenu(row, anchor) {
    const element = /** @type {TidingsChat} */ (/** @type {unknown} */ (this));
    this.menu({ ...messageChoices(element, row), anchor });
  }

  /**
   * @param {ChatRecord} chat
   * @param {HTMLElement} anchor
   */
  chatMenu(chat, anchor) {
    const element = /** @type {TidingsChat} */ (/** @type {unknown} */ (this));
    this.menu({ choices: chatChoices(element, chat), anchor });
  }

  /** Handle the keys of the whole element. @param {any} event */
  pressed = (event) => {
    if (event.key === "Escape" && !event.target.closest("dialog, .menu, [slot]"))
      return this.focusField();
    const isFind = event.key === "f" && (event.ctrlKey || event.metaKey);
    // The browser would search only the part of the chat that is in the page.
    if (isFind && this.view?.snapshot().hasOlder) this.show({ kind: "search", chat: this.chat });
    else if (!event.target.closest(".log")) return;
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      this.messages.focus(event.key === "ArrowUp" ? -1 : 1);
    } else if (event.key === "End") void this.jump();
    else if (event.key === "Enter" || event.key === "ContextMenu") {
      const { row, item } = this.messages.focused() ?? {};
      if (!item || !row?.sequence || row.gone || event.target !== item) return;
      this.messageMenu(row, item);
    } else return;
    event.preventDefault();
  };

  focusField() {
    this.root.querySelector("textarea")?.focus({ preventScroll: true });
  }

  /** Put the focus on a chat of the list. @param {string} chat */
  focusChat(chat) {
    const buttons = [...this.root.querySelectorAll("ul .entry")];
    const chats = this.tidings?.chats.snapshot().chats.filter((one) => !one.hidden) ?? [];
    const at = chats.findIndex((one) => one.chat_id === chat);
    // On a phone the list is shown only after the update.
    requestAnimationFrame(() => /** @type {HTMLElement | undefined} */ (buttons[at])?.focus());
  }

  // Messages.

  /** @param {string} text - What is in the field now. */
  writing(text) {
    this.text = text;
    this.update();
  }

  /** @param {number} seconds - The lifetime of messages from now on; 0 for none. */
  live(seconds) {
    this.lifetime = seconds;
    this.update();
  }

  /** @param {boolean} isSilent - Whether messages are sent without push notices from now on. */
  hush(isSilent) {
    this.isSilent = isSilent;
    this.update();
  }

  /** @param {string} text */
  send(text) {
    const { view, editing } = this;
    const files = this.files.value?.chosen.length ? this.files.value : null;
    if (!view || !(text.trim() || files)) return;
    if (editing) return void this.attempt(this.#change(view, editing, text));
    if (this.tell("send", { chat: this.chat, text })) {
      const options = this.optionsFor(text);
      if (files) void files.send(text.trim() && text, options);
      else view.send(text, options);
    }
    this.sent();
    void this.jump();
  }

  /**
   * Edit a message. If that fails, the text comes back, unless something else was begun meanwhile.
   *
   * @param {import("../src/chat_view.js").ChatView} view
   * @param {Row} row
   * @param {string} content
   */
  async #change(view, row, content) {
    const { draft } = view.snapshot();
    this.edit(null);
    try {
      await view.edit(row.sequence, content);
    } catch (error) {
      const isIdle = this.view === view && !this.editing && !this.answering;
      if (isIdle && view.snapshot().draft === draft) {
        this.edit({ ...row, content });
        // What fails before the next frame finds the same field, which has been emptied.
        this.#fill(content);
      }
      throw error;
    }
  }

  /** Begin with the next message. @param {Row | null} [answered] - What the last one answers. */
  sent(answered = this.answering) {
    if (this.answering === answered) this.answering = null;
    this.view?.draft("");
    this.#fill("");
  }

  /** @param {string} text */
  #fill(text) {
    this.writing(text);
    const field = this.root.querySelector(".field textarea");
    if (field) /** @type {HTMLTextAreaElement} */ (field).value = text;
  }

  /**
   * Return the options of the message that is being written.
   *
   * @param {string} text
   * @returns {import("../src/chat_view.js").SendOptions}
   */
  optionsFor(text) {
    const { lifetime, answering, isSilent } = this;
    const mentions = this.picker.in(text);
    return {
      ...(lifetime && { ttlSeconds: lifetime }),
      ...(answering && { replyTo: answering.sequence }),
      ...(mentions.length && { mentions }),
      ...(isSilent && { silent: true }),
    };
  }

  /** @param {Row | null} row - The message to edit; null for none. */
  edit(row) {
    this.editing = row;
    this.answering = null;
    this.update();
  }

  /** @param {Row | null} row - The message to answer; null for none. */
  reply(row) {
    this.answering = row;
    this.editing = null;
    this.update();
    this.focusField();
  }

  /** Whether the user may pin messages in the open chat. */
  get mayPin() {
    const record = this.view?.snapshot().record;
    return !!record && (record.type === "direct" || record.role !== "member");
  }

  /** @param {number} sequence */
  isPinned(sequence) {
    return !!this.pins?.snapshot().rows.some((row) => row.sequence === sequence);
  }

  /**
   * @param {number} sequence
   * @param {boolean} isPinned
   */
  async pin(sequence, isPinned) {
    const path = `/v1/chats/${this.chat}/pins/${sequence}`;
    await this.attempt(this.tidings?.request(isPinned ? "PUT" : "DELETE", path));
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

  /** Delete a message, unless this is undone in time. @param {number} sequence */
  redact(sequence) {
    const { view } = this;
    this.redactions.add(this.#keyOf(sequence), () => void this.attempt(view?.redact(sequence)));
    this.say(this.strings.redacted);
  }

  /** @param {number} sequence */
  undo(sequence) {
    this.redactions.undo(this.#keyOf(sequence));
    this.notice = "";
    this.update();
  }

  /** @param {number} sequence */
  isUndoable(sequence) {
    return this.redactions.has(this.#keyOf(sequence));
  }

  /** @param {number} sequence */
  #keyOf(sequence) {
    return `${this.chat} ${sequence}`;
  }

  /**
   * Add a reaction, or remove it if the user has it.
   *
   * @param {number} sequence
   * @param {string} emoji
   */
  async toggle(sequence, emoji) {
    const { view, own } = this;
    const row = view?.snapshot().rows.find((one) => one.sequence === sequence);
    const change = async () =>
      row && (await own?.has(row, emoji))
        ? view?.unreact(sequence, emoji)
        : view?.react(sequence, emoji);
    await this.attempt(change());
  }

  /** @param {number} sequence */
  linkTo(sequence) {
    return `${location.origin}${location.pathname}#${this.chat}/${sequence}`;
  }

  /** @param {string} text */
  async copy(text) {
    await this.attempt(navigator.clipboard?.writeText(text));
    this.say(this.strings.copied);
  }

  // Chats.

  /** Open the direct chat with a user. @param {string} user */
  async begin(user) {
    const isHere = this.place();
    const record = await this.tidings?.chats.direct(user);
    if (record && isHere()) this.open(record.chat_id);
  }

  /**
   * @param {string} chat
   * @param {number} from
   */
  async markUnread(chat, from) {
    // An open chat would be read again at once.
    if (chat === this.chat) this.open("");
    await this.attempt(this.tidings?.chats.set(chat, "unread", { from }));
  }

  /** @param {string} chat */
  async hide(chat) {
    if (chat === this.chat) this.open("");
    await this.attempt(this.tidings?.chats.set(chat, "hidden", { hidden: true }));
  }

  /** @param {string} chat */
  async leave(chat) {
    const user = encodeURIComponent(this.tidings?.user ?? "");
    if (chat === this.chat) this.open("");
    await this.attempt(this.tidings?.request("DELETE", `/v1/chats/${chat}/members/${user}`));
  }

  /**
   * @param {string} user
   * @param {boolean} isBlocked
   */
  async block(user, isBlocked) {
    const path = `/v1/me/blocks/${encodeURIComponent(user)}`;
    await this.attempt(this.tidings?.request(isBlocked ? "PUT" : "DELETE", path));
  }
}
