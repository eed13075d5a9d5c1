// SPDX-License-Identifier: Apache-2.0
/** Messages that are sent later: write one, list them, change or cancel them. */

import { h, once } from "./describe.js";
import { localTime, MINUTE_MS } from "./local_time.js";
import { wordsOf } from "./strings_more.js";
import { moment, said } from "./text.js";

/** @typedef {import("./chat.js").TidingsChat} TidingsChat */
/** @typedef {import("./describe.js").Child} Child */

/**
 * @typedef {object} ScheduledMessage
 * @property {string} scheduled_id
 * @property {string} chat_id
 * @property {"pending" | "failed"} state
 * @property {string} send_at
 * @property {string | null} content
 * @property {string | null} code - Why it was not sent.
 * @property {string[]} attachments - The ids of its files.
 */

const PAGES_MAX = 5;
const HOUR_MS = 3_600_000;
/** The texts that explain refusals to the user. */
const REASONS = /** @type {const} */ ({
  "chat.not_found": "whyNotMember",
  restored: "whyRestored",
});

export class Scheduled {
  #element;
  #tidings;
  #messages = /** @type {ScheduledMessage[] | null} */ (null);
  /** The last request, and its id. A repeat of the request gets the same id. */
  #attempted = { body: "", id: "" };

  /**
   * @param {TidingsChat} element
   * @param {import("../src/tidings.js").Tidings} tidings
   */
  constructor(element, tidings) {
    this.#element = element;
    this.#tidings = tidings;
  }

  /** Show nothing until it is loaded again: what was shown before may have changed meanwhile. */
  forget() {
    this.#messages = null;
  }

  load() {
    return this.#element.dialogs.attempt(this.#load());
  }

