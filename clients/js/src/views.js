// SPDX-License-Identifier: Apache-2.0
/** All live views of a client, and how frames of the connection change them. */

import { ChatView } from "./chat_view.js";
import { ChatsView } from "./chats_view.js";
import { InboxView } from "./inbox_view.js";
import { View } from "./view.js";

/** @typedef {import("./core.js").Core} Core */
/** @typedef {import("./frames.js").Entry} Entry */
/** @typedef {import("./frames.js").ServerFrame} ServerFrame */
/** @typedef {import("./tidings.js").Presence} Presence */

/** @type {import("./frames.js").UnreadTotal} */
const NOTHING_UNREAD = { chats: 0, messages: 0, mentions: 0, inboxes: {}, total: 0, exact: true };

export class Views {
  presence = /** @type {Map<string, Presence>} */ (new Map());
  #core;
  #chats = /** @type {Map<string, ChatView>} */ (new Map());
  #inboxes = /** @type {Map<string, InboxView>} */ (new Map());
  #unread = NOTHING_UNREAD;

  /** @param {Core} core */
  constructor(core) {
    this.#core = core;
    this.chats = new ChatsView(core);
    this.unread = new View(() => this.#unread);
  }

  /** @param {string} id */
  chat(id) {
    const view = this.#chats.get(id) ?? new ChatView(this.#core, id);
    this.#chats.set(id, view);
    return view;
  }

  /** @param {string} name */
  inbox(name) {
    const view = this.#inboxes.get(name) ?? new InboxView(this.#core, name);
    this.#inboxes.set(name, view);
    return view;
  }

  /** The views of single chats and inboxes. */
  get #all() {
    return [...this.#chats.values(), ...this.#inboxes.values()];
  }

  /** Return the frames for a new tab. @returns {ServerFrame[]} */
  news() {
    const { records } = this.chats;
    return [
      { op: "records", records },
      { op: "unread_total", ...this.#unread },
    ];
  }

  /** Load the views again, because they may have changed while there was no connection. */
  live() {
    void this.chats.reload().catch(() => {});
    for (const view of this.#all) if (view.isWatched) view.watched(true);
  }

  /**
   * @param {Entry} entry
   * @param {boolean} isOwn
   */
  applied(entry, isOwn) {
    this.#chats.get(entry.chat)?.applied(entry);
    this.chats.applied(entry, isOwn);
  }

  /** @param {string} chat - A chat whose entries so far are not valid any more. */
  restarted(chat) {
    this.#chats.get(chat)?.restarted();
  }

  /** @param {string} chat - A chat that is gone, or no longer the user's. */
  forgotten(chat) {
    this.chats.forgotten(chat);
    this.changed(chat);
  }

  /** @param {string} chat - A chat whose record, draft or unsent messages have changed. */
  changed(chat) {
    this.#chats.get(chat)?.changed();
  }

  /** Follow a chat that is shown, and get the record of a chat with news. @param {string} chat */
  named(chat) {
    if (this.chats.record(chat) || this.#chats.get(chat)?.isWatched) this.#core.follow(chat);
    if (this.#core.isLive) this.chats.stale(chat);
  }

  /** @param {ServerFrame} frame */
  notice(frame) {
    switch (frame.op) {
      case "receipt":
        this.#chats.get(frame.chat)?.receipt(frame.user, frame);
        break;
      case "typing":
        this.chat(frame.chat).types(frame.user);
        break;
      case "chat_changed":
        if (frame.chat) this.chats.stale(frame.chat);
        break;
      case "unread":
        if ("chat" in frame) this.chats.unread(frame);
        else this.#inboxes.get(frame.inbox)?.counted(frame);
        break;
      case "notification":
        this.#inboxes.get(frame.inbox)?.arrived(frame);
        this.#core.events.emit({ type: "notification", inbox: frame.inbox, notification: frame });
        break;
      case "retracted":
        this.#inboxes.get(frame.inbox)?.retracted(frame.id);
        break;
      case "marked":
        this.#inboxes.get(frame.inbox)?.marked(frame);
        break;
      case "presence":
        this.#present(frame);
        break;
      case "unread_total":
        this.#unread = frame;
        this.unread.changed();
        break;
      case "profile":
        this.chats.profile(frame);
        break;
      case "records":
        this.chats.take(frame.records);
    }
  }

  /** @param {Extract<ServerFrame, {op: "presence"}>} frame */
  #present({ user, online, last_seen }) {
    const presence = { user, online, lastSeen: last_seen ?? null };
    this.presence.set(user, presence);
    this.#core.events.emit({ type: "presence", ...presence });
    this.chats.changed();
  }

  /** The senders of all rows that are shown. */
  get senders() {
    return [...this.#chats.values()].flatMap((view) => view.senders);
  }

  /** @param {(row: import("./rows.js").Row) => import("./rows.js").Row} change */
  replace(change) {
    for (const view of this.#chats.values()) view.replace(change);
    this.#core.events.emit({ type: "erased" });
    void this.chats.reload().catch(() => {});
  }

  clear() {
    this.presence.clear();
    this.#unread = NOTHING_UNREAD;
    this.unread.changed();
    for (const view of [this.chats, ...this.#all]) view.clear();
  }
}
