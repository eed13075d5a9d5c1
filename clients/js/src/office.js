// SPDX-License-Identifier: Apache-2.0
/** Answer the frames of other tabs, in the tab that leads, as if it were the server. */

import { keyOf } from "./outbox.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */
/** @typedef {import("./frames.js").ClientFrame} ClientFrame */
/** @typedef {import("./frames.js").Outgoing} Outgoing */
/** @typedef {import("./frames.js").ServerFrame} ServerFrame */
/** @typedef {(frame: ServerFrame) => void} Reply */

const HEARTBEAT_MS = 5_000;
/** If more entries than this are missing, the tab starts again at the newest page. */
const CATCH_UP_ENTRIES_MAX = 100;
const REPLIES_MAX = 10_000;

export class Office {
  #conversation;
  #clock;
  #news;
  /** Tabs that wait for the answer to a message, by the key of the message. */
  #waiting = /** @type {Map<string, {id: string, reply: Reply}>} */ (new Map());

  /**
   * @param {Conversation} conversation
   * @param {{now: () => number, wall: () => number}} clock
   * @param {() => ServerFrame[]} news - Returns the frames for a new tab.
   */
  constructor(conversation, clock, news) {
    this.#conversation = conversation;
    this.#clock = clock;
    this.#news = news;
  }

  /**
   * Handle a frame of another tab.
   *
   * @param {any} frame - Any client frame.
   * @param {Reply} reply
   */
  serve(frame, reply) {
    const now = this.#clock.now();
    const talk = this.#conversation;
    if (frame.op === "ping") reply({ op: "pong" });
    else if (frame.op === "hello") this.#hello(reply);
    else if (frame.op === "send") this.#send(frame, reply);
    else if (frame.op === "read") talk.read(frame.chat, frame.sequence);
    else if (frame.op === "typing") talk.typing(frame.chat, now);
    else if (frame.op === "follow") this.#follow(frame, reply);
    else if (frame.op === "fetch") {
      talk.ask({ ...frame, answer: (answer) => reply({ ...answer, id: frame.id }) }, now);
    }
  }

  /** @param {Reply} reply */
  #hello(reply) {
    const { isLive, user, epoch, device } = this.#conversation;
    // The tab says hello again, at the latest when this one is live, and does not take over.
    if (!isLive) return reply({ op: "pong" });
    const welcome = /** @type {any} */ ({ op: "welcome", user, epoch, device });
    reply({ ...welcome, heartbeat_ms: HEARTBEAT_MS });
    reply({ op: "heads", chats: this.#conversation.heads() });
    reply({ op: "live" });
    for (const frame of this.#news()) reply(frame);
  }

  /**
   * @param {any} frame
   * @param {Reply} reply
   */
  #send({ op: _, id, client_message_id, ...frame }, reply) {
    const { epoch } = this.#conversation;
    /** @type {Outgoing} */
    const message = { ...frame, id: client_message_id, epoch, createdAt: this.#clock.wall() };
    if (this.#waiting.size < REPLIES_MAX) this.#waiting.set(keyOf(message), { id, reply });
    this.#conversation.post(message, this.#clock.now());
  }

  /**
   * @param {any} frame
   * @param {Reply} reply
   */
  #follow({ chat, after }, reply) {
    this.#conversation.follow(chat);
    const head = this.#conversation.at(chat) ?? 0;
    if (head - after > CATCH_UP_ENTRIES_MAX) return reply({ op: "resync", chat, head });
    if (head <= after) return;
    const answer = (/** @type {any} */ page) => {
      for (const entry of page.entries ?? []) reply({ op: "entry", ...entry });
    };
    this.#conversation.ask({ chat, after, limit: CATCH_UP_ENTRIES_MAX, answer }, this.#clock.now());
  }

  /**
   * Answer the tab that sent a message.
   *
   * @param {Outgoing} message
   * @param {any} frame - The answer, with any `id`.
   */
  answer(message, frame) {
    const tab = this.#waiting.get(keyOf(message));
    this.#waiting.delete(keyOf(message));
    tab?.reply({ ...frame, id: tab.id });
  }
}
