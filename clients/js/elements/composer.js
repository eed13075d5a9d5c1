// SPDX-License-Identifier: Apache-2.0
/** Where a message is written. */

import { icon } from "./icons.js";
import { sendChoices } from "./menu.js";
import { textOf } from "./message_lists.js";
import { duration, filled, said } from "./text.js";
import { h } from "./view.js";

/** @typedef {import("../src/chat_view.js").ChatSnapshot} ChatSnapshot */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */

const BYTES_MAX = 4_096;
const BYTES_NEAR = 3_500;
const LIFETIMES_S = [30, 300, 3_600, 86_400, 604_800];

const sizeOf = (/** @type {string} */ text) => new TextEncoder().encode(text).length;

/**
 * @param {TidingsChat} element
 * @param {ChatSnapshot} chat
 * @param {Row | null} editing - The message that is being edited.
 */
export function composer(element, chat, editing) {
  const { strings } = element;
  // A field of its own for each chat and each edit, so that no text gets to somebody else.
  const key = `${chat.id} ${editing?.sequence ?? ""}`;
  const view = element.tidings?.chat(chat.id);
  // Until the next frame, the field may still be that of another chat or edit.
  const isCurrent = () => element.chat === chat.id && element.editing === editing;
  const fill = (/** @type {any} */ field) => {
    field.value = editing?.content ?? chat.draft;
    element.writing(field.value);
    // A keyboard that covers half of a phone comes up only when it is asked for.
    if (editing || !matchMedia("(pointer: coarse)").matches) {
      queueMicrotask(() => {
        // The update that makes the field may also go to a message, which has the focus then.
        const isElsewhere = !editing && element.root.activeElement?.closest(".item");
        if (!isElsewhere) field.focus({ preventScroll: true });
      });
    }
  };
  const onsubmit = (/** @type {any} */ event) => {
    event.preventDefault();
    if (isCurrent()) submit(element, event.target.querySelector("textarea"));
  };
  return h("form", { class: "composer", part: "composer", onsubmit }, [
    editing ? editBar(element) : null,
    element.answering ? replyBar(element, element.answering) : null,
    element.picker.describe(),
    editing ? null : element.files.value?.tray(),
    // With a key, so that what comes above it leaves the field and its cursor alone.
    h("div", { class: "field", key: "field" }, [
      editing ? null : attach(element),
      h("textarea", {
        ...element.picker.props,
        key,
        rows: 1,
        "aria-label": strings.message,
        placeholder: strings.message,
        ref: fill,
        onkeydown: (/** @type {any} */ event) => {
          if (isCurrent()) pressed(element, event);
          else if (event.key === "Enter") event.preventDefault();
        },
        oninput: (/** @type {any} */ { target }) => {
          if (isCurrent()) typed(element, editing ? null : view, target);
          else if (!editing && element.chat !== chat.id) view?.draft(target.value);
        },
        onclick: (/** @type {any} */ event) => isCurrent() && element.picker.typed(event.target),
        onblur: () => element.picker.close(),
        onpaste: element.take(chat.id),
        // A draft that loads later than the field is made.
        onfocus: (/** @type {any} */ event) => {
          if (!event.target.value && !editing) event.target.value = view?.snapshot().draft ?? "";
        },
      }),
      counter(element),
      editing ? null : [lifetime(element), silence(element), more(element)],
      h(
        "button",
        { class: "round main", "aria-label": editing ? strings.save : strings.send },
        icon(editing ? "check" : "send"),
      ),
    ]),
  ]);
}

/** @param {TidingsChat} element */
const editBar = (element) =>
  h("div", { class: "bar faint editing" }, [
    icon("write"),
    h("span", { class: "grow" }, element.strings.editing),
    h(
      "button",
      { type: "button", class: "link", onclick: () => element.edit(null) },
      element.strings.cancel,
    ),
  ]);

/**
 * @param {TidingsChat} element
 * @param {Row} row
 */
