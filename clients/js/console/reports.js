// SPDX-License-Identifier: Apache-2.0
/** What users have reported to a tenant: read it with a reason, act on it, and close the report. */

import { h } from "../elements/view.js";
import { icon } from "./icons.js";
import { button, bytes, card, choice, facts, label, link, mono, when } from "./parts.js";
import { Pages, Screen } from "./screen.js";

/** @typedef {import("./parts.js").Tone} Tone */

const STATES = /** @type {const} */ ([
  ["open", "Open"],
  ["resolved", "Resolved"],
  ["dismissed", "Dismissed"],
  ["", "All"],
]);
/** @type {Record<string, Tone>} */
const TONES = { open: "warn", resolved: "good", dismissed: "plain" };
const DONE = /** @type {Record<string, string>} */ ({
  redact: "message redacted",
  remove: "sender removed from the chat",
  ban: "user banned",
});

export class ReportsScreen extends Screen {
  static path = "tenants/:tenant/reports";
  static title = "Reports";
  static icon = /** @type {const} */ ("flag");
  static menu = /** @type {const} */ ("tenant");

  #state = "open";
  #reports = new Pages(this.desk, this.at("reports"), { state: this.#state, sealed: "true" });
  /** Reports that were unsealed here, by id. */
  #unsealed = /** @type {Map<string, any>} */ (new Map());

  async load() {
    await this.#reports.load();
  }

  render() {
    const choose = (/** @type {string} */ state) => {
      this.#state = state;
      this.#reports.choose({ ...(state ? { state } : {}), sealed: "true" });
      void this.open();
    };
    const { rows } = this.#reports;
    return [
      h(
        "p",
        { class: "lead" },
        "Reports are kept for 90 days. To read what was reported, give a reason, which is in the audit trail.",
      ),
      choice("State", STATES, this.#state, choose),
      rows.length ? rows.map(this.#card) : h("p", { class: "empty" }, "There are no such reports."),
      this.#reports.foot(),
    ];
  }

  #card = (/** @type {any} */ report) => {
    const { user_id, chat_id, sequence } = report;
    const title = chat_id ? `Message of ${user_id}` : `User ${user_id}`;
    return card(
      title,
      [
        facts([
          ["State", this.#standing(report)],
          ["Reason", report.reason],
          ["Reported by", [link(this.to("users", report.reporter_id), report.reporter_id)]],
          ["Reported", when(report.created_at)],
          chat_id && [
            "Message",
            link(this.to("chats", chat_id, String(sequence)), `${sequence} in its chat`),
          ],
          chat_id && ["Sent", when(report.sent_at)],
          ["Report", mono(report.report_id)],
          report.note && ["Note", report.note],
        ]),
        this.#said(report),
        this.#actions(report),
      ],
      { hint: this.#who(user_id), key: report.report_id },
    );
  };

  /** @param {any} report */
  #standing({ state, action }) {
    return [label(state, TONES[state]), action ? [" ", label(DONE[action] ?? action)] : null];
  }

  /** The reported user; nobody can open the tenant itself. @param {string} user */
  #who(user) {
    return user.startsWith("~") ? null : link(this.to("users", user), "Open the user");
  }

  /** What was written: by the sender and by the reporter. @param {any} report */
  #said(report) {
    const { content, comment, erased, attachments } =
      this.#unsealed.get(report.report_id) ?? report;
    const isSealed = report.sealed && !this.#unsealed.has(report.report_id);
    if (isSealed)
      return h("div", { class: "copy" }, [
        h("button", { type: "button", class: "sealed", onclick: () => void this.#unseal(report) }, [
          icon("lock"),
          "Sealed",
        ]),
      ]);
    return h("div", { class: "copy" }, [
      content ? h("p", { class: "content" }, content) : null,
      report.chat_id && content === null
        ? label(erased ? "erased" : "gone before the report", "bad")
        : null,
      attachments.map((/** @type {any} */ file) =>
        button(`${file.name} (${bytes(file.size)})`, () => void this.#saveFile(report, file)),
      ),
      comment ? h("p", { class: "content" }, [h("small", null, "Comment"), comment]) : null,
    ]);
  }

  /**
   * Save a file of a reported message. It is not shown, because nobody knows what is in it.
   *
   * @param {any} report
   * @param {any} file
   */
  async #saveFile({ report_id }, { attachment_id, name }) {
    const path = this.at("reports", report_id, "attachments", attachment_id);
    try {
      const href = URL.createObjectURL(await this.server.blob(path));
      Object.assign(document.createElement("a"), { href, download: name }).click();
      URL.revokeObjectURL(href);
    } catch (error) {
      this.desk.say(/** @type {Error} */ (error).message);
    }
  }

