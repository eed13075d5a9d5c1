// SPDX-License-Identifier: Apache-2.0
/** What screens are made of: cards, tables, lists of facts, labels and times. */

import { english } from "../elements/strings.js";
import { ago, moment } from "../elements/text.js";
import { h } from "../elements/view.js";
import { icon } from "./icons.js";

/** @typedef {import("../elements/view.js").Child} Child */
/** @typedef {"good" | "bad" | "warn" | "plain" | "accent"} Tone */

const STRINGS = { ...english, locale: "en-GB" };
const NUMBER = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** @param {number | null | undefined} value */
export const number = (value) =>
  value === null || value === undefined ? "–" : NUMBER.format(value);

/** @param {number} count @param {string} one @param {string} [many] */
export const counted = (count, one, many = `${one}s`) =>
  `${number(count)} ${count === 1 ? one : many}`;

/** @param {number | null | undefined} size */
export function bytes(size) {
  if (size === null || size === undefined) return "–";
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, size)) / 10));
  return `${number(size / 1024 ** power)} ${UNITS[power]}`;
}

/**
 * Return a number of seconds in the unit that suits it.
 *
 * @param {number | null | undefined} value
 */
export function seconds(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value < 0.001) return `${number(value * 1e6)} µs`;
  if (value < 1) return `${number(value * 1e3)} ms`;
  if (value < 120) return `${number(value)} s`;
  if (value < 7200) return `${number(value / 60)} min`;
  return value < 172_800 ? `${number(value / 3600)} h` : `${number(value / 86_400)} days`;
}

/**
 * Return a time as how long ago it was, with the exact time as its title.
 *
 * @param {string | null | undefined} time
 */
export function when(time) {
  if (!time) return h("span", { class: "faint" }, "never");
  const at = Date.parse(time);
  return h("time", { datetime: time, title: `${moment(at, STRINGS)} (${time})` }, said(at));
}

/** @param {number} at */
const said = (at) => (at > Date.now() + 1_000 ? moment(at, STRINGS) : ago(at, Date.now(), STRINGS));

/**
 * @param {Child} text
 * @param {Tone} [tone]
 */
export const label = (text, tone = "plain") => h("span", { class: `label ${tone}` }, text);

/** @param {Child} text */
export const mono = (text) => h("code", null, text);

/**
 * @param {Child} title
 * @param {Child} content
 * @param {{actions?: Child, hint?: Child, key?: string}} [options]
 */
export const card = (title, content, { actions = null, hint = null, key } = {}) =>
  h("section", { key, class: "card", "aria-label": typeof title === "string" ? title : null }, [
    h("header", null, [
      h("div", null, [h("h2", null, title), hint ? h("p", { class: "hint" }, hint) : null]),
      actions ? h("div", { class: "actions" }, actions) : null,
    ]),
    content,
  ]);

/**
 * A row with a name among the others: its buttons stay its own when rows come and go.
 *
 * @param {string | number} key
 * @param {Child[]} cells
 */
export const keyed = (key, cells) => Object.assign(cells, { key });

/**
 * A table. On a narrow screen each row is a block, in which every cell says what it is.
 *
 * @param {string} caption
 * @param {string[]} heads
 * @param {readonly (Child[] & {key?: string | number})[]} rows
 * @param {Child} [empty]
 */
export const table = (caption, heads, rows, empty = "Nothing here.") =>
  rows.length
    ? h("table", { role: "table", "aria-label": caption }, [
        h("thead", { role: "rowgroup" }, [
          h(
            "tr",
            { role: "row" },
            heads.map((head) => h("th", { role: "columnheader", scope: "col" }, head)),
          ),
        ]),
        h(
          "tbody",
          { role: "rowgroup" },
          rows.map((cells) =>
            h(
              "tr",
              { role: "row", key: cells.key },
              cells.map((cell, index) =>
                h("td", { role: "cell", "data-label": heads[index] ?? "" }, cell),
              ),
            ),
          ),
        ),
      ])
    : h("p", { class: "empty" }, empty);

/**
 * Facts with their names.
 *
 * @param {readonly (readonly [string, Child] | null | false)[]} pairs
 */
export const facts = (pairs) =>
  h(
    "dl",
    { class: "facts" },
    pairs.map((pair) =>
      pair ? h("div", null, [h("dt", null, pair[0]), h("dd", null, pair[1])]) : null,
    ),
  );

/**
 * A large number with its name.
 *
 * @param {string} name
 * @param {Child} value
 * @param {Child} [note]
 * @param {Tone} [tone]
 */
export const figure = (name, value, note = null, tone = "plain") =>
  h("div", { class: `figure ${tone}` }, [
    h("dt", null, name),
    h("dd", null, [h("strong", null, value), note ? h("small", null, note) : null]),
  ]);

/** @param {Child} children */
export const figures = (children) => h("dl", { class: "figures" }, children);

/**
 * @param {string} text
 * @param {(event: any) => void} onclick
 * @param {"" | "main" | "danger"} [kind]
 */
export const button = (text, onclick, kind = "") =>
  h("button", { type: "button", class: kind, onclick }, text);

/**
 * @param {string} href
 * @param {Child} text
 */
export const link = (href, text) => h("a", { href }, text);

/**
 * A secret that the server shows once.
 *
 * @param {string} name
 * @param {string} secret
 */
export const shownOnce = (name, secret) => [
  h("p", null, "Copy it now. It is not shown again."),
  h("input", {
    class: "secret",
    readOnly: true,
    value: secret,
    "aria-label": name,
    onfocus: (/** @type {any} */ event) => event.target.select(),
  }),
];

/** @param {string} text */
export const trouble = (text) =>
  h("p", { class: "trouble", role: "alert" }, [icon("warning"), h("span", null, text)]);

/**
 * A choice among a few values, as buttons.
 *
 * @param {string} name
 * @param {readonly (readonly [string, string])[]} options
 * @param {string} chosen
 * @param {(value: string) => void} choose
 */
export const choice = (name, options, chosen, choose) =>
  h(
    "div",
    { class: "choice", role: "group", "aria-label": name },
    options.map(([value, text]) =>
      h(
        "button",
        { type: "button", "aria-pressed": String(value === chosen), onclick: () => choose(value) },
        text,
      ),
    ),
  );
