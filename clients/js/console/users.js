// SPDX-License-Identifier: Apache-2.0
/** The users of a tenant, by id. */

import { h } from "../elements/view.js";
import { icon } from "./icons.js";
import { label, link, table, when } from "./parts.js";
import { Pages, Screen } from "./screen.js";

export class UsersScreen extends Screen {
  static path = "tenants/:tenant/users";
  static title = "Users";
  static icon = /** @type {const} */ ("people");
  static menu = /** @type {const} */ ("tenant");

  #users = new Pages(this.desk, this.at("users"));

  async load() {
    await this.#users.load();
  }

  aside() {
    const oninput = (/** @type {any} */ event) => {
      this.#users.choose({ prefix: event.target.value.trim() });
      void this.open();
    };
    return h("label", { class: "filter" }, [
      icon("search"),
      h("input", {
        type: "search",
        "aria-label": "Ids that begin with",
        placeholder: "Id begins with…",
        oninput,
        autocapitalize: "off",
        spellcheck: false,
      }),
    ]);
  }

  render() {
    const rows = this.#users.rows.map((user) => [
      [
        link(this.to("users", user.user_id), user.user_id),
        user.display_name ? ` ${user.display_name}` : null,
      ],
      user.deactivated ? label("Deactivated", "bad") : label("Active", "good"),
      user.phone_number ?? user.email ?? "–",
      when(user.last_seen_at),
      when(user.created_at),
    ]);
    return [
      table(
        "Users",
        ["User", "State", "Phone or e-mail", "Last seen", "Created"],
        rows,
        "No such user.",
      ),
      this.#users.foot(),
    ];
  }
}
