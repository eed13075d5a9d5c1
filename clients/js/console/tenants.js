// SPDX-License-Identifier: Apache-2.0
/** All tenants. */

import { button, label, link, mono, number, table, when } from "./parts.js";
import { address, Pages, Screen } from "./screen.js";

export class TenantsScreen extends Screen {
  static path = "tenants";
  static title = "Tenants";
  static icon = /** @type {const} */ ("tenants");
  static menu = /** @type {const} */ ("deployment");

  #tenants = new Pages(this.desk, "/v1/tenants");

  async load() {
    await this.#tenants.load();
  }

  aside() {
    return button("New tenant", () => void this.#create(), "main");
  }

  render() {
    const rows = this.#tenants.rows.map((one) => [
      [link(address("tenants", one.tenant), one.tenant), one.name ? ` ${one.name}` : null],
      state(one),
      quota(one.quotas.users),
      quota(one.quotas.messages_per_day),
      when(one.created_at),
    ]);
    const heads = ["Tenant", "State", "Users at most", "Messages a day", "Created"];
    return [table("Tenants", heads, rows, "There is no tenant yet."), this.#tenants.foot()];
  }

  #create() {
    return this.change(
      {
        title: "New tenant",
        text: "A tenant is one customer of this deployment, with users, chats and inboxes of its own.",
        verb: "Create",
        request: "PUT /v1/tenants/…",
        fields: [
          { name: "tenant", label: "Id", hint: "Part of every path; it cannot be changed." },
          { name: "name", label: "Name", isOptional: true },
        ],
        act: async ({ tenant = "", name }) => {
          await this.server.ask(
            "PUT",
            `/v1/tenants/${encodeURIComponent(tenant)}`,
            name ? { name } : {},
          );
        },
      },
      "The tenant is there.",
    );
  }
}

/** @param {any} tenant */
export const state = ({ suspended_at }) =>
  suspended_at ? label("Suspended", "bad") : label("Active", "good");

/** @param {number | null} limit */
const quota = (limit) => (limit === null ? mono("∞") : number(limit));
