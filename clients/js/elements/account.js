// SPDX-License-Identifier: Apache-2.0
/**
 * Dialogs that are rarely needed: scheduled messages, invitations, blocked people, reports, the keys.
 * This is loaded when the user opens one of them.
 */

import { h, once } from "./describe.js";
import { Scheduled } from "./scheduled.js";
import { wordsOf } from "./strings_more.js";
import { face, filled } from "./text.js";

/** @typedef {import("./chat.js").TidingsChat} TidingsChat */
/** @typedef {import("./describe.js").Child} Child */
/** @typedef {import("./invitations.js").Invitation} Invitation */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {"invitations" | "keys" | "later" | "report" | "scheduled" | "settings"} Name */

const REASONS = /** @type {const} */ (["spam", "abuse", "illegal", "other"]);

const ACCOUNT_STYLE = `
.account .entry { padding-inline: 0; }
.account .entry:hover { background: none; }
.account .lines { text-align: start; }
.account textarea { display: block; inline-size: 100%; min-block-size: 5em; resize: vertical; }
.account .later { display: block; }
.account .later button { margin-inline-start: -12px; margin-inline-end: 12px; }
`;

export class Account {
  #element;
  #tidings;
  #scheduled;
  #blocked = /** @type {string[] | null} */ (null);

  /**
   * @param {TidingsChat} element
   * @param {import("../src/tidings.js").Tidings} tidings
   * @param {(css: string) => void} addStyle
   */
  constructor(element, tidings, addStyle) {
    this.#element = element;
    this.#tidings = tidings;
    this.#scheduled = new Scheduled(element, tidings);
    addStyle(ACCOUNT_STYLE);
  }

  /**
   * @param {Name} name
   * @param {Row} [row] - The message to report.
   */
  show(name, row) {
    const words = wordsOf(this.#element);
    const chat = name === "scheduled" ? this.#element.chat : "";
    if (name === "later") return this.#scheduled.write(this.#element.text);
    const parts = {
      invitations: () => [words.invitations, this.#invitations()],
      keys: () => [words.keys, words.keyList.split(" · ").map((line) => h("p", null, line))],
      report: () => [words.report, row && this.#report(row)],
      scheduled: () => [words.scheduled, this.#scheduled.list(chat)],
      settings: () => [words.settings, this.#all()],
    };
    const describe = () => {
      const [title, body] = parts[name]();
      return /** @type {[Child, Child]} */ ([title, h("div", { class: "account" }, body)]);
    };
    this.#scheduled.forget();
    this.#element.show({ kind: "other", name, describe });
    this.#load(name);
  }

  /** @param {Name} name */
  #load(name) {
    const isAll = name === "settings";
    if (isAll || name === "scheduled") void this.#scheduled.load();
    if (isAll || name === "invitations") void this.#element.invitations?.reload();
    if (isAll) void this.#loadBlocked();
  }

  /** Say that a scheduled message was not sent. */
  failed() {
    this.#element.say(wordsOf(this.#element).scheduledFailed);
    void this.#scheduled.load();
  }

  #all() {
    const words = wordsOf(this.#element);
    return [
      h("h3", null, words.invitations),
      this.#invitations(),
      h("h3", null, words.scheduled),
      this.#scheduled.list(""),
      h("h3", null, words.blockedPeople),
      this.#people(),
    ];
  }

  /** @param {Row} row */
  #report({ chat, sequence }) {
    const element = this.#element;
    const words = wordsOf(element);
    const submit = async (/** @type {any} */ event) => {
      event.preventDefault();
      const form = new FormData(event.target);
      const body = { reason: form.get("reason"), comment: form.get("comment") || undefined };
      const path = `/v1/chats/${chat}/messages/${sequence}/report`;
      const { opened } = element.dialogs;
      if (!(await element.dialogs.attempt(this.#tidings.request("POST", path, body)))) return;
      element.dialogs.close(opened);
      element.say(words.reported);
    };
    return h("form", { onsubmit: submit }, [
      h("label", null, [
        words.reason,
        h(
          "select",
          { name: "reason" },
          REASONS.map((one) => h("option", { value: one }, words[one])),
        ),
      ]),
      h("label", null, words.comment, h("input", { name: "comment", maxLength: 1_000 })),
      h("button", { class: "main" }, words.report),
    ]);
  }

  // Invitations.

  #invitations() {
    const words = wordsOf(this.#element);
    const list = this.#element.invitations?.list ?? [];
    if (!list.length) return h("p", { class: "faint", role: "status" }, words.noInvitations);
    return h("ul", { role: "list", "aria-label": words.invitations }, list.map(this.#invitation));
  }

  /** @param {Invitation} invitation */
  #invitation = (invitation) => {
    const { chat_id, name, invited_by } = invitation;
    const words = wordsOf(this.#element);
    const { people } = this.#element;
    const title = name || chat_id;
    return h("li", { class: "entry", key: chat_id }, [
      face(title, null, chat_id),
      h("span", { class: "grow lines" }, [
        h("bdi", { class: "title cut" }, title),
        h("span", { class: "faint" }, filled(words.invitedBy, { who: people?.named(invited_by) })),
      ]),
      h("button", { class: "main", onclick: () => void this.#accept(chat_id) }, words.accept),
      h("button", { onclick: once(() => void this.#decline(chat_id)) }, words.decline),
    ]);
  };

  /** @param {string} chat */
  async #accept(chat) {
    const element = this.#element;
    const path = `/v1/me/invites/${chat}/accept`;
    const isHere = element.place();
    if (!(await element.dialogs.attempt(this.#tidings.request("POST", path)))) return;
    await element.invitations?.reload();
    if (isHere()) element.open(chat);
  }

  /** @param {string} chat */
  async #decline(chat) {
    const element = this.#element;
    const path = `/v1/me/invites/${chat}`;
    if (!(await element.dialogs.attempt(this.#tidings.request("DELETE", path)))) return;
    await element.invitations?.reload();
    element.say(wordsOf(element).declined);
  }

  // Blocked people.

  async #loadBlocked() {
    const load = async () => {
      const { data } = await this.#tidings.request("GET", "/v1/me/blocks");
      this.#blocked = data.map((/** @type {any} */ one) => one.user_id);
    };
    await this.#element.dialogs.attempt(load());
  }

  #people() {
    const words = wordsOf(this.#element);
    if (!this.#blocked?.length)
      return h(
        "p",
        { class: "faint", role: "status" },
        this.#blocked ? words.noBlocked : words.loading,
      );
    const item = (/** @type {string} */ user) => {
      const name = this.#element.people?.nameOf(user) ?? user;
      const unblock = async () => {
        await this.#element.block(user, false);
        await this.#loadBlocked();
      };
      return h("li", { class: "entry", key: user }, [
        face(name, null, user),
        h("bdi", { class: "grow cut" }, name),
        h("button", { onclick: () => void unblock() }, words.unblock),
      ]);
    };
    return h("ul", { role: "list", "aria-label": words.blockedPeople }, this.#blocked.map(item));
  }
}
