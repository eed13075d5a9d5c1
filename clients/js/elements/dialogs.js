// SPDX-License-Identifier: Apache-2.0
/** The dialogs of a chat: begin one, its members, lists of messages, who read one. */

import { icon } from "./icons.js";
import { listOf, messageList } from "./message_lists.js";
import { Search } from "./search.js";
import { face, moment, said } from "./text.js";
import { h, once } from "./view.js";

/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */
/** @typedef {import("./view.js").Child} Child */

/**
 * @typedef {{kind: "direct" | "group"} | {kind: "members" | "search", chat: string}
 *   | {kind: "info", row: Row} | import("./message_lists.js").Listed
 *   | {kind: "other", name: string, describe: () => [Child, Child]}} Dialog
 * @typedef {{user_id: string, role: string, display_name: string | null}} Member
 */

const ROLES = /** @type {const} */ (["owner", "admin", "member"]);

export class Dialogs {
  #element;
  /** The dialog that is open. */
  opened = /** @type {Dialog | null} */ (null);
  /** Number of dialogs so far. One that was closed is not opened again, but another one is. */
  #count = 0;
  /** The dialog whose chat is being made. */
  #making = /** @type {Dialog | null} */ (null);
  #members = /** @type {Member[]} */ ([]);
  #facts = /** @type {{receipts: any[], reactions: any[]} | null} */ (null);
  #trouble = "";
  #list = /** @type {import("../src/lists.js").MessagesView | null} */ (null);
  #endList = () => {};
  #search;

  /** @param {TidingsChat} element */
  constructor(element) {
    this.#element = element;
    this.#search = new Search(element);
  }

  /** @param {Dialog | null} dialog */
  show(dialog) {
    // The browser puts the focus back to where it was.
    if (!dialog) this.#element.root.querySelector("dialog")?.close();
    this.opened = dialog;
    this.#count += 1;
    this.#members = [];
    this.#facts = null;
    this.#trouble = "";
    if (dialog?.kind === "members") void this.#loadMembers(dialog.chat);
    if (dialog?.kind === "info") void this.#loadFacts(dialog.row);
    this.#search.look("");
    this.#endList();
    this.#list = isListed(dialog) ? listOf(this.#element, dialog) : null;
    this.#endList = this.#list?.subscribe(this.#element.update) ?? (() => {});
    this.#element.update();
  }

  /** Close a dialog, unless the next one is open by now. @param {Dialog | null} dialog */
  close(dialog) {
    if (this.opened === dialog) this.show(null);
  }