  /** @param {any} report */
  #actions(report) {
    const isOfMessage = report.chat_id !== null;
    return h("div", { class: "actions" }, [
      report.state === "open"
        ? [
            button("Resolve", () => void this.#close(report, "resolved"), "main"),
            button("Dismiss", () => void this.#close(report, "dismissed")),
          ]
        : button("Open again", () => void this.#close(report, "open")),
      isOfMessage ? button("Redact", () => void this.#redact(report), "danger") : null,
      isOfMessage ? button("Freeze the chat", () => void this.#freeze(report), "danger") : null,
      report.user_id.startsWith("~")
        ? null
        : button("Ban", () => void ban(this, report.user_id), "danger"),
    ]);
  }

  /** @param {any} report */
  #unseal({ report_id }) {
    const path = this.at("reports", report_id, "unseal");
    return this.desk.ask({
      title: "Unseal the report",
      text: "Who reads the content of others needs a reason. The audit trail keeps it with your key.",
      verb: "Unseal",
      isDangerous: true,
      name: report_id,
      request: `POST ${path}`,
      fields: [{ name: "reason", label: "Reason", placeholder: "Ticket 4711: reported as abuse" }],
      act: async ({ reason }) => {
        this.#unsealed.set(report_id, await this.server.ask("POST", path, { reason }));
      },
    });
  }

  /**
   * @param {any} shown - The report as it was shown.
   * @param {"open" | "resolved" | "dismissed"} state
   */
  async #close(shown, state) {
    if (!(await this.renew())) return;
    const { report_id } = shown;
    const { rows, hasMore } = this.#reports;
    // New reports may have moved it to the next page.
    const report = rows.find((one) => one.report_id === report_id) ?? (hasMore ? shown : null);
    if (report?.state !== shown.state)
      return this.desk.say("Somebody else has changed the report.");
    const verb = { open: "Open again", resolved: "Resolve", dismissed: "Dismiss" }[state];
    const path = this.at("reports", report_id);
    await this.change(
      {
        title: `${verb} the report`,
        text: "Neither the reporter nor the reported user is informed.",
        name: report_id,
        verb,
        request: `PATCH ${path}`,
        fields: [
          { name: "note", label: "Note", type: "area", value: report.note, isOptional: true },
        ],
        act: async ({ note: said }) => {
          await this.server.ask("PATCH", path, { state, ...(said ? { note: said } : {}) });
        },
      },
      `The report is ${state}.`,
    );
  }

  /** @param {any} report */
  #redact({ report_id, user_id, sequence }) {
    const path = this.at("reports", report_id);
    return this.change(
      {
        title: `Redact message ${sequence} of ${user_id}`,
        text: "The message is empty for everybody, for good. The copy in the report stays for 90 days, and the report is resolved.",
        name: user_id,
        verb: "Redact",
        isDangerous: true,
        request: `PATCH ${path}`,
        act: async () => {
          await this.server.ask("PATCH", path, { action: "redact", state: "resolved" });
        },
      },
      "The message is redacted.",
    );
  }

  /** @param {any} report */
  #freeze({ chat_id }) {
    return freeze(this, chat_id, true);
  }
}

/**
 * Ask until when a user may not write.
 *
 * @param {Screen} screen
 * @param {string} user
 */
export function ban(screen, user) {
  const path = screen.at("users", user);
  return screen.change(
    {
      title: `Ban ${user}`,
      text: "The user can read everything, but not write, within five seconds.",
      name: user,
      verb: "Ban",
      isDangerous: true,
      request: `PUT ${path}`,
      fields: [{ name: "until", label: "Until", type: "datetime-local" }],
      act: async ({ until = "" }) => {
        const banned_until = new Date(until).toISOString();
        await screen.server.ask("PUT", path, { banned_until });
      },
    },
    "The user is banned.",
  );
}

/**
 * Ask before a banned user may write again.
 *
 * @param {Screen} screen
 * @param {string} user
 */
export function endBan(screen, user) {
  const path = screen.at("users", user);
  const question = {
    title: `End the ban of ${user}`,
    text: "The user can write again.",
    name: user,
    verb: "End the ban",
    request: `PUT ${path}`,
    act: async () => void (await screen.server.ask("PUT", path, { banned_until: null })),
  };
  return screen.change(question, "The ban is ended.");
}

/**
 * Ask before nobody can write in a chat, or everybody can again.
 *
 * @param {Screen} screen
 * @param {string} chat
 * @param {boolean} frozen
 */
export function freeze(screen, chat, frozen) {
  const path = screen.at("chats", chat);
  const verb = frozen ? "Freeze" : "Unfreeze";
  const text = frozen
    ? "Members can read and redact, but not write, until the chat is unfrozen."
    : "Members can write again.";
  const act = async () => void (await screen.server.ask("PATCH", path, { frozen }));
  return screen.change(
    {
      title: `${verb} the chat`,
      text,
      name: chat,
      verb,
      isDangerous: frozen,
      request: `PATCH ${path}`,
      act,
    },
    frozen ? "The chat is frozen." : "Members can write again.",
  );
}
