// SPDX-License-Identifier: Apache-2.0
/** One row of a conversation. */

import { icon } from "./icons.js";
import { clock, duration, face, filled, isEmojiOnly, linked, moment, said } from "./text.js";
import { h } from "./view.js";

/** @typedef {import("../src/chat_view.js").ChatSnapshot} ChatSnapshot */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */
/** @typedef {import("./view.js").Child} Child */

/** @type {Record<string, import("./icons.js").IconName>} */
const TICKS = {
  pending: "clock",
  sent: "check",
  delivered: "checks",
  read: "checks",
  failed: "warning",
};

/**
 * What a row looks like depends on this and nothing else: as long as it is the same, the row is not
 * made again.
 *
 * @typedef {object} Look
 * @property {Row} row
 * @property {string} day - The day that begins with this row, if one does.
 * @property {boolean} isDivided - Whether the unread rows begin here.
 * @property {boolean} isFirst - Whether the row before is by somebody else, or long ago.
 * @property {boolean} isOwn
 * @property {boolean} isGroup
 * @property {boolean} isTarget - Whether somebody has jumped here.
 * @property {boolean} isUndoable - Whether its deletion can still be undone.
 * @property {string} status
 * @property {string} name
 * @property {string} users - The names of those whom an entry is about.
 * @property {readonly string[] | null} own - The user's own reactions, as far as they are known.
 * @property {string} left - The time that an ephemeral message has left.
 * @property {import("./strings.js").Strings} strings
 */

/**
 * Return the key of a row: the same before and after a message is in the log.
 *
 * @param {Row} row
 */
export const keyOf = (row) => (row.id ? `${row.sender} ${row.id}` : `s${row.sequence}`);

/**
 * @param {ChatSnapshot} chat
 * @param {Row} row
 * @returns {"pending" | "sent" | "delivered" | "read" | "failed"}
 */
export function statusOf(chat, row) {
  if (row.state) return row.state;
  if (chat.read >= row.sequence) return "read";
  return chat.delivered >= row.sequence ? "delivered" : "sent";
}

/**
 * Return the time that an ephemeral message has left.
 *
 * @param {Row} row
 * @param {number} now
 * @param {import("./strings.js").Strings} strings
 */
export const leftOf = (row, now, strings) =>
  row.expiresAt && !row.gone ? duration((row.expiresAt - now) / 1_000, strings) : "";

/**
 * @param {TidingsChat} element
 * @param {Look} look
 */
export function messageRow(element, look) {
  const { row, strings } = look;
  const isMessage = row.kind === "message";
  const key = keyOf(row);
  const props = {
    class: look.isTarget ? "item target" : "item",
    key,
    "data-key": key,
    "data-sequence": row.sequence || null,
    ...(isMessage && { role: "article", tabindex: "-1", "aria-label": spoken(look) }),
  };
  return h("div", props, [
    look.day && h("div", { class: "day" }, h("span", null, look.day)),
    look.isDivided && h("div", { class: "divider" }, h("span", null, strings.unreadFrom)),
    isMessage ? message(element, look) : happened(look),
  ]);
}

/** Return what a screen reader says of a message that has the focus. @param {Look} look */
function spoken({ row, name, isOwn, status, strings }) {
  const text = row.gone ? strings[row.gone] : row.content;
  const parts = [
    name,
    text,
    clock(row.at, strings),
    isOwn && strings[/** @type {"sent"} */ (status)],
  ];
  return parts.filter(Boolean).join(", ");
}

/**
 * @param {TidingsChat} element
 * @param {Look} look
 */
