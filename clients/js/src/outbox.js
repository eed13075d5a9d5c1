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

  /**
   * Add a message that is saved, unless it is waiting already or too many are.
   *
   * @param {Outgoing} message
   */
  add(message) {
    const key = keyOf(message);
    if (this.#messages.has(key) || this.#messages.size >= MESSAGES_MAX) return;
    this.#messages.set(key, message);
    this.#queue(message.chat).waiting.push(message);
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
    if (queue?.inFlight?.id !== key.id) return;
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
 * Return the log entry of an own message: before it is in the log, with the sequence 0, or from
 * `sent`, which its sender gets instead of the entry.
 *
 * @param {Outgoing} outgoing
 * @param {string} sender
 * @param {import("./listener.js").Place} [place]
 * @returns {Entry}
 */
export function ownEntry(outgoing, sender, place) {
  const { id, createdAt, failed: _, after: __, epoch: ___, ttl_seconds, ...message } = outgoing;
  const time = (/** @type {number} */ at) => new Date(at).toISOString();
  const { sequence = 0, message_id, created_at = time(createdAt) } = place ?? {};
  return {
    ...message,
    ...{ sequence, kind: "message", sender, created_at, message_id, client_message_id: id },
    content_type: message.content_type ?? "text/plain",
    expires_at: ttl_seconds ? time(Date.parse(created_at) + ttl_seconds * 1_000) : undefined,
  };
}

/**
 * Return the frame that sends a message.
 *
 * @param {Outgoing} message
 * @param {string} id - The id of the request.
 * @param {string | null} epoch - The epoch of the server. In another one, `after` means nothing.
 */
export const sendFrame = (
  { id: client_message_id, createdAt: _, failed: __, epoch: then, after, ...message },
  id,
  epoch,
) => ({
  ...message,
  op: "send",
  id,
  client_message_id,
  after: then === epoch ? after : after && 0,
});
