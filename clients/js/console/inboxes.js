// SPDX-License-Identifier: Apache-2.0
/** The inboxes of a tenant. */

import { button, label, link, number, table } from "./parts.js";
import { Pages, Screen } from "./screen.js";

export class InboxesScreen extends Screen {
  static path = "tenants/:tenant/inboxes";
  static title = "Inboxes";
  static icon = /** @type {const} */ ("bell");
  static menu = /** @type {const} */ ("tenant");

  #inboxes = new Pages(this.desk, this.at("inboxes"));

  async load() {
    await this.#inboxes.load();
  }

  aside() {
    return button("New inbox", () => void this.#create(), "main");
  }

  render() {
    const rows = this.#inboxes.rows.map((inbox) => [
      [link(this.to("inboxes", inbox.inbox), inbox.inbox), ` ${inbox.title}`],
      inbox.categories
        ? inbox.categories.map((/** @type {string} */ name) => [label(name), " "])
        : "any",
      inbox.keep_days === null ? "as the tenant" : number(inbox.keep_days),
      inbox.late_joiners === null ? "as the tenant" : inbox.late_joiners ? "yes" : "no",
    ]);
    const heads = ["Inbox", "Categories", "Days kept", "Late joiners see old ones"];
    return [table("Inboxes", heads, rows, "The tenant has no inbox."), this.#inboxes.foot()];
  }

  #create() {
    return this.change(
      {
        title: "New inbox",
        text: "Every user of the tenant has every inbox.",
        verb: "Create",
        request: `PUT /v1/tenants/${this.tenant}/inboxes/…`,
        fields: [
          { name: "inbox", label: "Id", hint: "Part of every path; it cannot be changed." },
          { name: "title", label: "Title" },
          { name: "description", label: "Description", isOptional: true },
        ],
        act: async ({ inbox = "", title, description }) => {
          await this.server.ask("PUT", this.at("inboxes", inbox), { title, description });
        },
      },
      "The inbox is there.",
    );
  }
}