function replyBar(element, row) {
  const { strings, people, view } = element;
  const who = people?.named(row.sender, view?.snapshot().record);
  return h("div", { class: "bar faint editing" }, [
    icon("reply"),
    h("span", { class: "grow cut" }, [
      filled(strings.replying, { who }),
      " · ",
      h("bdi", null, textOf(row, strings)),
    ]),
    h(
      "button",
      { type: "button", class: "link", onclick: () => element.reply(null) },
      strings.cancel,
    ),
  ]);
}

/**
 * @param {TidingsChat} element
 * @param {any} event
 */
function pressed(element, event) {
  const field = event.target;
  if (element.picker.pressed(event)) return;
  if (event.key === "Escape") {
    event.stopPropagation();
    return element.edit(null);
  }
  if (event.key === "ArrowUp" && !field.value) {
    event.preventDefault();
    return element.editLast();
  }
  // While an input method composes a character, Enter chooses it.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  submit(element, field);
}

/**
 * @param {TidingsChat} element
 * @param {import("../src/chat_view.js").ChatView | null | undefined} view - Null during an edit.
 * @param {HTMLTextAreaElement} field
 */
function typed(element, view, field) {
  const text = field.value;
  element.keystrokes += 1;
  element.writing(text);
  // An edit changes the text, but not whom the message mentions.
  if (!view) return;
  element.picker.typed(field);
  view.draft(text);
  if (text) view.typing();
}

/** @param {TidingsChat} element */
function counter({ strings, text }) {
  const left = BYTES_MAX - sizeOf(text);
  if (left > BYTES_MAX - BYTES_NEAR) return null;
  const words = left < 0 ? strings.tooLong : strings.bytesLeft;
  const label = said(words, { n: Math.abs(left) });
  return h("span", { class: left < 0 ? "count warn" : "count faint", role: "status" }, label);
}

/** @param {TidingsChat} element */
function lifetime(element) {
  const { strings } = element;
  const change = (/** @type {any} */ event) => element.live(Number(event.target.value));
  const option = (/** @type {number} */ seconds) =>
    h(
      "option",
      { value: String(seconds), selected: seconds === element.lifetime },
      seconds ? duration(seconds, strings, "long") : strings.never,
    );
  return h(
    "label",
    { class: element.lifetime ? "round timer on" : "round timer", title: strings.disappears },
    [
      icon("clock"),
      h("select", { "aria-label": strings.disappears, onchange: change }, [
        [0, ...LIFETIMES_S].map(option),
      ]),
    ],
  );
}

/** @param {TidingsChat} element */
function attach(element) {
  const { strings, chat } = element;
  const change = (/** @type {any} */ { target }) => {
    void element.attach(target.files, chat);
    target.value = ""; // so that the same file can be chosen again
  };
  return h("label", { class: "round timer", title: strings.attach, key: "attach" }, [
    icon("attach"),
    h("input", { type: "file", multiple: true, "aria-label": strings.attach, onchange: change }),
  ]);
}

/** Show that messages are sent without push notices; the menu beside it switches this on. */
function silence(/** @type {TidingsChat} */ element) {
  const { strings, isSilent } = element;
  if (!isSilent) return null;
  const props = {
    type: "button",
    class: "round timer on",
    "aria-label": strings.silently,
    "aria-pressed": "true",
    title: strings.silently,
  };
  return h("button", { ...props, onclick: () => element.hush(false) }, icon("muted"));
}

/** The other ways to send. @param {TidingsChat} element */
function more(element) {
  const { strings } = element;
  const open = (/** @type {any} */ event) =>
    element.menu({ choices: sendChoices(element), anchor: event.currentTarget });
  const props = { type: "button", class: "round timer", "aria-haspopup": "menu", onclick: open };
  const label = strings.sendOptions;
  return h("button", { ...props, "aria-label": label, title: label }, icon("more"));
}

/**
 * @param {TidingsChat} element
 * @param {HTMLTextAreaElement} field
 */
function submit(element, field) {
  const { value } = field;
  const isEmpty = !value.trim() && (element.editing || !element.files.value?.chosen.length);
  if (isEmpty || sizeOf(value) > BYTES_MAX) return;
  element.send(value);
  field.value = "";
  element.writing("");
}
