// SPDX-License-Identifier: Apache-2.0
/** Messages outside of a conversation: replies, pins, mentions, and what a reply answers. */

import { mentionsOf, pinsOf, repliesTo } from "../src/lists.js";
import { icon } from "./icons.js";
import { brief, face, said } from "./text.js";
import { h, once } from "./view.js";

/** @typedef {import("../src/lists.js").MessagesView} MessagesView */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */
/** @typedef {import("./strings.js").Strings} Strings */

/**
 * @typedef {{kind: "mentions"} | {kind: "pins", chat: string} | {kind: "replies", row: Row}} Listed
 */

/**
 * Return the text of a message, in one line where it is short of room.
 *
 * @param {Row} row
 * @param {Strings} strings
 */
export const textOf = ({ gone, content, attachments = [] }, strings) =>
  gone ? strings[gone] : content || attachments.map((file) => file.name).join(", ");

/**
 * Return the list of a dialog.
 *
 * @param {TidingsChat} element
 * @param {Listed} dialog
 * @returns {MessagesView | null}
 */
export function listOf({ tidings }, dialog) {
  if (!tidings) return null;
  if (dialog.kind === "mentions") return mentionsOf(tidings);
  if (dialog.kind === "pins") return pinsOf(tidings, dialog.chat);
  return repliesTo(tidings, dialog.row.chat, dialog.row.sequence);
}

/**
 * @param {TidingsChat} element
 * @param {Listed} dialog
 * @param {MessagesView} list
 */
export function messageList(element, dialog, list) {
  const { strings } = element;
  const { rows, isLoaded, hasMore } = list.snapshot();
  const isThread = dialog.kind === "replies";
  const mayUnpin = dialog.kind === "pins" && element.mayPin;
  const empty = isLoaded ? strings.noMatches : strings.loading;
  const reply = () => {
    element.show(null);
    if (isThread) element.reply(dialog.row);
  };
  return [
    isThread && h("div", { class: "answered" }, listEntry(element, dialog.row, false)),
    rows.length ? null : h("p", { class: "faint", role: "status" }, empty),
    h(
      "ul",
      { role: "list", class: "people long" },
      rows.map((row) =>
        h("li", { key: `${row.chat} ${row.sequence}`, class: "bar" }, [
          listEntry(element, row, dialog.kind === "mentions"),
          mayUnpin &&
            h("button", { onclick: once(() => void element.pin(row.sequence, false)) }, [
              strings.unpin,
            ]),
        ]),
      ),
    ),
    hasMore &&
      h(
        "button",
        { class: "wide", onclick: () => void element.attempt(list.more()) },
        strings.more,
      ),
    isThread && h("button", { class: "main", onclick: reply }, strings.reply),
  ];
}

/**
 * A message that leads to its place in the chat.
 *
 * @param {TidingsChat} element
 * @param {Row} row
 * @param {boolean} showsChat
 * @param {import("./view.js").Child} [text] - By default that of the message.
 */
export function listEntry(element, row, showsChat, text = textOf(row, element.strings)) {
  const { strings, people, tidings } = element;
  const record = tidings?.chats.record(row.chat) ?? null;
  const name = people?.nameOf(row.sender, record) ?? "";
  // What another user wrote in a direct chat names the chat by itself.
  const isClear = record?.type === "direct" && row.sender !== tidings?.user;
  const title = showsChat && record && !isClear ? people?.titleOf(record) : null;
  const open = () => element.open(row.chat, row.sequence);
  return h("button", { type: "button", class: "entry grow", onclick: open }, [
    face(name, null, row.sender),
    h("span", { class: "grow lines" }, [
      h("span", { class: "bar" }, [
        h("span", { class: "grow cut title" }, [
          h("bdi", null, name),
          title && [" · ", h("bdi", null, title)],
        ]),
        h("span", { class: "faint" }, brief(row.at, Date.now(), strings)),
      ]),
      h("span", { class: "faint few", dir: "auto" }, text),
    ]),
  ]);
}

/** The newest pin of the open chat, above its messages. @param {TidingsChat} element */
export function pinBar(element) {
  const { strings, chat } = element;
  const rows = element.pins?.snapshot().rows ?? [];
  const last = rows.at(-1);
  if (!last) return null;
  const text = textOf(last, strings);
  const label = said(strings.pinnedText, { text });
  return h("div", { class: "bar pins", part: "pins" }, [
    icon("pin"),
    h(
      "button",
      { class: "grow cut", "aria-label": label, onclick: () => void element.goTo(last.sequence) },
      h("bdi", null, text),
    ),
    h("button", { class: "link", onclick: () => element.show({ kind: "pins", chat }) }, [
      said(strings.pinCount, { n: rows.length }),
    ]),
  ]);
}

/**
 * What a reply answers, inside of the reply.
 *
 * @param {TidingsChat} element
 * @param {number} sequence
 * @param {Row | null} row - Null until it is loaded.
 * @param {string} name
 */
export function quote(element, sequence, row, name) {
  const { strings } = element;
  return h("button", { class: "quote", onclick: () => void element.goTo(sequence) }, [
    h("bdi", { class: "author cut" }, name),
    h("span", { class: "cut", dir: "auto" }, row ? textOf(row, strings) : strings.loading),
  ]);
}
