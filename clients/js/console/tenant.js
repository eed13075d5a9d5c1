// SPDX-License-Identifier: Apache-2.0
/** One tenant: its quotas and settings; suspend it, resume it, delete it. */

import { h } from "../elements/view.js";
import { button, card, facts, label, mono, number, when } from "./parts.js";
import { address, Screen } from "./screen.js";
import { state } from "./tenants.js";

const QUOTAS = /** @type {const} */ ([
  ["users", "Users"],
  ["chats_per_day", "New chats a day"],
  ["messages_per_day", "Messages a day"],
]);

/** Part of a quota from which on it is nearly reached. */
const NEARLY = 0.9;

export class TenantScreen extends Screen {
  static path = "tenants/:tenant";
  static title = "Summary";
  static icon = /** @type {const} */ ("home");
  static menu = /** @type {const} */ ("tenant");

  #tenant = /** @type {any} */ (null);
  #settings = /** @type {any} */ ({});

  heading() {
    return this.#tenant?.name || this.tenant;
  }

  aside() {
    return this.#tenant ? state(this.#tenant) : null;
  }

  above() {
    return this.server.isRoot ? [/** @type {const} */ (["Tenants", address("tenants")])] : [];
  }

  async load() {
    [this.#tenant, this.#settings] = await Promise.all([
      this.server.get(this.at()),
      this.server.get(this.at("settings")),
    ]);
  }

  render() {
    const one = this.#tenant;
    if (!one) return null;
    return [
      card(
        "Tenant",
        facts([
          ["Id", mono(one.tenant)],
          ["Name", one.name ?? "–"],
          ["Created", when(one.created_at)],
          one.suspended_at && ["Suspended", when(one.suspended_at)],
          ...QUOTAS.map(
            ([name, text]) =>
              /** @type {const} */ ([text, use(one.quotas[name], one.used[name] ?? null)]),
          ),
        ]),
        { actions: this.server.isRoot ? button("Change", () => void this.#edit()) : null },
      ),
      this.#settingsCard(),
      this.server.isRoot ? this.#dangers() : null,
    ];
  }

  #settingsCard() {
    return card("Settings", h("pre", null, JSON.stringify(this.#settings, null, 2)), {
      hint: "Login by phone, invitations, and how long content and notifications are kept.",
      actions: button("Change", () => void this.#editSettings()),
    });
  }

  #dangers() {
    const isSuspended = !!this.#tenant.suspended_at;
    return card("Access", [
      h("div", { class: "danger-row" }, [
        h(
          "p",
          null,
          isSuspended
            ? "Keys, tokens and sockets of the tenant work again."
            : "Keys and tokens of the tenant are refused, and its sockets are closed. Nothing is deleted.",
        ),
        button(
          isSuspended ? "Resume" : "Suspend",
          () => void this.#suspend(!isSuspended),
          isSuspended ? "" : "danger",
        ),
      ]),
      h("div", { class: "danger-row" }, [
        h(
          "p",
          null,
          "Delete the tenant with all its users, chats and inboxes. Nobody can undo this.",
        ),
        button("Delete", () => void this.#delete(), "danger"),
      ]),
    ]);
  }

  async #edit() {
    if (!(await this.renew())) return;
    const one = this.#tenant;
    await this.change(
      {
        title: `Change ${this.tenant}`,
        name: this.tenant,
        verb: "Change",
        request: `PUT /v1/tenants/${this.tenant}`,
        fields: [
          { name: "name", label: "Name", value: one.name, isOptional: true },
          ...QUOTAS.map(([name, text]) => ({
            name,
            label: `${text}, at most`,
            type: /** @type {const} */ ("number"),
            value: one.quotas[name],
            isOptional: true,
            placeholder: "no limit",
          })),
        ],
        act: async ({ name, ...quotas }) => {
          const given = Object.entries(quotas).filter(([, value]) => value !== "");
          const numbers = Object.fromEntries(given.map(([key, value]) => [key, Number(value)]));
          // The quotas are replaced as a whole: those that have no field here stay.
          const others = Object.entries(one.quotas).filter(([key]) => !(key in quotas));
          const all = { ...Object.fromEntries(others), ...numbers };
          await this.server.ask("PUT", this.at(), { ...(name ? { name } : {}), quotas: all });
        },
      },
      "The tenant is changed.",
    );
  }

  async #editSettings() {
    if (!(await this.renew())) return;
    await this.change(
      {
        title: "Change the settings",
        text: "A JSON object, which replaces the settings as a whole.",
        name: this.tenant,
        verb: "Replace",
        request: `PUT /v1/tenants/${this.tenant}/settings`,
        fields: [
          {
            name: "settings",
            label: "Settings",
            type: "area",
            value: JSON.stringify(this.#settings, null, 2),
          },
        ],
        act: async ({ settings = "" }) => {
          await this.server.ask("PUT", this.at("settings"), parsed(settings));
        },
      },
      "The settings are replaced.",
    );
  }

  /** @param {boolean} suspended */
  #suspend(suspended) {
    const verb = suspended ? "Suspend" : "Resume";
    return this.change(
      {
        title: `${verb} ${this.tenant}`,
        text: suspended
          ? "Within five seconds every key and token of the tenant is refused, and its sockets are closed."
          : "Its keys and tokens work again.",
        name: this.tenant,
        verb,
        isDangerous: suspended,
        request: `PUT /v1/tenants/${this.tenant}`,
        act: async () => void (await this.server.ask("PUT", this.at(), { suspended })),
      },
      suspended ? "The tenant is suspended." : "The tenant is active again.",
    );
  }

  #delete() {
    const title = `Delete ${this.tenant}`;
    const text = "All users, chats, messages, inboxes and keys of the tenant are deleted for good.";
    return this.remove({ title, text, name: this.tenant }, this.at());
  }
}

/**
 * A quota, and how much of it is used.
 *
 * @param {number | null} most
 * @param {number | null} used
 */
const use = (most, used) => [
  used === null ? null : `${number(used)} of `,
  most === null ? h("span", { class: "faint" }, "no limit") : number(most),
  most !== null && used !== null && used >= NEARLY * most
    ? [" ", label(used >= most ? "reached" : "nearly reached", used >= most ? "bad" : "warn")]
    : null,
];

/** @param {string} text */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("This is not JSON.");
  }
}
