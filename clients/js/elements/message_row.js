// SPDX-License-Identifier: Apache-2.0
/** One row of a conversation. */

import { icon } from "./icons.js";
import { marked } from "./mentions.js";
import { quote } from "./message_lists.js";
import { bytes, clock, duration, face, filled, isEmojiOnly, linked, moment, said } from "./text.js";
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

/** The server stops counting the replies to a message here. */
const REPLIES_MAX = 1_000;

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
 * @property {Row | null} quoted - The message that this one answers, once it is loaded.
 * @property {string} quotedName
 * @property {string} mentioned - The names of those whom the message mentions, in lines.
 * @property {boolean} isCalled - Whether the user is among them.
 * @property {boolean} isPinned
 * @property {number} files - Changes with what is known of the files of the message.
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
function spoken({ row, name, isOwn, status, quotedName, isCalled, isPinned, strings }) {
  const text = row.gone ? strings[row.gone] : row.content;
  const parts = [
    name,
    row.replyTo && said(strings.replyTo, { who: quotedName }),
    text,
    ...(row.attachments ?? []).map((file) => file.name),
    isCalled && strings.mentionsYou,
    isPinned && strings.isPinned,
    row.replyCount && said(strings.replies, { n: row.replyCount }),
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
    look.isCalled && "called",
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
        row.replyTo && quote(element, row.replyTo, look.quoted, look.quotedName),
        h("div", { class: "text", dir: "auto" }, gone ? lost(element, look, gone) : text(look)),
        gone ? null : files(element, look),
        h("div", { class: "meta" }, meta(look, !!gone)),
      ]),
      gone ? null : reactions(element, look),
      row.replyCount ? replies(element, look) : null,
      row.state === "failed" ? failed(element, row) : null,
    ]),
    row.state || gone ? null : actions(element, look),
  ]);
}

/** @param {Look} look */
function text({ row, mentioned }) {
  const type = row.contentType ?? "text/plain";
  if (!type.startsWith("text/")) return h("code", null, row.content);
  return marked(linked(row.content ?? ""), mentioned ? mentioned.split("\n") : []);
}

/**
 * Show the files of a message; list them until that can be done.
 *
 * @param {TidingsChat} element
 * @param {Look} look
 */
function files(element, { row, strings }) {
  if (!row.attachments?.length) return null;
  if (element.files.value) return element.files.value.list(row);
  element.showFiles();
  const item = (/** @type {import("../src/frames.js").Attachment} */ file) =>
    h("li", null, [
      h("bdi", null, file.name),
      " ",
      h("span", { class: "faint" }, bytes(file.size, strings)),
    ]);
  return h("ul", { class: "files" }, row.attachments.map(item));
}

/**
 * @param {TidingsChat} element
 * @param {Look} look
 */
function replies(element, { row, strings }) {
  const n = (row.replyCount ?? 0) < REPLIES_MAX ? row.replyCount : `${REPLIES_MAX}+`;
  const open = () => element.show({ kind: "replies", row });
  return h("button", { class: "link", onclick: open }, said(strings.replies, { n: n ?? 0 }));
}

/**
 * @param {TidingsChat} element
 * @param {Look} look
 * @param {import("../src/rows.js").Gone} gone
 */
function lost(element, { row, isUndoable, strings }, gone) {
  if (!isUndoable && gone !== "blocked") return strings[gone];
  const undo = () => (isUndoable ? element.undo(row.sequence) : element.block(row.sender, false));
  const label = isUndoable ? strings.undo : strings.unblock;
  return [strings[gone], " ", h("button", { class: "link", onclick: undo }, label)];
}

/**
 * @param {Look} look
 * @param {boolean} isGone
 */
function meta({ row, isOwn, isPinned, status, left, strings }, isGone) {
  const edited = row.editedAt && !isGone ? moment(row.editedAt, strings) : null;
  return [
    isPinned && icon("pin", strings.isPinned),
    row.silent && icon("muted", strings.wasSilent),
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
function failed({ strings, tidings, files: { value } }, row) {
  const id = row.id ?? "";
  const sender = value?.messageOf(row) ? value.uploads : tidings;
  const why = value?.reason(row.error) || row.error?.detail || strings.failed;
  return h("div", { class: "bar failure", role: "alert" }, [
    h("span", { class: "faint" }, why),
    h("button", { class: "link", onclick: () => sender?.retry(row.chat, id) }, strings.retry),
    h("button", { class: "link", onclick: () => sender?.discard(row.chat, id) }, strings.discard),
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
