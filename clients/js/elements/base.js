// SPDX-License-Identifier: Apache-2.0
/** What all elements have: a client, texts, one shadow root, and updates once a frame. */

import { basic } from "./strings_basic.js";
import { sheet, STYLE } from "./style.js";
import { gathered, render } from "./view.js";

/** @typedef {import("../src/tidings.js").Tidings} Tidings */
/** @typedef {import("./strings.js").Strings} Strings */
/** @typedef {import("./view.js").Child} Child */

export class TidingsElement extends HTMLElement {
  /** The English texts of the element. */
  static texts = /** @type {Strings} */ (basic);
  #tidings = /** @type {Tidings | null} */ (null);
  #strings = this.#english;
  #endings = /** @type {(() => void)[]} */ ([]);

  constructor() {
    super();
    this.root = this.attachShadow({ mode: "open", delegatesFocus: true });
    this.root.adoptedStyleSheets = [sheet(STYLE)];
    this.update = gathered(() => {
      if (!this.isConnected) return;
      this.rendering();
      render(this.root, this.render());
      this.rendered();
    });
  }

  /** The client that the element shows. */
  get tidings() {
    return this.#tidings;
  }

  set tidings(tidings) {
    this.#tidings = tidings;
    this.#begin();
  }

  /** The texts of the element, of which some may be replaced. */
  get strings() {
    return this.#strings;
  }

  set strings(strings) {
    this.#strings = { ...this.#english, ...strings };
    this.update();
  }

  get #english() {
    return /** @type {typeof TidingsElement} */ (this.constructor).texts;
  }

  connectedCallback() {
    this.#begin();
  }

  disconnectedCallback() {
    this.#end();
  }

  #begin() {
    this.#end();
    if (!this.isConnected) return;
    if (this.#tidings) this.start(this.#tidings);
    this.update();
  }

  #end() {
    for (const end of this.#endings.splice(0)) end();
  }

  /**
   * Update whenever a view changes, as long as the element is in the page.
   *
   * @param {{subscribe: (listener: () => void) => () => void}} view
   */
  watch(view) {
    this.until(view.subscribe(this.update));
  }

  /** @param {() => void} end - Called when the element leaves the page or gets another client. */
  until(end) {
    this.#endings.push(end);
  }

  /** Add a style sheet, unless the element has it. @param {string} css */
  addStyle = (css) => {
    const sheets = this.root.adoptedStyleSheets;
    if (!sheets.includes(sheet(css))) sheets.push(sheet(css));
  };

  /**
   * Send an event that whoever embeds the element can cancel; return whether nobody did.
   *
   * @param {string} name
   * @param {unknown} detail
   */
  tell(name, detail) {
    const event = new CustomEvent(`tidings-${name}`, {
      detail,
      bubbles: true,
      composed: true,
      cancelable: true,
    });
    return this.dispatchEvent(event);
  }

  /** Watch what the element shows. @param {Tidings} _tidings */
  start(_tidings) {}

  /** Return what the element looks like. @returns {Child} */
  render() {
    return null;
  }

  /** Called before each update. */
  rendering() {}

  /** Called after each update. */
  rendered() {}
}
