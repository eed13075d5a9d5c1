// SPDX-License-Identifier: Apache-2.0
/** The webhook endpoints of a tenant, and what one of them refused or still has to get. */

import { h } from "../elements/view.js";
import {
  button,
  card,
  choice,
  counted,
  facts,
  keyed,
  label,
  link,
  mono,
  number,
  shownOnce,
  table,
  when,
} from "./parts.js";
import { Pages, Screen } from "./screen.js";

/** @typedef {import("../elements/view.js").Child} Child */

const STATES = /** @type {const} */ ([
  ["", "All"],
  ["failed", "Failed"],
  ["waiting", "Waiting"],
]);
const REASONS = /** @type {Record<string, string>} */ ({
  tenant: "Disabled",
  gone: "Disabled: it answered 410",
  failing: "Disabled: it took nothing for five days",
});

export class WebhooksScreen extends Screen {
  static path = "tenants/:tenant/webhooks";
  static title = "Webhooks";
  static icon = /** @type {const} */ ("hook");
  static menu = /** @type {const} */ ("tenant");

  #endpoints = /** @type {any[]} */ ([]);

  async load() {
    this.#endpoints = (await this.server.get(this.at("webhooks"))).data;
  }

  aside() {
    return button("New endpoint", () => void this.#create(), "main");
  }

  render() {
    const rows = this.#endpoints.map((one) => [
      link(this.to("webhooks", one.webhook_id), one.webhook_id),
      state(one),
      target(one),
      counted(one.events.length, "type"),
      when(one.created_at),
    ]);
    const heads = ["Endpoint", "State", "Address", "Events", "Created"];
    return table("Webhook endpoints", heads, rows, "The tenant has no webhook endpoint.");
  }

  #create() {
    return this.change(
      {
        title: "New endpoint",
        text: "Tidings posts events to the address from now on. The secret is shown once.",
        verb: "Create",
        request: `PUT ${this.at("webhooks")}/…`,
        fields: [
          { name: "id", label: "Id", hint: "Letters, digits, - and _; it cannot be changed." },
          { name: "url", label: "Address", placeholder: "https://example.com/hook" },
          { name: "events", label: "Types of events", value: "message.created", type: "area" },
        ],
        act: async ({ id = "", url, events = "" }) => {
          const body = { url, events: words(events) };
          const { secret } = await this.server.ask("PUT", this.at("webhooks", id), body);
          return secret ? shownOnce("New secret", secret) : undefined;
        },
      },
      "The endpoint is there.",
    );
  }
}

export class WebhookScreen extends Screen {
  static path = "tenants/:tenant/webhooks/:webhook";
  static title = "Webhook endpoint";
  static refresh = 15;

  #endpoint = /** @type {any} */ (null);
  #state = "";
  #deliveries = new Pages(this.desk, this.#at("deliveries"));

  get id() {
    return this.params["webhook"] ?? "";
  }

