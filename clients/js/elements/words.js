// SPDX-License-Identifier: Apache-2.0
/** Texts with values in them, and times in words, which all elements need. */

/** @typedef {import("./describe.js").Child} Child */
/** @typedef {import("./strings.js").Strings} Strings */

export const UNITS = /** @type {const} */ ([
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
]);

/**
 * Put values into a text, where it has their names in braces.
 *
 * @param {string} text
 * @param {Record<string, Child>} values
 * @returns {Child[]}
 */
export const filled = (text, values) =>
  text.split(/\{(\w+)\}/).map((part, index) => (index % 2 ? (values[part] ?? "") : part));

/**
 * The same for an attribute, which cannot have elements.
 *
 * @param {string} text
 * @param {Record<string, string | number>} values
 */
export const said = (text, values) => filled(text, values).join("");

/** @type {Map<string, Intl.DateTimeFormat>} */
const FORMATS = new Map();

/**
 * @param {number} at
 * @param {Strings} strings
 * @param {Intl.DateTimeFormatOptions} options
 */
export function format(at, { locale }, options) {
  const key = locale + JSON.stringify(options);
  // Making a format takes far longer than using it.
  const made = FORMATS.get(key) ?? new Intl.DateTimeFormat(locale || undefined, options);
  FORMATS.set(key, made);
  return made.format(at);
}

/**
 * @param {number} at
 * @param {Strings} strings
 */
export const moment = (at, strings) =>
  format(at, strings, { dateStyle: "medium", timeStyle: "short" });

/**
 * Return how long ago something was, such as `5 minutes ago`.
 *
 * @param {number} at
 * @param {number} now
 * @param {Strings} strings
 */
export function ago(at, now, { locale }) {
  const seconds = Math.max(0, (now - at) / 1_000);
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? UNITS[3];
  const format = new Intl.RelativeTimeFormat(locale || undefined, { numeric: "auto" });
  return format.format(-Math.floor(seconds / size), unit);
}
