// SPDX-License-Identifier: Apache-2.0
/** `<tidings-bell>`: a button with the number of unread notifications, which opens the inbox. */

import { TidingsElement } from "./base.js";
import "./inbox.js";
import { h } from "./view.js";

export class TidingsBell extends TidingsElement {
  /** The name of the inbox. */
  get inbox() {
    return this.getAttribute("inbox") ?? "";
  }

  set inbox(name) {
    this.setAttribute("inbox", name);
  }

  /** @param {import("../src/tidings.js").Tidings} tidings */
  start(tidings) {
    if (this.inbox) this.watch(tidings.inbox(this.inbox));
  }

  render() {
    const { strings, tidings, inbox } = this;
    const unread = tidings && inbox ? tidings.inbox(inbox).snapshot().unread : 0;
    const label = unread ? `${strings.notifications}, ${unread}` : strings.notifications;
    return [
      h("button", { "aria-label": label, popovertarget: "panel" }, [
        "🔔",
        unread ? h("span", { class: "badge" }, unread) : null,
      ]),
      h("div", { id: "panel", popover: "auto", class: "panel" }, [
        h("tidings-inbox", { inbox, tidings, strings }),
      ]),
    ];
  }
}

if (!customElements.get("tidings-bell")) customElements.define("tidings-bell", TidingsBell);