  /** Path of the REST API below this endpoint. @param {...string} parts */
  #at(...parts) {
    return this.at("webhooks", this.id, ...parts);
  }

  heading() {
    return this.id;
  }

  above() {
    return [/** @type {const} */ (["Webhooks", this.to("webhooks")])];
  }

  aside() {
    return this.#endpoint ? state(this.#endpoint) : null;
  }

  async load() {
    this.#endpoint = await this.server.get(this.#at());
    await this.#deliveries.load();
  }

  render() {
    const one = this.#endpoint;
    if (!one) return null;
    return [
      card(
        "Endpoint",
        facts([
          ["Address", target(one)],
          ["Created", when(one.created_at)],
          ["Changed", when(one.updated_at)],
          one.failing_since && ["Takes nothing since", when(one.failing_since)],
          one.disabled_at && ["Disabled", when(one.disabled_at)],
          one.previous_secret_until && ["Old secret until", when(one.previous_secret_until)],
          ["Events", one.events.map((/** @type {string} */ name) => [label(name), " "])],
        ]),
        { actions: button("Test", () => void this.#test()) },
      ),
      this.#deliveryCard(),
      this.#dangers(one),
    ];
  }

  #deliveryCard() {
    const choose = (/** @type {string} */ chosen) => {
      this.#state = chosen;
      this.#deliveries.choose(chosen ? { state: chosen } : {});
      void this.open();
    };
    const rows = this.#deliveries.rows.map((one) =>
      keyed(one.delivery_id, [
        mono(one.delivery_id),
        label(one.state, one.state === "failed" ? "bad" : "warn"),
        one.state === "failed"
          ? `${one.type}, status ${one.status} after ${counted(one.attempts, "attempt")}`
          : one.events_waiting === null
            ? "–"
            : counted(one.events_waiting, "event"),
        one.failed_at ? when(one.failed_at) : "–",
        button("Replay", () => void this.#replay(one.delivery_id)),
      ]),
    );
    const heads = ["Delivery", "State", "What", "Failed", ""];
    return card(
      "Deliveries",
      [
        choice("State", STATES, this.#state, choose),
        table("Deliveries", heads, rows, "Nothing failed, and nothing waits."),
        this.#deliveries.foot(),
      ],
      { hint: "What failed in the last 30 days, and the next event of each chat that waits." },
    );
  }

  /** @param {any} one */
  #dangers(one) {
    const row = (
      /** @type {string} */ text,
      /** @type {string} */ verb,
      /** @type {() => void} */ act,
      /** @type {"" | "danger"} */ kind = "danger",
    ) => h("div", { class: "danger-row" }, [h("p", null, text), button(verb, act, kind)]);
    return card("Changes", [
      row(
        "Make a new secret. For 24 hours, requests are signed with both.",
        "Replace the secret",
        () => void this.#rotate(),
        "",
      ),
      one.enabled
        ? row(
            "Events wait until the endpoint is enabled.",
            "Disable",
            () => void this.#enable(false),
          )
        : row("Events are posted again.", "Enable", () => void this.#enable(true), ""),
      row("Delete the endpoint, with what waits for it.", "Delete", () => void this.#delete()),
    ]);
  }

  #test() {
    return this.desk.ask({
      title: `Test ${this.id}`,
      text: "An event of type webhook.test is posted now, whether the endpoint is enabled or not.",
      name: this.id,
      verb: "Test",
      request: `POST ${this.#at("test")}`,
      act: async () => attempted(await this.server.ask("POST", this.#at("test"))),
    });
  }

  /** @param {string} delivery */
  #replay(delivery) {
    const path = this.#at("deliveries", delivery, "replay");
    return this.change(
      {
        title: `Replay ${delivery}`,
        text: "The event is posted now, as it is now.",
        name: this.id,
        verb: "Replay",
        request: `POST ${path}`,
        act: async () => attempted(await this.server.ask("POST", path)),
      },
      "The event was posted.",
    );
  }

  #rotate() {
    return this.change(
      {
        title: "Replace the secret",
        text: "The new secret is shown once. The old one signs as well for 24 hours.",
        name: this.id,
        verb: "Replace",
        request: `POST ${this.#at("secret")}`,
        act: async () => {
          const { secret } = await this.server.ask("POST", this.#at("secret"));
          return shownOnce("New secret", secret);
        },
      },
      "The secret is replaced.",
    );
  }

  /** @param {boolean} enabled */
  #enable(enabled) {
    const verb = enabled ? "Enable" : "Disable";
    return this.change(
      {
        title: `${verb} ${this.id}`,
        text: enabled
          ? "Choose where the endpoint continues."
          : "Nothing is posted until you enable it.",
        name: this.id,
        verb,
        isDangerous: !enabled,
        request: `PUT ${this.#at()}`,
        fields: enabled ? [RESUME] : [],
        act: async ({ resume }) => {
          // The endpoint is replaced as a whole, and somebody may have changed it meanwhile.
          const { url, events } = await this.server.get(this.#at());
          const body = { url, events, enabled, ...(resume ? { resume } : {}) };
          await this.server.ask("PUT", this.#at(), body);
        },
      },
      enabled ? "The endpoint is enabled." : "The endpoint is disabled.",
    );
  }

  async #delete() {
    const isDone = await this.desk.ask({
      title: `Delete ${this.id}`,
      text: "Events that wait for the endpoint are never delivered.",
      name: this.id,
      verb: "Delete for good",
      isDangerous: true,
      request: `DELETE ${this.#at()}`,
      act: async () => void (await this.server.ask("DELETE", this.#at())),
    });
    if (!isDone) return;
    this.desk.say("The endpoint is deleted.");
    this.desk.go("tenants", this.tenant, "webhooks");
  }
}

const RESUME = /** @type {const} */ ({
  name: "resume",
  label: "Continues",
  type: "pick",
  value: "place",
  options: [
    ["place", "where it stopped"],
    ["now", "with new events"],
  ],
});

/** @param {any} endpoint */
function state({ enabled, disabled_by, failing_since }) {
  if (!enabled) return label(REASONS[disabled_by] ?? "Disabled", "bad");
  return failing_since ? label("Failing", "warn") : label("Enabled", "good");
}

/** Where the events go. @param {any} endpoint */
const target = ({ url }) => (url ? mono(url) : label("pulled"));

/**
 * What became of an attempt.
 *
 * @param {any} attempt
 * @returns {Child}
 */
const attempted = ({ state: outcome, status, reason }) =>
  h("p", { role: "status" }, [
    label(outcome, outcome === "delivered" ? "good" : "bad"),
    " ",
    status === null ? reason : `The endpoint answered ${number(status)}.`,
  ]);

/** The words of a text, however they are separated. @param {string} text */
const words = (text) => text.split(/[\s,]+/).filter(Boolean);
