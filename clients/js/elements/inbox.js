// SPDX-License-Identifier: Apache-2.0
/** `<tidings-inbox>`: the notifications of one inbox, by category. */

import { TidingsElement } from "./base.js";
import { h } from "./view.js";

/** @typedef {import("../src/frames.js").NotificationRecord} NotificationRecord */

export class TidingsInbox extends TidingsElement {
  #category = "";

  /** The name of the inbox. */
  get inbox() {
    return this.getAttribute("inbox") ?? "";
  }

  set inbox(name) {
    this.setAttribute("inbox", name);
  }

  get view() {
    return this.tidings && this.inbox ? this.tidings.inbox(this.inbox) : null;
  }

  start() {
    if (this.view) this.watch(this.view);
  }

  render() {
    const { strings, view } = this;
    if (!view) return null;
    const { notifications, unread, categories, isLoaded, hasMore } = view.snapshot();
    const shown = notifications.filter((one) => !this.#category || one.category === this.#category);
    return h("section", { "aria-label": strings.notifications }, [
      h("div", { class: "bar head" }, [
        h("h2", { class: "grow" }, strings.notifications),
        unread ? h("button", { onclick: () => view.readAll() }, strings.markAllRead) : null,
      ]),
      this.#tabs(notifications, categories),
      isLoaded && !shown.length ? h("p", { class: "empty" }, strings.noNotifications) : null,
      h(
        "ul",
        null,
        shown.map((one) => h("li", { key: one.id }, this.#note(one))),
      ),
      hasMore ? h("button", { onclick: () => view.more() }, strings.more) : null,
    ]);
  }

  /**
   * @param {readonly NotificationRecord[]} notifications
   * @param {Readonly<Record<string, number>>} counts
   */
  #tabs(notifications, counts) {
    const names = [...new Set(notifications.flatMap((one) => one.category ?? []))].sort();
    if (names.length < 2) return null;
    const tab = (/** @type {string} */ name) =>
      h(
        "button",
        {
          key: name,
          "aria-pressed": String(this.#category === name),
          onclick: () => {
            this.#category = this.#category === name ? "" : name;
            this.update();
          },
        },
        [name, counts[name] ? h("span", { class: "badge" }, counts[name]) : null],
      );
    return h("div", { class: "bar" }, names.map(tab));
  }

  /** @param {NotificationRecord} one */
  #note(one) {
    const { title, body, cta_uri } = /** @type {Record<string, string>} */ (one.message);
    const open = () => {
      if (!one.read_at) void this.view?.read([one.id]);
      const goes = this.tell("notification", one);
      if (goes && cta_uri?.startsWith("https://")) window.open(cta_uri, "_blank", "noopener");
    };
    return h("button", { class: one.read_at ? "note" : "note new", onclick: open }, [
      h("strong", { dir: "auto" }, title),
      h("span", { dir: "auto" }, body),
      h(
        "time",
        { class: "faint", datetime: one.received_at },
        new Date(one.received_at).toLocaleString(),
      ),
    ]);
  }
}

if (!customElements.get("tidings-inbox")) customElements.define("tidings-inbox", TidingsInbox);
