// SPDX-License-Identifier: Apache-2.0
/** The parts of `<tidings-chat>` that are loaded at their first use, and what leads to them. */

import { hasUploads } from "../src/kept_uploads.js";
import { TidingsElement } from "./base.js";
import { Invitations } from "./invitations.js";
import { Lazy } from "./lazy.js";

/** @typedef {import("./account.js").Account} Account */
/** @typedef {import("./attachments.js").Attachments} Attachments */
/** @typedef {import("../src/tidings.js").Tidings} Tidings */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */

const NOTICE_MS = 4_000;

export class ChatParts extends TidingsElement {
  notice = "";
  /** The files of messages. @type {Lazy<Attachments>} */
  files = new Lazy(async () => Promise.reject());
  /** What belongs to the user and not to a chat. @type {Lazy<Account>} */
  account = new Lazy(async () => Promise.reject());
  invitations = /** @type {Invitations | null} */ (null);

  /** Begin with a client. @param {Tidings} tidings */
  prepare(tidings) {
    const element = /** @type {TidingsChat} */ (/** @type {unknown} */ (this));
    // From each folder of the server, the address leads to the same file.
    this.files = new Lazy(async () => {
      const { Attachments } = await import("../elements/attachments.js");
      return new Attachments(element, tidings, this.addStyle);
    });
    this.account = new Lazy(async () => {
      const { Account } = await import("../elements/account.js");
      return new Account(element, tidings, this.addStyle);
    });
    this.invitations = new Invitations(tidings, this.update);
    this.until(this.invitations.end);
    this.until(tidings.on((event) => this.#happens(event)));
    // Go on with what an earlier page could not finish.
    void hasUploads(tidings).then((found) => found && this.showFiles());
  }

  /** @param {import("../src/tidings.js").Event} event */
  async #happens(event) {
    if (event.type !== "frame" || event.frame.op !== "scheduled_failed") return;
    (await this.attempt(this.account.get()))?.failed();
  }

  /** Load the module that shows files, because a message has one. */
  showFiles() {
    void this.files.get().then(this.update, () => {});
  }

  /**
   * Choose files for the next message of a chat.
   *
   * @param {Iterable<File>} files
   * @param {string} chat
   */
  async attach(files, chat) {
    const chosen = [...files]; // the field that they come from is cleared meanwhile
    if (chosen.length) (await this.attempt(this.files.get()))?.add(chosen, chat);
  }

  /**
   * Return a listener that takes files out of a paste or a drop, if there are any.
   *
   * @param {string} chat
   */
  take = (chat) => (/** @type {any} */ event) => {
    const { files } = event.clipboardData ?? event.dataTransfer ?? {};
    if (!files?.length) return;
    event.preventDefault();
    void this.attach(files, chat);
  };

  /** Let files be dropped here. @param {any} event */
  hover = (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  };

  async record() {
    await (await this.attempt(this.files.get()))?.record();
  }

  /**
   * Show a dialog that is rarely needed.
   *
   * @param {import("./account.js").Name} name
   * @param {import("../src/rows.js").Row} [row] - The message to report.
   */
  async showAccount(name, row) {
    const element = /** @type {TidingsChat} */ (/** @type {unknown} */ (this));
    const { chat, dialogs } = element;
    const { opened } = dialogs;
    const account = await this.attempt(this.account.get());
    if (element.chat === chat && dialogs.opened === opened) account?.show(name, row);
  }

  // Telling.

  /**
   * Wait for something, and say so if it fails.
   *
   * @template T
   * @param {Promise<T> | undefined} work
   * @returns {Promise<T | undefined>}
   */
  async attempt(work) {
    try {
      return await work;
    } catch (error) {
      const isRefused = /** @type {Error} */ (error).name === "Refused";
      if (!this.tell("error", error)) return undefined;
      const { wentWrong, offline } = this.strings;
      this.say(isRefused ? /** @type {Error} */ (error).message || wentWrong : offline);
      return undefined;
    }
  }

  /** Show a short text for a moment. @param {string} text */
  say(text) {
    this.notice = text;
    this.update();
    setTimeout(() => {
      if (this.notice !== text) return;
      this.notice = "";
      this.update();
    }, NOTICE_MS);
  }
}