function message(element, look) {
  const { row, isOwn, isFirst, isGroup, isUndoable } = look;
  const gone = row.gone ?? (isUndoable ? "redacted" : null);
  const isBig = !gone && isEmojiOnly(row.content);
  const classes = [
    "row",
    isOwn && "own",
    isFirst && "first",
    row.state,
    gone && "gone",
    isBig && "big",
  ];
  const showsName = !isOwn && isGroup;
  return h("div", { class: classes.filter(Boolean).join(" ") }, [
    showsName && (isFirst ? face(look.name, null, row.sender) : h("span", { class: "face none" })),
    h("div", { class: "stack" }, [
      showsName && isFirst ? h("bdi", { class: "author faint" }, look.name) : null,
      h("div", { class: "bubble", part: isOwn ? "bubble own" : "bubble" }, [
        h("div", { class: "text", dir: "auto" }, gone ? lost(element, look, gone) : text(row)),
        h("div", { class: "meta" }, meta(look, !!gone)),
      ]),
      gone ? null : reactions(element, look),
      row.state === "failed" ? failed(element, row) : null,
    ]),
    row.state || gone ? null : actions(element, look),
  ]);
}

/** @param {Row} row */
function text(row) {
  const type = row.contentType ?? "text/plain";
  return type.startsWith("text/") ? linked(row.content ?? "") : h("code", null, row.content);
}

/**
 * @param {TidingsChat} element
 * @param {Look} look
 * @param {"redacted" | "expired" | "erased"} gone
 */
function lost(element, { row, isUndoable, strings }, gone) {
  if (!isUndoable) return strings[gone];
  const undo = () => element.undo(row.sequence);
  return [strings[gone], " ", h("button", { class: "link", onclick: undo }, strings.undo)];
}

/**
 * @param {Look} look
 * @param {boolean} isGone
 */
function meta({ row, isOwn, status, left, strings }, isGone) {
  const edited = row.editedAt && !isGone ? moment(row.editedAt, strings) : null;
  return [
    left && h("span", { title: said(strings.expires, { time: left }) }, icon("clock"), left),
    edited && h("span", { title: edited }, strings.edited),
    h("time", { dateTime: new Date(row.at).toISOString(), title: moment(row.at, strings) }, [
      clock(row.at, strings),
    ]),
    isOwn && !isGone
      ? h("span", { class: `tick ${status}` }, [
          icon(TICKS[status] ?? "check", strings[/** @type {"sent"} */ (status)]),
        ])
      : null,
  ];
}

/**
 * @param {TidingsChat} element
 * @param {Look} look
 */
function reactions(element, { row, own }) {
  // In an order of their own, so that none of them moves when another one is added.
  const counts = Object.entries(row.reactions ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  if (!counts.length) return null;
  const toggle = (/** @type {string} */ emoji) => () => void element.toggle(row.sequence, emoji);
  return h(
    "div",
    { class: "reactions" },
    counts.map(([emoji, count]) =>
      h(
        "button",
        { key: emoji, "aria-pressed": String(!!own?.includes(emoji)), onclick: toggle(emoji) },
        [emoji, " ", h("span", null, count)],
      ),
    ),
  );
}

/**
 * @param {TidingsChat} element
 * @param {Look} look
 */
const actions = (element, { row, strings }) =>
  h(
    "button",
    {
      class: "round actions",
      "aria-label": strings.actions,
      "aria-haspopup": "menu",
      tabindex: "-1",
      onclick: (/** @type {any} */ event) => element.messageMenu(row, event.currentTarget),
    },
    icon("more"),
  );

/**
 * @param {TidingsChat} element
 * @param {Row} row
 */
function failed({ strings, tidings }, row) {
  const id = row.id ?? "";
  return h("div", { class: "bar failure", role: "alert" }, [
    h("span", { class: "faint" }, row.error?.detail || strings.failed),
    h("button", { class: "link", onclick: () => tidings?.retry(row.chat, id) }, strings.retry),
    h("button", { class: "link", onclick: () => tidings?.discard(row.chat, id) }, strings.discard),
  ]);
}

/** Describe what happened in a chat. @param {Look} look */
function happened({ row, name, users, strings }) {
  const [first, second] = row.users ?? [];
  const isAlone = first === row.sender && second === undefined;
  const kind = isAlone ? ({ removed: "left", added: "joined" }[row.kind] ?? row.kind) : row.kind;
  const words = /** @type {Record<string, string>} */ (strings)[kind];
  if (!words) return null;
  const bdi = (/** @type {string | undefined} */ text) => h("bdi", null, text);
  const values = { who: bdi(name), users: bdi(users), name: bdi(row.name) };
  return h("div", { class: "happened" }, filled(words, values));
}
