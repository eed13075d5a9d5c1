// SPDX-License-Identifier: Apache-2.0
/**
 * The messages that are not answered yet, which are sent again with the same key. No I/O.
 *
 * The messages of a chat are sent in the order in which they were posted, one at a time, so that
 * they also arrive in this order.
 */

/** @typedef {import("./frames.js").Entry} Entry */
/** @typedef {import("./frames.js").Outgoing} Outgoing */
/** @typedef {import("./frames.js").ServerFrame} ServerFrame */

/**
 * Age at which messages are given up. The server forgets a key after seven days, so a later repeat
 * could become a second message.
 */
export const AGE_MS_MAX = 6 * 24 * 60 * 60 * 1_000;
const MESSAGES_MAX = 10_000;
const REST_MS_MIN = 500;
const REST_MS_MAX = 30_000;

/**
 * Return the key of a message in maps: a chat's name has no space.
 *
 * @param {{chat: string, id: string}} message
 */
export const keyOf = ({ chat, id }) => `${chat} ${id}`;

/** The queue of messages of one chat. */
class ChatQueue {
  waiting = /** @type {Outgoing[]} */ ([]);
  inFlight = /** @type {Outgoing | null} */ (null);
  /** Number of consecutive temporary refusals by the server. */
  refusals = 0;
  restsUntil = 0;
}

/** All messages without a final answer. */
export class Outbox {
  #random;
  #queues = /** @type {Map<string, ChatQueue>} */ (new Map());
  #messages = /** @type {Map<string, Outgoing>} */ (new Map());

  /** @param {() => number} random - Returns a number from 0 up to 1. */
  constructor(random) {
    this.#random = random;
  }

  get size() {
    return this.#messages.size;
  }

  /** @param {{chat: string, id: string}} key */
  has(key) {
    return this.#messages.has(keyOf(key));
  }

  /**
   * Add a message that is saved; return false if it is waiting already, or too many are.
   *
   * @param {Outgoing} message
   */
  add(message) {
    if (this.has(message) || this.size >= MESSAGES_MAX) return false;
    this.#messages.set(keyOf(message), message);
    this.#queue(message.chat).waiting.push(message);
    return true;
  }

  /**
   * Yield the messages to send now on an open connection, and mark them as in flight.
   *
   * @param {number} now
   * @returns {Generator<Outgoing>}
   */
  *due(now) {
    for (const queue of this.#queues.values()) {
      if (queue.restsUntil > now || queue.inFlight) continue;
      const message = queue.waiting.shift();
      if (message) yield (queue.inFlight = message);
    }
  }

  /**
   * Remove and return a message with a final answer; undefined if it was removed before.
   *
   * @param {{chat: string, id: string}} key
   */
  answered(key) {
    const message = this.#messages.get(keyOf(key));
    if (!message) return undefined;
    this.#messages.delete(keyOf(key));
    const queue = this.#queue(key.chat);
    if (queue.inFlight === message) queue.inFlight = null;
    else queue.waiting.splice(queue.waiting.indexOf(message), 1);
    queue.refusals = queue.restsUntil = 0;
    if (!queue.inFlight && !queue.waiting.length) this.#queues.delete(key.chat);
    return message;
  }

  /**
   * Handle a temporary refusal: pause the chat for some time, longer after each refusal.
   *
   * @param {{chat: string, id: string}} key
   * @param {number} now
   */
  refused(key, now) {
    const queue = this.#queues.get(key.chat);
    if (!queue?.inFlight || queue.inFlight.id !== key.id) return;
    queue.waiting.unshift(queue.inFlight);
    queue.inFlight = null;
    const longest = Math.min(REST_MS_MAX, REST_MS_MIN * 2 ** queue.refusals++);
    queue.restsUntil = now + this.#random() * longest;
  }

  /** Handle the loss of the connection: all messages in flight must be sent again. */
  lost() {
    for (const queue of this.#queues.values()) {
      if (queue.inFlight) queue.waiting.unshift(queue.inFlight);
      queue.inFlight = null;
    }
  }

  /**
   * Remove and return the messages that are too old to be sent.
   *
   * @param {number} wall - Milliseconds since 1970.
   */
  expired(wall) {
    const old = [...this.#messages.values()].filter((one) => one.createdAt < wall - AGE_MS_MAX);
    for (const message of old) this.answered(message);
    return old;
  }

  /** @param {string} chat */
  #queue(chat) {
    let queue = this.#queues.get(chat);
    if (!queue) this.#queues.set(chat, (queue = new ChatQueue()));
    return queue;
  }
}

/**
 * Return the log entry of an own message; its sender gets `sent` instead of the entry.
 *
 * @param {Outgoing} message
 * @param {string} sender
 * @param {Extract<ServerFrame, {op: "sent"}>} frame
 * @returns {Entry}
 */
export function ownEntry(message, sender, frame) {
  /** @type {Entry} */
  const entry = {
    chat: frame.chat,
    sequence: frame.sequence,
    kind: "message",
    sender,
    created_at: frame.created_at,
    message_id: frame.message_id,
    client_message_id: message.id,
    content: message.content,
    content_type: message.contentType ?? "text/plain",
  };
  if (message.ttlSeconds !== undefined) {
    const ends = Date.parse(frame.created_at) + message.ttlSeconds * 1_000;
    entry.expires_at = new Date(ends).toISOString();
  }
  return entry;
}

/**
 * Return the frame that sends a message.
 *
 * @param {Outgoing} message
 * @param {string} id - The id of the request.
 */
export const sendFrame = ({ chat, id: client_message_id, ...message }, id) => ({
  op: "send",
  id,
  chat,
  client_message_id,
  content: message.content,
  content_type: message.contentType,
  ttl_seconds: message.ttlSeconds,
});
