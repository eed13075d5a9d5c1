// SPDX-License-Identifier: Apache-2.0
/** The notifications of an inbox, and the progress of one: post a test, retract, delete the inbox. */

import { h } from "../elements/view.js";
import {
  button,
  card,
  counted,
  facts,
  keyed,
  label,
  link,
  mono,
  number,
  table,
  when,
} from "./parts.js";
import { Pages, Screen } from "./screen.js";

/** @typedef {import("./parts.js").Tone} Tone */

const TONES = /** @type {Record<string, Tone>} */ ({
  done: "good",
  running: "accent",
  queued: "warn",
  redacted: "bad",
});

export class NotificationsScreen extends Screen {
  static path = "tenants/:tenant/inboxes/:inbox";
  static title = "Notifications";
  static refresh = 10;

  #posted = new Pages(this.desk, this.at("inboxes", this.inbox, "notifications"));
  #config = /** @type {any} */ (null);

  get inbox() {
    return this.params["inbox"] ?? "";
  }

  heading() {
    return this.#config?.title ?? this.inbox;
  }

  above() {
    return [/** @type {const} */ (["Inboxes", this.to("inboxes")])];
  }

  aside() {
    return [
      button("Post a test", () => void this.#post(), "main"),
      button("Delete", () => void this.#delete(), "danger"),
    ];
  }

  async load() {
    this.#config = await this.server.get(this.at("inboxes", this.inbox));
    await this.#posted.load();
  }

  render() {
    const rows = this.#posted.rows.map((one) =>
      keyed(one.id, [
        [
          link(this.to("inboxes", this.inbox, one.id), one.message?.title ?? mono(one.id)),
          one.redacted ? [" ", label("Retracted", "bad")] : null,
        ],
        one.audience === "everyone" ? label("Everyone", "accent") : counted(one.recipients, "user"),
        one.category ?? "–",
        one.sender ?? "–",
        when(one.posted_at),
      ]),
    );
    const heads = ["Notification", "For", "Category", "Sender", "Posted"];
    return [table("Notifications", heads, rows, "Nothing was posted."), this.#posted.foot()];
  }

  #post() {
    const categories = this.#config?.categories;
    return this.change(
      {
        title: "Post a test",
        text: "The users below get it as any other notification.",
        name: this.inbox,
        verb: "Post",
        isAudited: false, // the inbox lists it
        request: `POST /v1/tenants/${this.tenant}/inboxes/${this.inbox}/notifications`,
        fields: [
          { name: "users", label: "Users", hint: "Their ids, with commas." },
          { name: "title", label: "Title", value: "A test" },
          { name: "body", label: "Text", value: "Posted from the console." },
          ...(categories
            ? [
                {
                  name: "category",
                  label: "Category",
                  type: /** @type {const} */ ("pick"),
                  options: categories.map((/** @type {string} */ one) => [one, one]),
                },
              ]
            : []),
        ],
        act: async ({ users = "", title, body, category }) => {
          const uids = users
            .split(",")
            .map((one) => one.trim())
            .filter(Boolean);
          await this.server.ask("POST", this.at("inboxes", this.inbox, "notifications"), {
            audience: { kind: "users", uids, label: "console" },
            message: { title, body },
            ...(category ? { category } : {}),
            sender: "console",
          });
        },
      },
      "The test is posted.",
    );
  }

  #delete() {
    const question = {
      title: `Delete ${this.inbox}`,
      text: "The inbox and all its notifications are deleted for good.",
      name: this.inbox,
    };
    return this.remove(question, this.at("inboxes", this.inbox));
  }
}

export class NotificationScreen extends Screen {
  static path = "tenants/:tenant/inboxes/:inbox/:notification";
  static title = "Notification";
  static refresh = 2;

  #progress = /** @type {any} */ (null);

  get #path() {
    const { inbox = "", notification = "" } = this.params;
    return this.at("inboxes", inbox, "notifications", notification);
  }

  above() {
    const { inbox = "" } = this.params;
    return [
      /** @type {const} */ (["Inboxes", this.to("inboxes")]),
      /** @type {const} */ ([inbox, this.to("inboxes", inbox)]),
    ];
  }

  aside() {
    const isShown = this.#progress && this.#progress.status !== "redacted";
    return isShown ? button("Retract", () => void this.#retract(), "danger") : null;
  }

  async load() {
    this.#progress = await this.server.get(this.#path);
  }

  render() {
    const one = this.#progress;
    if (!one) return null;
    const { recipients, delivered } = one;
    return card("Progress", [
      h("progress", { max: Math.max(1, recipients), value: delivered, "aria-label": "Delivered" }),
      facts([
        ["Status", label(one.status, TONES[one.status] ?? "plain")],
        ["Recipients", number(recipients)],
        ["Delivered", number(delivered)],
        ["Waiting", number(Math.max(0, recipients - delivered))],
        ["Label", one.label ?? "–"],
        ["Id", mono(one.id)],
      ]),
      link(this.to("explain", `${this.params["inbox"]}/${one.id}`), "Why did it not arrive?"),
    ]);
  }

  #retract() {
    const { notification = "" } = this.params;
    return this.change(
      {
        title: "Retract the notification",
        text: "Nobody sees it from the answer on, even while it is still being delivered.",
        name: notification,
        verb: "Retract",
        isDangerous: true,
        request: `DELETE ${this.#path}`,
        act: async () => void (await this.server.ask("DELETE", this.#path)),
      },
      "The notification is retracted.",
    );
  }
}
