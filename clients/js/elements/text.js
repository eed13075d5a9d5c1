// SPDX-License-Identifier: Apache-2.0
/** Show times, names and the text of messages, as text: nothing of it is ever parsed as HTML. */

import { h } from "./view.js";

/** @typedef {import("../src/chats_view.js").ChatRecord} ChatRecord */
/** @typedef {import("./strings.js").Strings} Strings */
/** @typedef {import("./view.js").Child} Child */

const LINK = /\bhttps:\/\/[^\s<>"']+[^\s<>"'.,;:!?)\]}]/gu;
const EMOJI_ONLY = /^(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\u200d|\ufe0f|\s){1,12}$/u;
const DAY_MS = 24 * 60 * 60 * 1_000;

/**
 * Return a message's text with links to pages that can be trusted to be what they say.
 *
 * @param {string} text
 * @returns {Child[]}
 */
export function linked(text) {
  /** @type {Child[]} */
  const parts = [];
  let at = 0;
  for (const { 0: href, index } of text.matchAll(LINK)) {
    parts.push(text.slice(at, index));
    parts.push(h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, href));
    at = index + href.length;
  }
  parts.push(text.slice(at));
  return parts.filter((part) => part !== "");
}

/** @param {string | undefined} text */
export const isEmojiOnly = (text) => !!text && EMOJI_ONLY.test(text);

/** @param {number} at */
export const clock = (at) =>
  new Date(at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });

/**
 * @param {number} at
 * @param {number} now
 * @param {Strings} strings
 */
export function day(at, now, strings) {
  if (dayOf(at) === dayOf(now)) return strings.today;
  if (dayOf(at) === dayOf(now - DAY_MS)) return strings.yesterday;
  return new Date(at).toLocaleDateString(undefined, { dateStyle: "full" });
}

/** @param {number} at */
export const dayOf = (at) => new Date(at).toDateString();

/**
 * Return the name of a user. `<bdi>` keeps a name from turning the text around it.
 *
 * @param {string} user
 * @param {ChatRecord | null} record
 */
export const named = (user, record) => h("bdi", null, nameOf(user, record));

/**
 * @param {string} user
 * @param {ChatRecord | null} record
 */
export const nameOf = (user, record) =>
  record?.others?.find((other) => other.user_id === user)?.display_name || user;

/**
 * Return the title of a chat: its name, or the names of the others.
 *
 * @param {ChatRecord} record
 */
export const titleOf = (record) =>
  record.name || record.members.map((user) => nameOf(user, record)).join(", ") || record.chat_id;

/**
 * Return a picture of a chat or a person: the avatar, or the first letter.
 *
 * @param {string} title
 * @param {string | null | undefined} avatar
 */
export const face = (title, avatar) =>
  avatar
    ? h("img", {
        class: "face",
        src: avatar,
        alt: "",
        loading: "lazy",
        referrerPolicy: "no-referrer",
      })
    : h("span", { class: "face", "aria-hidden": "true" }, [...title][0]?.toUpperCase() ?? "?");
