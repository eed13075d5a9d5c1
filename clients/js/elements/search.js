// SPDX-License-Identifier: Apache-2.0
/** Search for messages, in all chats or in one; a hit leads to its place in the chat. */

import { messageRow } from "../src/lists.js";
import { listEntry } from "./message_lists.js";
import { h } from "./view.js";

/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */
/** @typedef {import("./view.js").Child} Child */
/** @typedef {{row: Row, highlights: [number, number][]}} Hit */

const PAUSE_MS = 300;
const PAGE_HITS = 20;
/** The server does a bounded amount of work for a request; without a hit, it is asked again. */
const REQUESTS_MAX = 5;
/** Characters before the first hit that are shown. */
const LEAD_CHARACTERS = 30;

/**
 * Return a text with its hits marked, from shortly before the first one.
 *
 * @param {string} text
 * @param {readonly [number, number][]} highlights - In code points.
 * @returns {Child[]}
 */
export function highlighted(text, highlights) {
  const letters = [...text];
  const first = highlights[0]?.[0] ?? 0;
  let at = first > 2 * LEAD_CHARACTERS ? first - LEAD_CHARACTERS : 0;
  /** @type {Child[]} */
  const parts = at ? ["…"] : [];
  for (const [start, end] of highlights) {
    parts.push(letters.slice(at, start).join(""), h("mark", null, letters.slice(start, end)));
    at = end;
  }
  return [...parts, letters.slice(at).join("")];
}

export class Search {
  #element;
  #query = "";
  #chat = "";
  #hits = /** @type {Hit[]} */ ([]);
  #cursor = /** @type {string | null} */ (null);
  #isBusy = false;
  #isBroken = false;
  #timer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);

  /** @param {TidingsChat} element */
  constructor(element) {
    this.#element = element;
  }

  /**
   * Search soon for a text, unless something else is typed until then.
   *
   * @param {string} query
   * @param {string} [chat] - The only chat that is searched.
   */
  look(query, chat = "") {
    this.#query = query.trim();
    this.#chat = chat;
    this.#hits = [];
    this.#cursor = null;
    this.#isBroken = false;
    this.#isBusy = this.#query !== "";
    clearTimeout(this.#timer);
    if (this.#query) this.#timer = setTimeout(() => void this.#load(), PAUSE_MS);
    this.#element.update();
  }

  /** Load hits until there is at least one more. */
  async #load() {
    const hits = this.#hits;
    const count = hits.length;
    this.#isBusy = true;
    try {
      for (let n = 0; n < REQUESTS_MAX && hits.length === count; n += 1) {
        const page = await this.#page();
        if (this.#hits !== hits) return; // something else is looked for
        hits.push(
          ...page.data.map((/** @type {any} */ { message, highlights }) => ({
            row: messageRow(message),
            highlights,
          })),
        );
        this.#cursor = page.next_cursor;
        if (!this.#cursor) break;
      }
    } catch {
      if (this.#hits === hits) this.#isBroken = true;
    }
    if (this.#hits !== hits) return;
    this.#isBusy = false;
    this.#element.update();
  }

  #page() {
    const body = {
      q: this.#query,
      limit: PAGE_HITS,
      ...(this.#chat && { chat_id: this.#chat }),
      ...(this.#cursor && { cursor: this.#cursor }),
    };
    return /** @type {any} */ (this.#element.tidings).request("POST", "/v1/search", body);
  }

  /** Describe the hits, below a field. */
  describe() {
    const { strings } = this.#element;
    if (!this.#query) return null;
    const none = this.#isBroken ? strings.wentWrong : strings.noMatches;
    const status = this.#isBusy ? strings.loading : this.#hits.length ? "" : none;
    const more = () => {
      if (!this.#isBusy) void this.#load();
      this.#element.update();
    };
    return h("section", { "aria-label": strings.foundMessages, key: "hits" }, [
      h("h3", null, strings.foundMessages),
      h("p", { class: "faint", role: "status" }, status),
      h(
        "ul",
        { role: "list", "aria-label": strings.foundMessages },
        this.#hits.map(({ row, highlights }) =>
          h("li", { key: `${row.chat} ${row.sequence}` }, [
            listEntry(this.#element, row, !this.#chat, highlighted(row.content ?? "", highlights)),
          ]),
        ),
      ),
      this.#cursor && !this.#isBusy
        ? h("button", { class: "wide", onclick: more }, strings.more)
        : null,
    ]);
  }
}
