// SPDX-License-Identifier: Apache-2.0
/** What all screens have: a place in the menu, what was loaded, and lists that grow by pages. */

import { h } from "../elements/view.js";
import { button, trouble } from "./parts.js";

/** @typedef {import("../elements/view.js").Child} Child */
/** @typedef {import("./server.js").Server} Server */
/** @typedef {import("./server.js").Method} Method */
/** @typedef {import("./icons.js").IconName} IconName */
/** @typedef {import("./dialog.js").Question} Question */

/**
 * What a screen is given: the server, what its address names, and ways to change the page.
 *
 * @typedef {{server: Server, update: () => void, ask: (question: Question) => Promise<boolean>,
 *   say: (text: string) => void, go: (...parts: string[]) => void,
 *   shows: (screen: Screen) => boolean}} Desk
 */

/**
 * One screen. `path` is its address after `#/`, with names after colons. A screen with a `menu` has
 * an entry there, under the deployment or under the tenant that is open.
 */
export class Screen {
  static path = "";
  static title = "";
  static icon = /** @type {IconName | null} */ (null);
  static menu = /** @type {"deployment" | "tenant" | null} */ (null);
  /** Number of seconds after which the screen is loaded again; 0 for never. */
  static refresh = 0;

  trouble = "";
  isLoaded = false;

  /**
   * @param {Desk} desk
   * @param {Record<string, string>} params
   */
  constructor(desk, params) {
    this.desk = desk;
    this.server = desk.server;
    this.params = params;
  }

  /** The tenant that the address names. */
  get tenant() {
    return this.params["tenant"] ?? "";
  }

  /** Path of the REST API below this tenant. @param {...string} parts */
  at(...parts) {
    return `/v1/${["tenants", this.tenant, ...parts].map(encodeURIComponent).join("/")}`;
  }

  /** Address of another screen of this tenant. @param {...string} parts */
  to(...parts) {
    return address("tenants", this.tenant, ...parts);
  }

  /** The name of what is shown. @returns {string} */
  heading() {
    return /** @type {typeof Screen} */ (this.constructor).title;
  }

  /** What stands beside the name. @returns {Child} */
  aside() {
    return null;
  }

  /** The screens above this one: name and address. @returns {(readonly [string, string])[]} */
  above() {
    return [];
  }

  /** Get what is shown, for the first time or again. */
  async load() {}

  /** @returns {Child} */
  render() {
    return null;
  }

  /** Load, and show what goes wrong. */
  async open() {
    try {
      await this.load();
      this.trouble = "";
    } catch (error) {
      this.trouble = /** @type {Error} */ (error).message;
    }
    this.isLoaded = true;
    this.desk.update();
  }

  /**
   * Load again before a question that replaces something as a whole: it may have been changed since.
   * Return whether it is still there to be asked about.
   */
  async renew() {
    await this.open();
    if (!this.desk.shows(this)) return false;
    if (this.trouble) this.desk.say(this.trouble);
    return !this.trouble;
  }

  /**
   * Ask for a change; when it is made, load again and say so.
   *
   * @param {Question} question
   * @param {string} done
   */
  async change(question, done) {
    if (!(await this.desk.ask(question))) return;
    this.desk.say(done);
    await this.open();
  }

  /**
   * Ask before something is deleted for good; then show the job that does it.
   *
   * @param {{title: string, text: string, name: string}} question
   * @param {string} path
   */
  async remove(question, path) {
    let job = "";
    const isDone = await this.desk.ask({
      ...question,
      verb: "Delete for good",
      isDangerous: true,
      request: `DELETE ${path}`,
      act: async () => {
        ({ job } = await this.server.ask("DELETE", path));
      },
    });
    if (!isDone) return;
    this.desk.say("The deletion has begun.");
    this.desk.go("tenants", this.tenant, "jobs", job);
  }
}

/** Return the address of a screen. @param {...string} parts */
export const address = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

/** A list of the server, of which more and more pages are shown. */
export class Pages {
  rows = /** @type {any[]} */ ([]);
  #cursor = /** @type {string | null} */ (null);
  /** Number of pages that are shown. */
  #count = 1;
  #trouble = "";
  /** The query whose next page is on its way. */
  #asked = /** @type {object | null} */ (null);

  /**
   * @param {Desk} desk
   * @param {string} path
   * @param {Record<string, string | number | null>} [query]
   */
  constructor(desk, path, query = {}) {
    this.desk = desk;
    this.path = path;
    this.query = query;
  }

  /** Show another part of the list. @param {Record<string, string | number | null>} query */
  choose(query) {
    this.query = query;
    this.#count = 1;
    this.#trouble = "";
  }

  /** Load all pages on the screen again. */
  async load() {
    const { query } = this;
    const rows = [];
    let cursor = /** @type {string | null} */ (null);
    for (let count = 0; count < this.#count && (count === 0 || cursor); count++) {
      const page = await this.#page(cursor);
      rows.push(...page.data);
      cursor = page.next_cursor;
    }
    if (query !== this.query) return; // a later choice is on its way
    [this.rows, this.#cursor] = [rows, cursor];
  }

  /** @param {string | null} cursor */
  #page = (cursor) => this.desk.server.get(this.path, { limit: 50, ...this.query, cursor });

  /** Load the next page. */
  async more() {
    const query = this.query;
    const cursor = this.#cursor;
    if (this.#asked === query) return;
    this.#asked = query;
    this.#trouble = "";
    this.desk.update();
    // Another part may have been chosen meanwhile.
    const isWanted = () => query === this.query;
    try {
      const page = await this.#page(cursor);
      if (isWanted()) await this.#add(page, cursor);
    } catch (error) {
      if (isWanted()) this.#trouble = /** @type {Error} */ (error).message;
    }
    if (this.#asked === query) this.#asked = null;
    this.desk.update();
  }

  /**
   * @param {any} page
   * @param {string | null} cursor - Where it begins.
   */
  async #add(page, cursor) {
    this.#count++;
    // A list that was loaded again meanwhile may end somewhere else.
    if (cursor !== this.#cursor) return this.load();
    this.rows = [...this.rows, ...page.data];
    this.#cursor = page.next_cursor;
  }

  /** Whether the list goes on. */
  get hasMore() {
    return this.#cursor !== null;
  }

  /** A button for the next page, if there is one. */
  foot() {
    if (!this.hasMore && !this.#trouble) return null;
    return h("div", { class: "more" }, [
      this.#trouble ? trouble(this.#trouble) : null,
      this.#asked === this.query
        ? h("span", { class: "faint" }, "Loading…")
        : button("More", () => this.more()),
    ]);
  }
}
