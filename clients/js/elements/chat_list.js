// SPDX-License-Identifier: Apache-2.0
/** The list of chats, with a search over it and the dialogs that begin a chat. */

import { clock, face, nameOf, titleOf } from "./text.js";
import { h } from "./view.js";

/** @typedef {import("../src/chats_view.js").ChatRecord} ChatRecord */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */

/**
 * @param {TidingsChat} element
 * @param {string} query
 */
export function chatList(element, query) {
  const { strings, tidings } = element;
  const { chats, isLoaded, hasMore } = tidings?.chats.snapshot() ?? {
    chats: [],
    isLoaded: false,
    hasMore: false,
  };
  const shown = chats.filter((chat) => !chat.hidden && matches(chat, query));
  return h("div", { class: "list", part: "list" }, [
    h("div", { class: "bar head" }, [
      h("button", { onclick: () => element.dialog("direct") }, strings.newChat),
      h("button", { onclick: () => element.dialog("group") }, strings.newGroup),
    ]),
    h("div", { class: "head" }, [
      h("input", {
        type: "search",
        "aria-label": strings.search,
        placeholder: strings.search,
        value: query,
        oninput: (/** @type {any} */ event) => element.search(event.target.value),
      }),
    ]),
    isLoaded && !shown.length ? h("p", { class: "empty" }, strings.noChats) : null,
    h("ul", { "aria-label": strings.chats, onkeydown: roving }, [
      shown.map((chat) => h("li", { key: chat.chat_id }, entry(element, chat))),
      hasMore &&
        h(
          "li",
          { key: "more" },
          h("button", { onclick: () => tidings?.chats.more() }, strings.more),
        ),
    ]),
  ]);
}

/**
 * @param {TidingsChat} element
 * @param {ChatRecord} chat
 */
function entry(element, chat) {
  const { strings, tidings } = element;
  const title = titleOf(chat);
  const [other] = chat.others ?? [];
  const peer = chat.type === "direct" ? chat.members[0] : undefined;
  const isOnline = peer !== undefined && tidings?.presence(peer)?.online;
  const unread = chat.marked_unread && !chat.unread ? "•" : chat.unread || null;
  const props = {
    "aria-current": String(chat.chat_id === element.chat),
    onclick: () => (element.chat = chat.chat_id),
  };
  return h("button", props, [
    face(title, chat.type === "direct" ? other?.avatar_url : null),
    h("span", { class: "grow" }, [
      h("span", { class: "bar" }, [
        h("bdi", { class: "grow cut" }, title),
        isOnline ? h("span", { class: "faint" }, strings.online) : null,
        chat.last_message &&
          h("span", { class: "faint" }, clock(Date.parse(chat.last_message.created_at))),
      ]),
      h("span", { class: "bar faint" }, [
        h("span", { class: "grow cut" }, preview(element, chat)),
        unread &&
          h("span", { class: "badge", "aria-label": `${unread} ${strings.unreadFrom}` }, unread),
      ]),
    ]),
  ]);
}

/**
 * @param {TidingsChat} element
 * @param {ChatRecord} chat
 */
function preview({ strings, tidings }, chat) {
  const last = chat.last_message;
  if (!last) return "";
  const gone = /** @type {"redacted" | "expired" | "erased"} */ (last.gone ?? "redacted");
  const text = last.preview ?? strings[gone];
  if (last.sender_id === tidings?.user) return `${strings.you}: ${text}`;
  return chat.type === "group" ? `${nameOf(last.sender_id, chat)}: ${text}` : text;
}

/**
 * @param {ChatRecord} chat
 * @param {string} query
 */
function matches(chat, query) {
  const wanted = query.trim().toLocaleLowerCase();
  return !wanted || titleOf(chat).toLocaleLowerCase().includes(wanted);
}

/** Move the focus with the arrow keys. @param {any} event */
function roving(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[/** @type {string} */ (event.key)];
  if (!step) return;
  const buttons = [...event.currentTarget.querySelectorAll("li button")];
  const at = buttons.indexOf(event.target);
  buttons[at + step]?.focus();
  event.preventDefault();
}
