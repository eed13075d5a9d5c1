// SPDX-License-Identifier: Apache-2.0
/** The messages of the user that are not in the log yet: kept, sent, and shown. */

import { Refused } from "./errors.js";
import { keyOf, ownEntry } from "./outbox.js";
import { rowOf } from "./rows.js";

/** @typedef {import("./listener.js").Place} Place */
/** @typedef {import("./frames.js").Outgoing} Outgoing */
/** @typedef {import("./rows.js").Row} Row */
/** @typedef {{chat: string, id: string}} Key */

const CONTENT_BYTES_MAX = 4_096;
const DISCARDED = "send.discarded";

/** @typedef {{resolve: (place: Place) => void, reject: (error: Error) => void}} Answer */

export class Sending {
  #messages = /** @type {Map<string, Outgoing>} */ (new Map());
  #answers = /** @type {Map<string, Answer>} */ (new Map());
  #journal;
  #clock;
  #events;
  #lastAt = 0;

  /**
   * @param {import("./journal.js").Journal} journal
   * @param {{wall: () => number}} clock
   * @param {{post: (message: Outgoing) => void, discard: (key: Key) => void,
   *   discarded: (key: Key) => void, changed: (chat: string) => void,
   *   seen: (chat: string) => Pick<Outgoing, "after" | "epoch">}} events
   */
  constructor(journal, clock, events) {
    this.#journal = journal;
    this.#clock = clock;
    this.#events = events;
  }

  /** Number of messages that are on their way. */
  get queued() {
    return [...this.#messages.values()].filter((message) => !message.failed).length;
  }

  /**
   * Take over the saved messages of an earlier page, or of a tab that was closed.
   *
   * @param {Outgoing[]} saved
   */
  adopt(saved) {
    for (const message of saved) {
      if (!this.#messages.has(keyOf(message))) this.#messages.set(keyOf(message), message);
    }
    for (const message of this.#messages.values()) if (!message.failed) this.#events.post(message);
  }

  /**
   * @param {Omit<Outgoing, "id" | "createdAt" | "failed"> & {id?: string | undefined}} options
   * @returns {{id: string, done: Promise<Place>}}
   */
  send(options) {
    const size = new TextEncoder().encode(options.content).length;
    // The server would close the connection for a frame that is far too large, each time.
    if (size > CONTENT_BYTES_MAX) throw new Refused("content.too_large");
    // A reload sorts unsent messages by this time, so no two of them have the same.
    const createdAt = (this.#lastAt = Math.max(this.#clock.wall(), this.#lastAt + 1));
    // The page may send its own id again after a reload, without knowing what it had seen. The server
    // then recognises the message only if it has stored the id.
    const { id = crypto.randomUUID() } = options;
    const message = {
      ...options,
      ...(!options.id && this.#events.seen(options.chat)),
      id,
      createdAt,
    };
    const done = new Promise((resolve, reject) => {
      this.#answers.set(keyOf(message), { resolve, reject });
    });
    done.catch(() => {}); // if nobody waits for it, the row shows the failure
    void this.#store(message);
    return { id, done };
  }

  /**
   * Send a failed message again.
   *
   * @param {string} chat
   * @param {string} id
   */
  retry(chat, id) {
    const message = this.#messages.get(keyOf({ chat, id }));
    if (!message?.failed) return;
    this.discard(chat, id);
    const { failed: _, id: __, ...rest } = message;
    // It gets a new id, because the server may have refused the old one for good.
    this.send(rest);
  }

  /**
   * Delete a message that failed, or that was not sent yet.
   *
   * @param {string} chat
   * @param {string} id
   */
  discard(chat, id) {
    this.#events.discarded({ chat, id });
    this.drop({ chat, id });
  }

  /** @param {Key} key - A message that this tab or another one has discarded. */
  drop(key) {
    this.#events.discard(key);
    this.#settle(key)?.reject(new Refused(DISCARDED));
  }

  /**
   * @param {Outgoing} message
   * @param {Place} place
   */
  sent(message, place) {
    this.#settle(message)?.resolve(place);
  }

  /**
   * Keep a message that will not be sent by itself, for the user to decide; return whether it is
   * one of this tab.
   *
   * @param {Outgoing} message
   */
  failed(message) {
    const key = keyOf(message);
    if (!this.#messages.has(key) || !message.failed) return false;
    this.#messages.set(key, message);
    this.#journal.changes.outbox.set(key, message);
    this.#answers.get(key)?.reject(new Refused(message.failed.code, message.failed.detail));
    this.#events.changed(message.chat);
    return true;
  }

  forget() {
    for (const { reject } of this.#answers.values()) reject(new Refused(DISCARDED));
    this.#messages.clear();
    this.#answers.clear();
  }

  /**
   * Return the rows of a chat's messages that are not in the log yet.
   *
   * @param {string} chat
   * @param {string} sender
   * @returns {Row[]}
   */
  rows(chat, sender) {
    const mine = [...this.#messages.values()].filter((message) => message.chat === chat);
    return mine.map((message) => ({
      ...rowOf(ownEntry(message, sender)),
      error: message.failed,
      state: message.failed ? "failed" : "pending",
    }));
  }

  /** @param {Outgoing} message */
  async #store(message) {
    this.#messages.set(keyOf(message), message);
    this.#events.changed(message.chat);
    this.#journal.changes.outbox.set(keyOf(message), message);
    await this.#journal.flush();
    if (this.#messages.has(keyOf(message))) this.#events.post(message);
  }

  /**
   * Remove a message from all lists; return the caller that waits for it.
   *
   * @param {Key} message
   */
  #settle(message) {
    const key = keyOf(message);
    const answer = this.#answers.get(key);
    this.#messages.delete(key);
    this.#answers.delete(key);
    this.#journal.changes.outbox.set(key, null);
    this.#events.changed(message.chat);
    return answer;
  }
}
