// SPDX-License-Identifier: Apache-2.0
/** Report to the server how far this device has received and the user has read. No I/O. */

/** @typedef {import("./frames.js").ClientFrame} ClientFrame */

/** After this many entries `received` is sent at once; otherwise it waits for the next tick. */
const RECEIVED_ENTRIES_MAX = 100;
/** Number of chats whose read marks are saved and repeated: those that were read most recently. */
const READ_MARKS_MAX = 200;

/** How far each chat was received and read, and how much of it was sent to the server. */
export class Receipts {
  /** The last received entry of each chat that was not sent yet. */
  #taken = /** @type {Map<string, number>} */ (new Map());
  /** The last entries that were sent on this connection; they may not have arrived. */
  #said = /** @type {Map<string, number>} */ (new Map());
  #reads;
  #count = 0;
  /** Whether an entry of another user is among those not sent, whose sender waits for it. */
  #isAwaited = false;

  /** @param {Iterable<readonly [string, number]>} reads - The saved read marks. */
  constructor(reads) {
    this.#reads = new Map(reads);
  }

  /**
   * Record that an entry was applied.
   *
   * @param {string} chat
   * @param {number} sequence
   * @param {boolean} isAwaited
   */
  taken(chat, sequence, isAwaited) {
    this.#taken.set(chat, sequence);
    this.#count += 1;
    this.#isAwaited ||= isAwaited;
  }

  /**
   * Return the frames to send now. At a tick, own messages alone are not worth a frame.
   *
   * @param {boolean} isTick
   * @returns {ClientFrame[]}
   */
  received(isTick) {
    if (!(isTick ? this.#isAwaited : this.#count >= RECEIVED_ENTRIES_MAX)) return [];
    const frames = [...this.#taken].map(([chat, sequence]) => ({ op: "received", chat, sequence }));
    for (const [chat, sequence] of this.#taken) this.#said.set(chat, sequence);
    this.#taken.clear();
    this.#count = 0;
    this.#isAwaited = false;
    return frames;
  }

  /**
   * Record that the user has read a chat up to a sequence; return whether that is news.
   *
   * @param {string} chat
   * @param {number} sequence
   */
  read(chat, sequence) {
    if (sequence <= (this.#reads.get(chat) ?? 0)) return false;
    this.#reads.delete(chat);
    this.#reads.set(chat, sequence);
    for (const old of [...this.#reads.keys()].slice(0, -READ_MARKS_MAX)) this.#reads.delete(old);
    return true;
  }

  /** Return the latest read marks, which are sent again whenever a connection becomes live. */
  marks() {
    return [...this.#reads].map(([chat, sequence]) => ({ op: "read", chat, sequence }));
  }

  /** Handle the loss of the connection: what was sent on it may not have arrived. */
  lost() {
    this.#taken = new Map([...this.#said, ...this.#taken]);
    this.#isAwaited = this.#taken.size > 0;
    this.#said = new Map();
  }

  /** @param {string} chat - A chat that is no longer the user's. */
  forget(chat) {
    for (const known of [this.#taken, this.#said, this.#reads]) known.delete(chat);
  }
}
