// SPDX-License-Identifier: Apache-2.0
/** Where a message is written. */

import { h } from "./view.js";

/** @typedef {import("../src/chat_view.js").ChatSnapshot} ChatSnapshot */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */

const BYTES_MAX = 4_096;
const BYTES_NEAR = 3_500;

/**
 * @param {TidingsChat} element
 * @param {ChatSnapshot} chat
 * @param {Row | null} editing - The message that is being edited.
 */
export function composer(element, chat, editing) {
  const { strings } = element;
  const size = new TextEncoder().encode(chat.draft).length;
  const onkeydown = (/** @type {any} */ event) => {
    if (event.key === "Escape") return element.edit(null);
    if (event.key === "ArrowUp" && !event.target.value) return element.editLast();
    // While an input method composes a character, Enter chooses it.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit(element, event.target);
  };
  const oninput = (/** @type {any} */ event) => {
    if (editing) return;
    element.view?.draft(event.target.value);
    element.view?.typing();
  };
  const onsubmit = (/** @type {any} */ event) => {
    event.preventDefault();
    submit(element, event.target.querySelector("textarea"));
  };
  // A field of its own for each chat and each edit, so that no text gets to somebody else.
  const key = `${chat.id} ${editing?.sequence ?? ""}`;
  const fill = (/** @type {any} */ field) => {
    field.value = editing?.content ?? chat.draft;
    field.focus({ preventScroll: true });
  };
  return h("form", { class: "composer", onsubmit }, [
    h("textarea", {
      key,
      rows: 1,
      "aria-label": strings.message,
      placeholder: strings.message,
      ref: fill,
      onkeydown,
      oninput,
    }),
    size > BYTES_NEAR && !editing
      ? h(
          "span",
          { class: "faint", role: "status" },
          size > BYTES_MAX ? `${size - BYTES_MAX} ${strings.tooLong}` : `${BYTES_MAX - size}`,
        )
      : null,
    editing
      ? h("button", { type: "button", onclick: () => element.edit(null) }, strings.cancel)
      : null,
    h("button", { class: "main", disabled: size > BYTES_MAX && !editing }, strings.send),
  ]);
}

/**
 * @param {TidingsChat} element
 * @param {HTMLTextAreaElement} field
 */
function submit(element, field) {
  if (new TextEncoder().encode(field.value).length > BYTES_MAX) return;
  element.send(field.value);
  field.value = "";
}
