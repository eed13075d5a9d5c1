// SPDX-License-Identifier: Apache-2.0
/** Show times, names and the text of messages, as text: nothing of it is ever parsed as HTML. */

import { h } from "./describe.js";
import { format, UNITS } from "./words.js";

export { ago, filled, moment, said } from "./words.js";

/** @typedef {import("../src/chats_view.js").ChatRecord} ChatRecord */
/** @typedef {import("./strings.js").Strings} Strings */
/** @typedef {import("./describe.js").Child} Child */

const LINK = /\bhttps:\/\/[^\s<>"'\p{Cf}]+[^\s<>"'\p{Cf}.,;:!?)\]}]/gu;
const EMOJI_ONLY =
  /^(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\p{RI}|\u200d|\ufe0f|\s){1,12}$/u;
const DAY_MS = 24 * 60 * 60 * 1_000;

/**
 * Return a message's text with its links. Only https is linked. If the address that a browser would
 * open is another one than it looks like, its host is shown as the browser sees it.
 *
 * @param {string} text
 * @returns {Child[]}
 */
export function linked(text) {
  /** @type {Child[]} */
  const parts = [];
  let at = 0;
  for (const { 0: href, index } of text.matchAll(LINK)) {
    const url = URL.parse?.(href) ?? (URL.canParse(href) ? new URL(href) : null);
    if (!url) continue;
    parts.push(text.slice(at, index));
    parts.push(h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, href));
    if (!href.toLowerCase().startsWith(`https://${url.host}`)) {
      parts.push(h("bdi", { dir: "ltr" }, ` (${url.host})`));
    }
    at = index + href.length;
  }
  parts.push(text.slice(at));
  return parts.filter((part) => part !== "");
}

/** @param {string | undefined} text */
export const isEmojiOnly = (text) => !!text && EMOJI_ONLY.test(text) && /\S/.test(text);

// Times.

/**
 * @param {number} at
 * @param {Strings} strings
 */
export const clock = (at, strings) => format(at, strings, { hour: "2-digit", minute: "2-digit" });

/**
 * @param {number} at
 * @param {number} now
 * @param {Strings} strings
 */
export function day(at, now, strings) {
  if (dayOf(at) === dayOf(now)) return strings.today;
  if (dayOf(at) === dayOf(now - DAY_MS)) return strings.yesterday;
  return format(at, strings, { dateStyle: "full" });
}

/**
 * Return the time of a chat's last message, as short as can be: the hour of today, or the day.
 *
 * @param {number} at
 * @param {number} now
 * @param {Strings} strings
 */
export function brief(at, now, strings) {
  if (dayOf(at) === dayOf(now)) return clock(at, strings);
  if (now - at < 6 * DAY_MS) return format(at, strings, { weekday: "short" });
  return format(at, strings, { dateStyle: "short" });
}

/** @param {number} at */
export const dayOf = (at) => new Date(at).toDateString();

/**
 * Return a duration in the largest unit that it fills, such as `5 min`.
 *
 * @param {number} seconds
 * @param {Strings} strings
 * @param {"long" | "short"} [unitDisplay]
 */
export function duration(seconds, { locale }, unitDisplay = "short") {
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? UNITS[3];
  const options = { style: "unit", unit, unitDisplay };
  const number = new Intl.NumberFormat(locale || undefined, /** @type {any} */ (options));
  return number.format(Math.max(0, Math.floor(seconds / size)));
}

/**
 * Return a number of bytes in a unit that suits it, such as `2 kB`.
 *
 * @param {number} size
 * @param {{locale: string}} strings
 */
export function bytes(size, { locale }) {
  const isLarge = size >= 1_000_000;
  const unit = isLarge ? "megabyte" : "kilobyte";
  const options = /** @type {const} */ ({ style: "unit", unit, maximumFractionDigits: 1 });
  const number = new Intl.NumberFormat(locale || undefined, options);
  return number.format(isLarge ? size / 1_000_000 : Math.ceil(size / 1_000));
}

// People.

/**
 * Return the picture of a chat; for a direct chat it is that of the other user.
 *
 * @param {string} title
 * @param {Pick<import("../src/chats_view.js").ChatRecord, "chat_id" | "type" | "others">} chat
 */
export function chatFace(title, { chat_id, type, others }) {
  const other = type === "direct" ? others?.[0] : null;
  return face(title, other?.avatar_url, other?.user_id ?? chat_id);
}

/** Pictures that could not be loaded, perhaps because the page does not allow them. */
const FAILED = new Set();

/**
 * Return a picture of a chat or a person: the avatar, or the first letter on a colour.
 *
 * @param {string} title
 * @param {string | null | undefined} avatar
 * @param {string} id
 */
export const face = (title, avatar, id) =>
  avatar?.startsWith("https://") && !FAILED.has(avatar)
    ? h("img", {
        onerror: (/** @type {any} */ event) => {
          FAILED.add(avatar);
          event.target.hidden = true;
        },
        class: "face",
        src: avatar,
        alt: "",
        loading: "lazy",
        referrerPolicy: "no-referrer",
      })
    : h(
        "span",
        { class: `face hue${hueOf(id)}`, "aria-hidden": "true" },
        [...title.trim()][0]?.toUpperCase() ?? "?",
      );

/** @param {string} id */
const hueOf = (id) =>
  [...id].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 997, 7) % 6;
