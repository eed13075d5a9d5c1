// SPDX-License-Identifier: Apache-2.0
/** What several tests need. */

/**
 * Return a repeatable source of numbers from 0 up to 1.
 *
 * @param {number} seed
 */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Return an entry with a message.
 *
 * @param {number} sequence
 * @param {Partial<import("../src/frames.js").Entry>} [fields]
 * @returns {import("../src/frames.js").Entry}
 */
export function message(sequence, fields = {}) {
  return {
    chat: "c",
    sequence,
    kind: "message",
    sender: "bob",
    created_at: "2026-11-16T10:00:00.000Z",
    message_id: `c.${sequence}`,
    client_message_id: `m${sequence}`,
    content: `text ${sequence}`,
    content_type: "text/plain",
    ...fields,
  };
}

/** A conversation's listener that writes down what it is told. */
export class Diary {
  /** @type {any[]} */
  lines = [];
  /** @type {(message: any, place: any) => void} */
  sent = (message, place) => this.lines.push(["sent", message.id, place.sequence]);
  /** @type {(message: any) => void} */
  failed = (message) => this.lines.push(["failed", message.id, message.failed.code]);
  welcome = (
    /** @type {string} */ user,
    /** @type {string} */ epoch,
    /** @type {boolean} */ isNew,
  ) => this.lines.push(["welcome", user, epoch, isNew]);
  live = () => this.lines.push(["live"]);
  applied = (/** @type {any} */ entry) => this.lines.push(["applied", entry.chat, entry.sequence]);
  restarted = (/** @type {string} */ chat, /** @type {number} */ start) =>
    this.lines.push(["restarted", chat, start]);
  forgotten = (/** @type {string} */ chat) => this.lines.push(["forgotten", chat]);
  heads = (/** @type {any} */ heads) => this.lines.push(["heads", heads]);
  notice = (/** @type {any} */ frame) => this.lines.push(["notice", frame.op]);

  /** Return what was written since the last call. */
  take() {
    return this.lines.splice(0);
  }
}
