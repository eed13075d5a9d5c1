// SPDX-License-Identifier: Apache-2.0
/** One row of a conversation. */

import { clock, isEmojiOnly, linked, named } from "./text.js";
import { h } from "./view.js";

/** @typedef {import("../src/chat_view.js").ChatSnapshot} ChatSnapshot */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */

const TICKS = { pending: "◷", sent: "✓", delivered: "✓✓", read: "✓✓", failed: "!" };
const QUICK_REACTIONS = ["👍", "❤️", "😂", "😮", "😢", "🎉"];

/**
 * Return the key of a row: the same before and after a message is in the log.
 *
 * @param {Row} row
 */
export const keyOf = (row) => row.id ?? `s${row.sequence}`;

/**
 * @param {TidingsChat} element
 * @param {ChatSnapshot} chat
 * @param {Row} row
 * @param {boolean} isFirst - Whether the row before is by somebody else, or long ago.
 */
export function messageRow(element, chat, row, isFirst) {
  if (row.kind !== "message") return happened(element, chat, row);
  const isOwn = row.sender === element.tidings?.user;
  const gone = row.gone ?? (element.isUndoable(row.sequence) ? "redacted" : null);
  const classes = ["row", isOwn && "own", isFirst && "first", row.state === "failed" && "failed"];
  if (gone) classes.push("gone");
  else if (isEmojiOnly(row.content)) classes.push("big");
  const showsName = isFirst && !isOwn && chat.record?.type === "group";
  return h(
    "div",
    { class: classes.filter(Boolean).join(" "), key: keyOf(row), "data-sequence": row.sequence },
    [
      showsName ? h("div", { class: "faint" }, named(row.sender, chat.record)) : null,
      h("div", { class: "bubble", part: "bubble", dir: "auto" }, body(element, row, gone)),
      gone || !row.sequence ? null : reactions(element, chat, row),
      h("div", { class: "meta faint" }, meta(element, chat, row, isOwn)),
      row.state === "failed" ? failed(element, row) : gone ? null : tools(element, row, isOwn),
    ],
  );
}

/**
 * @param {TidingsChat} element
 * @param {Row} row
 * @param {"redacted" | "expired" | "erased" | null} gone
 */
function body(element, row, gone) {
  if (!gone) return linked(row.content ?? "");
  const undo = element.isUndoable(row.sequence);
  const text = element.strings[gone];
  return undo
    ? [text, " ", h("button", { onclick: () => element.undo(row.sequence) }, element.strings.undo)]
    : text;
}

/**
 * @param {TidingsChat} element
 * @param {ChatSnapshot} chat
 * @param {Row} row
 */
function reactions(element, chat, row) {
  const counts = Object.entries(row.reactions ?? {});
  if (!counts.length) return null;
  const view = element.tidings?.chat(chat.id);
  return h(
    "div",
    { class: "reactions" },
    counts.map(([emoji, count]) =>
      h(
        "button",
        { key: emoji, onclick: () => element.toggle(row.sequence, emoji, view) },
        `${emoji} ${count}`,
      ),
    ),
  );
}

/**
 * @param {TidingsChat} element
 * @param {ChatSnapshot} chat
 * @param {Row} row
 * @param {boolean} isOwn
 */
function meta({ strings }, chat, row, isOwn) {
  const left =
    row.expiresAt && !row.gone
      ? Math.max(0, Math.ceil((row.expiresAt - Date.now()) / 1_000))
      : null;
  const status = row.state ?? statusOf(chat, row);
  return [
    left === null ? null : h("span", null, `${strings.expires} ${left} s`),
    row.editedAt && !row.gone ? h("span", null, strings.edited) : null,
    h("time", { datetime: new Date(row.at).toISOString() }, clock(row.at)),
    isOwn ? h("span", { role: "img", "aria-label": strings[status] }, TICKS[status]) : null,
  ];
}

/**
 * @param {ChatSnapshot} chat
 * @param {Row} row
 */
function statusOf(chat, row) {
  if (chat.read >= row.sequence) return "read";
  return chat.delivered >= row.sequence ? "delivered" : "sent";
}

/**
 * @param {TidingsChat} element
 * @param {Row} row
 */
function failed({ strings, tidings }, row) {
  const id = row.id ?? "";
  return h("div", { class: "bar", role: "alert" }, [
    h("span", { class: "faint" }, row.error?.detail || strings.failed),
    h("button", { onclick: () => tidings?.retry(row.chat, id) }, strings.retry),
    h("button", { onclick: () => tidings?.discard(row.chat, id) }, strings.discard),
  ]);
}

/**
 * @param {TidingsChat} element
 * @param {Row} row
 * @param {boolean} isOwn
 */
function tools(element, row, isOwn) {
  if (!row.sequence) return null;
  const { strings, tidings } = element;
  const view = tidings?.chat(row.chat);
  return h("div", { class: "tools" }, [
    QUICK_REACTIONS.slice(0, 3).map((emoji) =>
      h(
        "button",
        {
          "aria-label": `${strings.react} ${emoji}`,
          onclick: () => element.toggle(row.sequence, emoji, view),
        },
        emoji,
      ),
    ),
    h(
      "button",
      {
        "aria-label": strings.copy,
        onclick: () => navigator.clipboard?.writeText(row.content ?? ""),
      },
      "⧉",
    ),
    isOwn && h("button", { "aria-label": strings.edit, onclick: () => element.edit(row) }, "✎"),
    isOwn &&
      h(
        "button",
        { "aria-label": strings.redact, onclick: () => element.redact(row.sequence) },
        "🗑",
      ),
  ]);
}

/**
 * @param {TidingsChat} element
 * @param {ChatSnapshot} chat
 * @param {Row} row
 */
function happened({ strings }, { record }, row) {
  const [first] = row.users ?? [];
  const left = row.kind === "removed" && first === row.sender;
  const words = { ...strings }[left ? "left" : /** @type {"added"} */ (row.kind)];
  if (!words) return null;
  const users =
    left || row.kind === "created"
      ? []
      : (row.users ?? []).map((user) => [" ", named(user, record)]);
  return h(
    "div",
    { class: "happened", key: keyOf(row) },
    named(row.sender, record),
    " ",
    words,
    users,
    row.kind === "renamed" && ` ${row.name}`,
  );
}
