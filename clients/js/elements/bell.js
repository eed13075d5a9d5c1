// SPDX-License-Identifier: Apache-2.0
/** `<tidings-bell>`: a button with the number of unread notifications, which opens the inbox. */

import { TidingsElement } from "./base.js";
import { hear } from "./hearing.js";
import { basicIcon } from "./icons_basic.js";
import "./inbox.js";
import { INBOX_STYLE } from "./inbox_style.js";
import { said } from "./words.js";
import { h } from "./view.js";

export { SignedOut, Tidings, tokenFrom } from "../src/index.js";

const PARTS = "inbox, tabs, notification, actions";
const GAP_PX = 8;
const COUNT_MAX = 99;

export class TidingsBell extends TidingsElement {
  static observedAttributes = ["inbox"];
  #found = /** @type {{inbox: string, title: string}[]} */ ([]);
  #chosen = "";
  #isOpen = false;
  #isFinding = false;
  /** Time of the newest notification that the user has seen in the open panel. */
  #seen = "";
  /** The user who has seen it. */
  #user = "";

  constructor() {
    super();
    this.addStyle(INBOX_STYLE);
  }

  /** The name of the inbox; without one, all inboxes of the user are shown. */
  get inbox() {
    return this.getAttribute("inbox") ?? "";
  }

  set inbox(name) {
    if (name) this.setAttribute("inbox", name);
    else this.removeAttribute("inbox");
  }

  disconnectedCallback() {
    this.#isOpen = false; // a panel that leaves the page closes without saying so
    super.disconnectedCallback();
  }

  attributeChangedCallback() {
    this.connectedCallback();
  }

  /** @param {import("../src/tidings.js").Tidings} tidings */
  start(tidings) {
    this.#user = this.#seen = "";
    this.#found = [];
    hear(tidings);
    this.until(
      tidings.on(({ type }) => {
        if (type === "signed-out") localStorage.removeItem(this.#key);
      }),
    );
    if (this.inbox) this.#show([{ inbox: this.inbox, title: this.inbox }]);
    else this.until(tidings.state.subscribe(() => void this.#find(tidings)));
  }

  /** Ask for the inboxes of the user, once there is a connection. @param {import("../src/tidings.js").Tidings} tidings */
  async #find(tidings) {
    if (this.#isFinding || this.#found.length) return;
    if (tidings.state.snapshot().connection !== "live") return;
    this.#isFinding = true;
    const { data } = await tidings.request("GET", "/v1/inboxes").catch(() => ({ data: [] }));
    this.#isFinding = false;
    if (this.tidings === tidings && this.isConnected) this.#show(data);
  }

  get #key() {
    return `tidings seen ${this.#user} ${this.inbox}`;
  }

  /** Load the time of the last look, once the user is known: two tabs can have two users. */
  #meet() {
    const { user } = this.tidings ?? {};
    if (!user || user === this.#user) return;
    this.#user = user;
    this.#seen = localStorage.getItem(this.#key) ?? "";
  }

  /** @param {{inbox: string, title: string}[]} inboxes */
  #show(inboxes) {
    this.#found = inboxes;
    this.#chosen = inboxes[0]?.inbox ?? "";
    for (const { inbox } of inboxes) if (this.tidings) this.watch(this.tidings.inbox(inbox));
    this.update();
  }

  /** Return how much is unread, and when the newest notification came. */
  #state() {
    const snapshots = this.#found.flatMap(
      ({ inbox }) => this.tidings?.inbox(inbox).snapshot() ?? [],
    );
    return {
      unread: snapshots.reduce((sum, one) => sum + one.unread, 0),
      newest:
        snapshots
          .map((one) => one.notifications[0]?.received_at ?? "")
          .sort()
          .at(-1) ?? "",
    };
  }

  render() {
    const { strings, tidings } = this;
    this.#meet();
    const { unread, newest } = this.#state();
    if (this.#isOpen && newest > this.#seen) this.#see(newest);
    const text = unread > COUNT_MAX ? `${COUNT_MAX}+` : unread;
    const props = {
      class: "round",
      part: "button",
      "aria-label": strings.notifications,
      title: strings.notifications,
      "aria-expanded": String(this.#isOpen),
      "aria-describedby": "count",
      onclick: () => this.#toggle(),
    };
    const look = newest > this.#seen ? "badge" : "badge seen";
    return [
      h("button", props, basicIcon("bell")),
      unread ? h("span", { class: look, part: "badge", "aria-hidden": "true" }, text) : null,
      h("span", { id: "count", class: "unseen" }, unread ? said(strings.unread, { n: text }) : ""),
      h("div", { class: "panel", part: "panel", popover: "auto", ontoggle: this.#toggled }, [
        this.#found.length > 1 ? this.#choice() : null,
        this.#isOpen && tidings
          ? h("tidings-inbox", { exportparts: PARTS, inbox: this.#chosen, tidings, strings })
          : null,
      ]),
    ];
  }

  #choice() {
    const choose = (/** @type {any} */ event) => {
      this.#chosen = event.target.value;
      this.update();
    };
    return h(
      "select",
      { "aria-label": this.strings.notifications, onchange: choose },
      this.#found.map(({ inbox, title }) => h("option", { value: inbox }, title)),
    );
  }

  /** @param {string} newest */
  #see(newest) {
    this.#seen = newest;
    localStorage.setItem(this.#key, newest);
    const path = `/v1/inboxes/${encodeURIComponent(this.#chosen)}/state`;
    const state = { before: new Date().toISOString(), seen: true };
    void this.tidings?.request("PUT", path, state).catch(() => {});
  }

  #toggle() {
    const panel = /** @type {HTMLElement | null} */ (this.root.querySelector(".panel"));
    const at = this.getBoundingClientRect();
    if (!panel) return;
    // The click itself has closed the panel, because it is outside of it.
    if (this.#isOpen) return panel.hidePopover();
    panel.showPopover();
    const width = panel.offsetWidth;
    const left = Math.max(GAP_PX, Math.min(innerWidth - width - GAP_PX, at.right - width));
    panel.style.left = `${left}px`;
    panel.style.top = `${at.bottom + GAP_PX}px`;
  }

  #toggled = (/** @type {any} */ event) => {
    this.#isOpen = event.newState === "open";
    // What had the focus is gone with the panel, unless the user went elsewhere.
    if (!this.#isOpen) queueMicrotask(() => this.#refocus());
    this.update();
  };

  #refocus() {
    const { activeElement } = document;
    if (activeElement === document.body || activeElement === this) {
      this.root.querySelector("button")?.focus();
    }
  }
}

if (!customElements.get("tidings-bell")) customElements.define("tidings-bell", TidingsBell);