  describe() {
    const dialog = this.opened;
    if (!dialog) return null;
    const { strings } = this.#element;
    const close = () => this.close(dialog);
    const parts = {
      direct: () => [strings.newChat, this.#begin("direct")],
      group: () => [strings.newGroup, this.#begin("group")],
      members: () => [strings.members, this.#group(/** @type {any} */ (dialog).chat)],
      info: () => [strings.info, this.#info()],
      mentions: () => [strings.mentions, this.#messages(dialog)],
      other: () => /** @type {any} */ (dialog).describe(),
      pins: () => [strings.pins, this.#messages(dialog)],
      replies: () => [strings.thread, this.#messages(dialog)],
      search: () => [strings.searchChat, this.#find(/** @type {any} */ (dialog).chat)],
    };
    const [title, body] = parts[dialog.kind]();
    const open = (/** @type {any} */ one) =>
      queueMicrotask(() => one.isConnected && one.showModal());
    const name = dialog.kind === "other" ? dialog.name : dialog.kind;
    const props = {
      key: `dialog ${this.#count}`,
      class: `${name}-dialog`,
      ref: open,
      onclose: close,
      part: "dialog",
      closedby: "any",
      "aria-labelledby": "dialog-title",
    };
    return h("dialog", props, [
      h("div", { class: "bar" }, [
        h("h2", { id: "dialog-title", class: "grow" }, title),
        h(
          "button",
          { class: "round", type: "button", "aria-label": strings.close, onclick: close },
          icon("close"),
        ),
      ]),
      body,
      this.#trouble && h("p", { class: "warn", role: "alert" }, this.#trouble),
    ]);
  }

  /**
   * Do something; if it is refused, show why. Return whether it was done.
   *
   * @param {Promise<unknown> | undefined} work
   * @param {(error: any) => string} [reasonOf]
   */
  async attempt(work, reasonOf = ({ message }) => message) {
    const { opened } = this;
    this.#trouble = "";
    try {
      await work;
      return true;
    } catch (error) {
      const reason = reasonOf(error) || this.#element.strings.wentWrong;
      // The browser reports a moment later that a dialog was closed.
      const isClosed = this.#element.root.querySelector("dialog")?.open === false;
      if (this.opened === opened && !isClosed) this.#trouble = reason;
      // Whoever has left the dialog takes for done what was asked for there.
      else if (opened) this.#element.say(reason);
      return false;
    } finally {
      this.#element.update();
    }
  }

  /** @param {string} chat */
  #find(chat) {
    const { strings } = this.#element;
    const oninput = (/** @type {any} */ event) => this.#search.look(event.target.value, chat);
    return [
      h("input", { type: "search", "aria-label": strings.searchChat, autofocus: true, oninput }),
      h("div", { class: "people long" }, this.#search.describe()),
    ];
  }

  /** @param {Dialog} dialog */
  #messages(dialog) {
    return isListed(dialog) && this.#list && messageList(this.#element, dialog, this.#list);
  }

  // Beginning a chat.

  /** @param {"direct" | "group"} kind */
  #begin(kind) {
    const { strings, people } = this.#element;
    const isGroup = kind === "group";
    const known = people?.known() ?? [];
    const submit = (/** @type {any} */ event) => {
      event.preventDefault();
      void this.#create(isGroup, new FormData(event.target));
    };
    return h("form", { onsubmit: submit }, [
      isGroup && field(strings.name, "name", { required: true, maxLength: 100, autofocus: true }),
      h(
        "div",
        { class: "people" },
        known.map(([user, name]) => this.#person(isGroup, user, name)),
      ),
      field(isGroup ? strings.people : strings.person, "people", { autocapitalize: "off" }),
      h("button", { class: "main" }, strings.create),
    ]);
  }

  /**
   * @param {boolean} isGroup
   * @param {string} user
   * @param {string} name
   */
  #person(isGroup, user, name) {
    const inside = [face(name, null, user), h("bdi", { class: "grow cut" }, name)];
    if (isGroup) {
      const box = h("input", { type: "checkbox", name: "known", value: user });
      return h("label", { class: "entry", key: user }, box, inside);
    }
    const begin = () => void this.attempt(this.#element.begin(user));
    return h("button", { type: "button", class: "entry", key: user, onclick: begin }, inside);
  }

  /**
   * @param {boolean} isGroup
   * @param {FormData} form
   */
  async #create(isGroup, form) {
    const { opened } = this;
    if (this.#making === opened) return;
    const { tidings } = this.#element;
    const others = String(form.get("people") ?? "").split(",");
    const users = [...form.getAll("known").map(String), ...others].map((one) => one.trim());
    const members = [...new Set(users.filter(Boolean))];
    if (!members.length && !isGroup) return;
    this.#making = opened;
    const isHere = this.#element.place();
    await this.attempt(
      isGroup
        ? tidings?.chats
            .group(String(form.get("name")), members)
            .then((record) => isHere() && this.#element.open(record.chat_id))
        : this.#element.begin(members[0] ?? ""),
    );
    if (this.#making === opened) this.#making = null;
  }

  // Members.

  /** @param {string} chat */
  async #loadMembers(chat) {
    const path = `/v1/chats/${chat}/members`;
    await this.attempt(
      this.#element.tidings?.request("GET", path).then(({ data }) => {
        // An answer may come when the dialog of another chat is open.
        if (this.opened?.kind === "members" && this.opened.chat === chat) this.#members = data;
      }),
    );
  }

  /** @param {string} chat */
  #group(chat) {
    const { strings, tidings } = this.#element;
    const record = tidings?.chats.record(chat);
    const isAble = record?.role !== "member";
    const change = async (/** @type {string} */ method, /** @type {string} */ path, body = {}) => {
      const url = `/v1/chats/${chat}${path}`;
      const request = tidings?.request(method, url, method === "DELETE" ? undefined : body);
      if (await this.attempt(request)) await this.#loadMembers(chat);
    };
    const add = (/** @type {any} */ event) => {
      event.preventDefault();
      const user = encodeURIComponent(String(new FormData(event.target).get("user")).trim());
      event.target.reset();
      void change("PUT", `/members/${user}`);
    };
    const rename = (/** @type {any} */ event) => {
      event.preventDefault();
      void change("PATCH", "", { name: String(new FormData(event.target).get("name")) });
    };
    return [
      isAble &&
        h("form", { class: "line", onsubmit: rename }, [
          field(strings.name, "name", { required: true, defaultValue: record?.name ?? "" }),
          h("button", null, strings.rename),
        ]),
      h(
        "ul",
        { class: "people", role: "list", "aria-label": strings.members },
        this.#members.map((one) => this.#member(one, isAble, change)),
      ),
      isAble &&
        h("form", { class: "line", onsubmit: add }, [
          field(strings.person, "user", { required: true, autocapitalize: "off" }),
          h("button", null, strings.addMember),
        ]),
    ];
  }

  /**
   * @param {Member} member
   * @param {boolean} isAble
   * @param {(method: string, path: string, body?: object) => Promise<void>} change
   */
  #member({ user_id, role, display_name }, isAble, change) {
    const { strings, tidings } = this.#element;
    const name = display_name || user_id;
    const path = `/members/${encodeURIComponent(user_id)}`;
    const isSelf = user_id === tidings?.user;
    const set = (/** @type {any} */ event) =>
      void change("PUT", path, { role: event.target.value });
    const label = strings[/** @type {"owner"} */ (role)] ?? role;
    return h("li", { key: user_id, class: "entry" }, [
      face(name, null, user_id),
      h("bdi", { class: "grow cut" }, name),
      isAble && !isSelf
        ? h(
            "select",
            { "aria-label": said(strings.roles, { who: name }), onchange: set, value: role },
            ROLES.map((one) => h("option", { value: one, selected: one === role }, strings[one])),
          )
        : h("span", { class: "faint" }, label),
      isAble &&
        !isSelf &&
        h("button", { class: "warn", onclick: once(() => void change("DELETE", path)) }, [
          strings.removeMember,
        ]),
    ]);
  }

  // Who read a message.

  /** @param {Row} row */
  async #loadFacts({ chat, sequence }) {
    const path = `/v1/chats/${chat}/messages/${sequence}`;
    const ask = (/** @type {string} */ what) => this.#element.tidings?.request("GET", path + what);
    const both = Promise.all([ask("/receipts?limit=100"), ask("/reactions")]);
    const dialog = this.opened;
    await this.attempt(
      both.then(([receipts, reactions]) => {
        if (this.opened !== dialog) return;
        this.#facts = { receipts: receipts.data, reactions: reactions.data };
      }),
    );
  }

  #info() {
    const { strings } = this.#element;
    if (!this.#facts) return this.#trouble ? null : h("p", { class: "faint" }, strings.loading);
    const { receipts, reactions } = this.#facts;
    const read = receipts.filter((one) => one.read);
    const delivered = receipts.filter((one) => one.delivered && !one.read);
    const waiting = receipts.filter((one) => !one.delivered);
    return [
      this.#people(strings.readBy, read, "read_at"),
      delivered.length ? this.#people(strings.deliveredTo, delivered, "delivered_at") : null,
      waiting.length ? this.#people(strings.waitingFor, waiting, "") : null,
      reactions.length ? this.#people(strings.reactions, reactions, "created_at") : null,
    ];
  }

  /**
   * @param {string} title
   * @param {any[]} list
   * @param {string} at
   */
  #people(title, list, at) {
    const { strings, people, view } = this.#element;
    const record = view?.snapshot().record ?? null;
    const line = (/** @type {any} */ one) => {
      const name = people?.nameOf(one.user_id, record) ?? "";
      const when = one[at] ? moment(Date.parse(one[at]), strings) : "";
      return h("li", { class: "entry" }, [
        one.emoji ? h("span", { class: "face" }, one.emoji) : face(name, null, one.user_id),
        h("bdi", { class: "grow cut" }, name),
        h("span", { class: "faint" }, when),
      ]);
    };
    return h("section", null, [
      h("h3", null, title),
      list.length
        ? h("ul", { role: "list" }, list.map(line))
        : h("p", { class: "faint" }, strings.nobody),
    ]);
  }
}

/**
 * @param {Dialog | null} dialog
 * @returns {dialog is import("./message_lists.js").Listed}
 */
const isListed = (dialog) => ["mentions", "pins", "replies"].includes(dialog?.kind ?? "");

/**
 * @param {string} label
 * @param {string} name
 * @param {Record<string, unknown>} props
 */
const field = (label, name, props) =>
  h("label", { class: "grow" }, label, h("input", { name, ...props }));
