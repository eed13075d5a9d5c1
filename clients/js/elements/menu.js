// SPDX-License-Identifier: Apache-2.0
/** The menu of a message or a chat. */

import { show, step } from "./popup.js";
import { said } from "./text.js";
import { h } from "./view.js";

/** @typedef {import("../src/chats_view.js").ChatRecord} ChatRecord */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */

/**
 * @typedef {{label: string, run: () => unknown, isDanger?: boolean}} Choice
 * @typedef {{choices: Choice[], quick?: Choice[], anchor: HTMLElement, key?: string}} Menu
 */

const REACTIONS = ["👍", "❤️", "😂", "😮", "😢", "🎉"];
const MUTE_FOR_EVER = "9999-12-31T00:00:00Z";

/**
 * Return what can be done with a message.
 *
 * @param {TidingsChat} element
 * @param {Row} row
 * @returns {Omit<Menu, "anchor">}
 */
export function messageChoices(element, row) {
  const { strings, tidings, view } = element;
  const isOwn = row.sender === tidings?.user;
  const record = view?.snapshot().record;
  const role = record?.role ?? "member";
  /** @type {(Choice | false)[]} */
  const choices = [
    { label: strings.reply, run: () => element.reply(row) },
    { label: strings.copy, run: () => element.copy(row.content ?? "") },
    { label: strings.copyLink, run: () => element.copy(element.linkTo(row.sequence)) },
    { label: strings.info, run: () => element.show({ kind: "info", row }) },
    isOwn && { label: strings.edit, run: () => element.edit(row) },
    element.mayPin && {
      label: element.isPinned(row.sequence) ? strings.unpin : strings.pin,
      run: () => element.pin(row.sequence, !element.isPinned(row.sequence)),
    },
    !isOwn && { label: strings.markUnread, run: () => element.markUnread(row.chat, row.sequence) },
    !isOwn && {
      label: strings.report,
      run: () => element.showAccount("report", row),
      isDanger: true,
    },
    !isOwn && {
      label: said(strings.block, { who: element.people?.nameOf(row.sender, record) ?? "" }),
      run: () => element.block(row.sender, true),
      isDanger: true,
    },
    (isOwn || role !== "member") && {
      label: strings.redact,
      run: () => element.redact(row.sequence),
      isDanger: true,
    },
  ];
  const quick = REACTIONS.map((emoji) => ({
    label: emoji,
    run: () => element.toggle(row.sequence, emoji),
  }));
  return { choices: choices.filter((one) => !!one), quick };
}

/**
 * Return what can be done with a chat.
 *
 * @param {TidingsChat} element
 * @param {ChatRecord} chat
 * @returns {Choice[]}
 */
export function chatChoices(element, chat) {
  const { strings, tidings } = element;
  const { chat_id, last_message } = chat;
  const isMuted = !!chat.muted_until && Date.parse(chat.muted_until) > Date.now();
  const set = (/** @type {"mute" | "hidden"} */ name, /** @type {object} */ body) => () =>
    element.attempt(tidings?.chats.set(chat_id, name, body));
  /** @type {(Choice | false | null)[]} */
  const choices = [
    chat.type === "group" && {
      label: strings.members,
      run: () => element.show({ kind: "members", chat: chat_id }),
    },
    {
      label: strings.searchChat,
      run: () => element.show({ kind: "search", chat: chat_id }),
    },
    isMuted
      ? { label: strings.unmute, run: set("mute", { until: null }) }
      : { label: strings.mute, run: set("mute", { until: MUTE_FOR_EVER }) },
    !isMuted && {
      label: strings.muteExceptMentions,
      run: set("mute", { until: MUTE_FOR_EVER, except_mentions: true }),
    },
    last_message && {
      label: strings.markUnread,
      run: () => element.markUnread(chat_id, last_message.sequence),
    },
    chat.hidden
      ? { label: strings.unhide, run: set("hidden", { hidden: false }) }
      : { label: strings.hide, run: () => element.hide(chat_id) },
    { label: strings.keys, run: () => element.showAccount("keys") },
    chat.type === "group" && {
      label: strings.leave,
      run: () => element.leave(chat_id),
      isDanger: true,
    },
  ];
  return choices.filter((one) => !!one);
}

/**
 * Return the ways to send, besides at once.
 *
 * @param {TidingsChat} element
 * @returns {Choice[]}
 */
export function sendChoices(element) {
  const { strings } = element;
  const mayRecord = !!globalThis.MediaRecorder && !!navigator.mediaDevices;
  /** @type {(Choice | false)[]} */
  const choices = [
    mayRecord && { label: strings.record, run: () => element.record() },
    { label: strings.sendLater, run: () => element.showAccount("later") },
    { label: strings.scheduled, run: () => element.showAccount("scheduled") },
    !element.isSilent && { label: strings.silently, run: () => element.hush(true) },
  ];
  return choices.filter((one) => !!one);
}

/**
 * @param {TidingsChat} element
 * @param {Menu} menu
 */
export function menuOf(element, menu) {
  const { strings } = element;
  const { choices, quick, anchor } = menu;
  const run = (/** @type {Choice} */ choice) => () => {
    if (element.opened !== menu) return;
    element.menu(null);
    anchor.focus({ preventScroll: true });
    void choice.run();
  };
  const item = (/** @type {Choice} */ choice, /** @type {string} */ label) =>
    h(
      "button",
      {
        role: "menuitem",
        class: choice.isDanger ? "warn" : null,
        "aria-label": label,
        onclick: run(choice),
      },
      choice.label,
    );
  const closed = (/** @type {any} */ event) => {
    // The news may come when the next menu is open.
    if (event.newState !== "closed" || element.opened !== menu) return;
    element.menu(null);
    // Whoever has pressed something else meanwhile keeps the focus there.
    const { activeElement } = element.root;
    if (!activeElement || activeElement.closest(".menu")) anchor.focus({ preventScroll: true });
  };
  const props = {
    key: menu.key,
    class: "menu",
    role: "menu",
    "aria-label": strings.actions,
    popover: "auto",
    ref: (/** @type {HTMLElement} */ menu) => queueMicrotask(() => show(menu, anchor)),
    ontoggle: closed,
    onkeydown: step,
  };
  return h("div", props, [
    quick &&
      h(
        "div",
        { class: "quick", role: "none" },
        quick.map((one) => item(one, said(strings.react, { emoji: one.label }))),
      ),
    choices.map((one) => item(one, one.label)),
  ]);
}
