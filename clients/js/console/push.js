// SPDX-License-Identifier: Apache-2.0
/** The push settings of a tenant: its providers without their secrets, and a test notice. */

import { h } from "../elements/view.js";
import { button, card, facts, label, mono, table, when } from "./parts.js";
import { Screen } from "./screen.js";
import { parsed } from "./tenant.js";

const PROVIDERS = /** @type {const} */ ([
  ["webpush", "Browsers (Web Push)"],
  ["fcm", "Android (FCM)"],
  ["apns", "Apple (APNs)"],
  ["webhook", "Webhook"],
]);

export class PushScreen extends Screen {
  static path = "tenants/:tenant/push";
  static title = "Push";
  static icon = /** @type {const} */ ("phone");
  static menu = /** @type {const} */ ("tenant");

  #settings = /** @type {any} */ (null);

  async load() {
    this.#settings = await this.server.get(this.at("push"));
  }

  render() {
    const settings = this.#settings;
    if (!settings) return null;
    const rows = PROVIDERS.map(([name, text]) => [
      text,
      settings[name] ? label("Used", "good") : label("Not used"),
      settings[name] ? mono(JSON.stringify(settings[name])) : "–",
    ]);
    return [
      card(
        "Notices",
        facts([
          ["Show", settings.content === "preview" ? "who wrote what" : "nothing but the chat"],
          ["Changed", when(settings.updated_at)],
        ]),
        { actions: button("Send a test", () => void this.#test()) },
      ),
      card("Providers", table("Providers", ["Provider", "State", "Settings"], rows), {
        hint: "Secrets are never shown.",
        actions: button("Change", () => void this.#change()),
      }),
    ];
  }

  async #change() {
    if (!(await this.renew())) return;
    const { updated_at: _, ...settings } = this.#settings;
    const used = Object.entries(settings).filter(([, value]) => value !== null);
    await this.change(
      {
        title: "Change push",
        text: "A JSON object, which replaces the settings as a whole. A secret that is left out stays as it is; a provider that is left out is not used any more.",
        name: this.tenant,
        verb: "Replace",
        request: `PUT ${this.at("push")}`,
        fields: [
          {
            name: "settings",
            label: "Settings",
            type: "area",
            value: JSON.stringify(Object.fromEntries(used), null, 2),
          },
        ],
        act: async ({ settings: text = "" }) => {
          await this.server.ask("PUT", this.at("push"), parsed(text));
        },
      },
      "The settings are replaced.",
    );
  }

  #test() {
    const path = this.at("push", "test");
    return this.desk.ask({
      title: "Send a test notice",
      text: "All registered devices of the user get a notice now.",
      name: this.tenant,
      verb: "Send",
      request: `POST ${path}`,
      fields: [{ name: "user_id", label: "User" }],
      act: async ({ user_id }) => {
        const { data } = await this.server.ask("POST", path, { user_id });
        return tested(data);
      },
    });
  }
}

/** What each push service answered. @param {any[]} sent */
const tested = (sent) =>
  sent.length
    ? table(
        "Answers",
        ["Provider", "Device", "Outcome"],
        sent.map(({ provider, device, outcome, reason }) => [
          provider,
          device ?? "–",
          [label(outcome, outcome === "sent" ? "good" : "bad"), reason ? ` ${reason}` : null],
        ]),
      )
    : h("p", { role: "status" }, "The user has registered no device.");