  async #load() {
    /** @type {ScheduledMessage[]} */
    const all = [];
    let cursor = "";
    for (let page = 0; page < PAGES_MAX && (cursor || !page); page += 1) {
      const path = `/v1/scheduled?limit=100${cursor}`;
      const found = await this.#tidings.request("GET", path);
      all.push(...found.data);
      cursor = found.next_cursor ? `&cursor=${encodeURIComponent(found.next_cursor)}` : "";
    }
    this.#messages = all.sort((a, b) => (a.send_at < b.send_at ? -1 : 1));
  }

  // Writing.

  /**
   * Open the dialog for a new message, or for one that waits.
   *
   * @param {string} text
   * @param {ScheduledMessage} [old]
   */
  write(text, old) {
    const words = wordsOf(this.#element);
    const title = old ? words.scheduled : words.sendLater;
    const at = old?.state === "pending" ? Date.parse(old.send_at) : Date.now() + HOUR_MS;
    const describe = () =>
      /** @type {[Child, Child]} */ ([title, h("div", { class: "account" }, form())]);
    const form = () => this.#form(text, at, old);
    this.#element.show({ kind: "other", name: "later", describe });
  }

  /**
   * @param {string} text
   * @param {number} at
   * @param {ScheduledMessage} [old]
   */
  #form(text, at, old) {
    const words = wordsOf(this.#element);
    const hasFiles = old ? old.attachments.length > 0 : !!this.#files;
    const submit = (/** @type {any} */ event) => {
      event.preventDefault();
      const form = new FormData(event.target);
      const send_at = new Date(String(form.get("at")));
      const content = String(form.get("content")).trim();
      if (!content && !hasFiles) return;
      void this.#save({ content, send_at: send_at.toISOString() }, old);
    };
    // What is typed later is the user's.
    const begin = (/** @type {any} */ field) => (field.value = text);
    return h("form", { onsubmit: submit }, [
      h("label", null, [
        words.message,
        h("textarea", { name: "content", required: !hasFiles, ref: begin }),
      ]),
      h("label", null, [
        words.sendAt,
        h("input", {
          name: "at",
          type: "datetime-local",
          defaultValue: localTime(at),
          min: localTime(Date.now() + MINUTE_MS),
          required: true,
        }),
      ]),
      h("button", { class: "main" }, old?.state === "pending" ? words.save : words.schedule),
    ]);
  }

  /**
   * @param {{content: string, send_at: string}} message
   * @param {ScheduledMessage} [old]
   */
  async #save(message, old) {
    const element = this.#element;
    const words = wordsOf(element);
    const save = async () => {
      if (!(Date.parse(message.send_at) > Date.now())) throw new Error(words.notInPast);
      if (old?.state === "pending")
        await this.#tidings.request("PATCH", `/v1/scheduled/${old.scheduled_id}`, message);
      else await this.#create(message, old);
    };
    const { opened } = element.dialogs;
    if (!(await element.dialogs.attempt(save(), (error) => this.#reasonOf(error)))) return;
    const when = moment(Date.parse(message.send_at), words);
    element.dialogs.close(opened);
    element.say(said(words.isScheduled, { when }));
  }

  /** The files that were chosen for the next message, if there are any. */
  get #files() {
    const { value } = this.#element.files;
    return value?.chosen.length ? value : null;
  }

  /** @param {any} error */
  #reasonOf({ code, message }) {
    return code === "scheduled.too_late" ? wordsOf(this.#element).tooLate : message;
  }

  /**
   * Schedule a message for the open chat, with what was chosen for its next message, or one that has
   * failed before.
   *
   * @param {{content: string, send_at: string}} message
   * @param {ScheduledMessage} [failed]
   */
  async #create({ content, send_at }, failed) {
    const element = this.#element;
    const chosen = failed ? {} : element.optionsFor(content);
    if (!failed && this.#files) {
      void this.#files.send(content, { ...chosen, sendAt: send_at });
      return element.sent();
    }
    const { ttlSeconds, replyTo, mentions, silent } = chosen;
    const options = { ttl_seconds: ttlSeconds, reply_to: replyTo, mentions, silent };
    const wish = { content, send_at, ...options, attachments: failed?.attachments };
    const path = `/v1/chats/${failed?.chat_id ?? element.chat}/messages`;
    const body = JSON.stringify([path, wish]);
    const isRepeat = body === this.#attempted.body;
    this.#attempted = { body, id: isRepeat ? this.#attempted.id : crypto.randomUUID() };
    const { view, text, answering } = element;
    await this.#tidings.request("POST", path, { ...wish, client_message_id: this.#attempted.id });
    if (failed) return;
    // The user may have gone on: what is written by now is another message.
    if (element.view === view && element.text === text) element.sent(answering);
    else if (view?.snapshot().draft === text) view.draft("");
    if (element.answering === answering) element.answering = null;
  }

  // Listing.

  /** Describe the messages of a chat, or of all chats. @param {string} chat */
  list(chat) {
    const words = wordsOf(this.#element);
    const all = this.#messages?.filter((one) => !chat || one.chat_id === chat);
    if (!all?.length)
      return h("p", { class: "faint", role: "status" }, all ? words.noScheduled : words.loading);
    const item = (/** @type {ScheduledMessage} */ one) => this.#one(one, !chat);
    return h("ul", { role: "list", "aria-label": words.scheduled }, all.map(item));
  }

  /**
   * @param {ScheduledMessage} message
   * @param {boolean} showsChat
   */
  #one(message, showsChat) {
    const { people } = this.#element;
    const words = wordsOf(this.#element);
    const record = showsChat ? this.#tidings.chats.record(message.chat_id) : null;
    const title = record ? people?.titleOf(record) : null;
    const isFailed = message.state === "failed";
    const change = () => this.write(message.content ?? "", message);
    return h("li", { class: "entry later", key: message.scheduled_id }, [
      h("span", { class: "grow lines" }, [
        h("span", { class: "faint" }, [
          moment(Date.parse(message.send_at), words),
          title && [" · ", h("bdi", null, title)],
        ]),
        h("span", { class: "few", dir: "auto" }, message.content ?? ""),
        message.attachments.length > 0 &&
          h("span", { class: "faint" }, said(words.fileCount, { n: message.attachments.length })),
        isFailed && h("span", { class: "warn" }, this.#why(message)),
      ]),
      h("button", { onclick: change }, isFailed ? words.retry : words.change),
      !isFailed &&
        h("button", { class: "warn", onclick: once(() => void this.#cancel(message)) }, [
          words.cancelScheduled,
        ]),
    ]);
  }

  /** @param {ScheduledMessage} message */
  #why({ code }) {
    const words = wordsOf(this.#element);
    const name = REASONS[/** @type {keyof typeof REASONS} */ (code)];
    return said(words.notSent, { why: name ? words[name] : (code ?? "") });
  }

  /** @param {ScheduledMessage} message */
  async #cancel({ scheduled_id }) {
    const cancelled = this.#tidings.request("DELETE", `/v1/scheduled/${scheduled_id}`);
    const reasonOf = (/** @type {any} */ error) => this.#reasonOf(error);
    if (await this.#element.dialogs.attempt(cancelled, reasonOf)) await this.load();
  }
}
