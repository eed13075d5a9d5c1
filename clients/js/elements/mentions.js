// SPDX-License-Identifier: Apache-2.0
/** Mentions: whom a text mentions, where they stand in it, and a list to choose people from. */

import { face } from "./text.js";
import { h } from "./view.js";

/** @typedef {import("../src/chats_view.js").ChatRecord} ChatRecord */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */
/** @typedef {import("./view.js").Child} Child */
/** @typedef {readonly [user: string, name: string]} Person */

export const EVERYONE = "*";
const MENTIONS_MAX = 50;
const SHOWN_MAX = 8;
/** In a larger chat, only admins and owners may mention everyone. */
const EVERYONE_MEMBERS_MAX = 64;
/** What is being written after an at sign, up to the cursor. */
const BEGUN = /(?:^|[\s(])@([^@\n]{0,40})$/u;

/**
 * Yield where a text mentions one of some names: the longest that fits, and nothing inside of words.
 *
 * @param {string} text
 * @param {readonly string[]} names
 * @returns {Generator<{at: number, name: string}>}
 */
function* places(text, names) {
  const longest = [...new Set(names)].filter(Boolean).sort((a, b) => b.length - a.length);
  for (const { index } of text.matchAll(/(?<![\p{L}\p{N}_])@/gu)) {
    const rest = text.slice(index + 1);
    const fits = (/** @type {string} */ name) =>
      rest.startsWith(name) && !/^[\p{L}\p{N}_]/u.test(rest.slice(name.length));
    const name = longest.find(fits);
    if (name !== undefined) yield { at: index, name };
  }
}

/**
 * Return the users whom a text mentions. Of several people with the same name it is the one that
 * was chosen from the list, or else all of them.
 *
 * @param {string} text
 * @param {readonly Person[]} people
 * @param {ReadonlyMap<string, string>} chosen - Users that were chosen, by name.
 * @returns {string[]}
 */
export function mentionsIn(text, people, chosen) {
  /** @type {Set<string>} */
  const users = new Set();
  const names = people.map(([, name]) => name);
  for (const { name } of places(text, names)) {
    const same = people.flatMap(([user, other]) => (other === name ? [user] : []));
    const one = chosen.get(name) ?? "";
    for (const user of same.includes(one) ? [one] : same) users.add(user);
  }
  return users.has(EVERYONE) ? [EVERYONE] : [...users].slice(0, MENTIONS_MAX);
}

/**
 * Return parts of a text in which mentions are marked.
 *
 * @param {Child[]} parts
 * @param {readonly string[]} names
 * @returns {Child[]}
 */
export function marked(parts, names) {
  if (!names.length) return parts;
  return parts.flatMap((part) => {
    if (typeof part !== "string") return [part];
    /** @type {Child[]} */
    const made = [];
    let end = 0;
    for (const { at, name } of places(part, names)) {
      made.push(part.slice(end, at), h("mark", null, "@", h("bdi", null, name)));
      end = at + 1 + name.length;
    }
    return [...made, part.slice(end)].filter((one) => one !== "");
  });
}

/** The list from which people are chosen while a message is written. */
export class MentionPicker {
  #element;
  #chat = "";
  #members = /** @type {Person[] | null} */ (null);
  #chosen = /** @type {Map<string, string>} */ (new Map());
  #query = /** @type {string | null} */ (null);
  #at = 0;

  /** @param {TidingsChat} element */
  constructor(element) {
    this.#element = element;
  }

  /** Begin with another chat. */
  reset() {
    this.#members = null;
    this.#chosen.clear();
    this.#query = null;
  }

  /** The people of the open chat, as far as they are known, and everyone. @returns {Person[]} */
  get #people() {
    const { view, people, strings, tidings } = this.#element;
    const record = view?.snapshot().record;
    if (!record) return [];
    const { type, role, members, member_count } = record;
    const known = members.map((user) => [user, people?.nameOf(user, record) ?? user]);
    const found = /** @type {Person[]} */ (this.#members ?? known);
    const others = found.filter(([user]) => user !== tidings?.user);
    const isAllowed = member_count <= EVERYONE_MEMBERS_MAX || role !== "member";
    return type === "group" && isAllowed ? [...others, [EVERYONE, strings.everyone]] : others;
  }

  /** Return the users whom a text mentions. @param {string} text */
  in(text) {
    return mentionsIn(text, this.#people, this.#chosen);
  }

  /** The people who fit what was typed. */
  get #found() {
    if (this.#query === null) return [];
    const wanted = this.#query.toLocaleLowerCase();
    const fits = (/** @type {Person} */ [, name]) =>
      ` ${name.toLocaleLowerCase()}`.includes(` ${wanted}`) && name !== this.#query;
    return this.#people.filter(fits).slice(0, SHOWN_MAX);
  }

  /** Handle a change of the text or of the cursor. @param {HTMLTextAreaElement} field */
  typed(field) {
    const before = field.value.slice(0, field.selectionStart);
    const query = BEGUN.exec(before)?.[1] ?? null;
    if (query !== null && this.#query === null) void this.#load();
    if (query !== this.#query) this.#at = 0;
    this.#query = query;
    this.#element.update();
  }

  /** Close the list. */
  close() {
    this.#query = null;
    this.#element.update();
  }

  /** Load all members of a group; those of a chat of two are known. */
  async #load() {
    const { tidings, view } = this.#element;
    const record = view?.snapshot().record;
    if (!record || record.type === "direct" || (this.#members && this.#chat === record.chat_id))
      return;
    this.#chat = record.chat_id;
    const path = `/v1/chats/${record.chat_id}/members`;
    const { data } = (await tidings?.request("GET", path).catch(() => null)) ?? {};
    if (!data || this.#element.chat !== record.chat_id) return;
    this.#members = data.map((/** @type {any} */ one) => [
      one.user_id,
      one.display_name || one.user_id,
    ]);
    this.#element.update();
  }

  /**
   * Handle a key; return whether it was for the list.
   *
   * @param {KeyboardEvent} event
   */
  pressed(event) {
    const found = this.#found;
    const { length } = found;
    const person = found[this.#at];
    if (!person || event.isComposing) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.#at = (this.#at + step + length) % length;
    else if (event.key === "Escape") this.#query = null;
    else if (event.key === "Enter" || event.key === "Tab")
      this.#choose(/** @type {HTMLTextAreaElement} */ (event.target), person);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    this.#element.update();
    return true;
  }

  /**
   * @param {HTMLTextAreaElement} field
   * @param {Person} person
   */
  #choose(field, [user, name]) {
    const end = field.selectionStart;
    const start = end - (this.#query ?? "").length;
    field.setRangeText(`${name} `, start, end, "end");
    this.#chosen.set(name, user);
    this.#query = null;
    field.dispatchEvent(new Event("input"));
  }

  /** The attributes of the field that tell assistive technology about the list. */
  get props() {
    const isOpen = this.#found.length > 0;
    return {
      "aria-autocomplete": "list",
      "aria-controls": isOpen ? "mentionable" : null,
      "aria-activedescendant": isOpen ? `mentionable-${this.#at}` : null,
    };
  }

  describe() {
    const found = this.#found;
    if (!found.length) return null;
    const { strings, root } = this.#element;
    const choose = (/** @type {Person} */ person) => () => {
      const field = root.querySelector("textarea");
      if (field) this.#choose(field, person);
    };
    const props = { id: "mentionable", class: "mentionable", role: "listbox" };
    return h(
      "ul",
      { ...props, "aria-label": strings.mention },
      found.map((person, index) => {
        const [user, name] = person;
        const option = {
          key: user,
          id: `mentionable-${index}`,
          class: "entry",
          role: "option",
          "aria-selected": String(index === this.#at),
          // The field keeps the focus.
          onmousedown: (/** @type {any} */ event) => event.preventDefault(),
          onclick: choose(person),
        };
        return h("li", option, face(name, null, user), h("bdi", { class: "grow cut" }, name));
      }),
    );
  }
}
