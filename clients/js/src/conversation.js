// SPDX-License-Identifier: Apache-2.0
/**
 * The client's half of the protocol: it turns received frames into frames and news. No I/O.
 *
 * A conversation outlives connections: `connected` gives it a connection, `lost` takes it away.
 */

import { WrongUser } from "./errors.js";
import { Heartbeat } from "./heartbeat.js";
import { InboxEvents } from "./inbox_events.js";
import { LogView } from "./log_view.js";
import { Outbox, ownEntry, sendFrame } from "./outbox.js";
import { Receipts } from "./receipts.js";
import { Requests, STOPPED } from "./requests.js";

/** @import { ClientFrame, Entry, Outgoing, ServerFrame } from "./frames.js" */
/** @import { Listener, SavedState } from "./listener.js" */
/** @import { Step } from "./log_view.js" */
/** @import { Question } from "./requests.js" */

const FETCHES_MAX = 4;
const FETCH_ENTRIES = 100;
const TYPING_MS_MIN = 3_000;

export class Conversation {
  isLive = false;
  device = "";
  #listener;
  #view;
  #outbox;
  #receipts;
  #requests = new Requests();
  #inboxes = new InboxEvents();
  #heartbeat = new Heartbeat(0);
  #say = /** @type {((frame: ClientFrame) => void) | null} */ (null);
  #isWelcome = false;
  /** The head of each chat, as far as the server has named it. */
  #heads = /** @type {Record<string, number>} */ ({});
  /** Chats whose entries the server sends on this connection. */
  #followed = /** @type {Set<string>} */ (new Set());
  #questions = /** @type {Question[]} */ ([]);
  #typedAt = /** @type {Map<string, number>} */ (new Map());

  /**
   * @param {SavedState} saved
   * @param {Listener} listener
   * @param {() => number} random - Returns a number from 0 up to 1.
   */
  constructor(saved, listener, random) {
    this.user = saved.user;
    this.epoch = saved.epoch;
    this.#listener = listener;
    this.#view = new LogView(saved.held);
    this.#receipts = new Receipts(saved.reads);
    this.#outbox = new Outbox(random);
  }

  /** Return the newest known entry of each chat. */
  heads() {
    return { ...this.#heads, ...this.#view.have() };
  }

  /** Return the last applied entry of a chat; null if there is none. @param {string} chat */
  at(chat) {
    return this.#view.at(chat);
  }

  /** Return to the saved state. @param {Iterable<readonly [string, number]>} held */
  rebase(held) {
    this.#view.rebase(held);
  }

  // The life of a connection.

  /**
   * Send hello on a new connection.
   *
   * @param {(frame: ClientFrame) => void} say - Sends a frame.
   * @param {Record<string, unknown>} hello - Further fields of hello.
   * @param {number} now
   */
  connected(say, hello, now) {
    this.#say = say;
    this.#heartbeat = new Heartbeat(now);
    const epoch = this.epoch ?? undefined;
    say({ op: "hello", ...hello, epoch, have: this.#view.have(), catch_up: "heads" });
  }

  /** Handle the loss of the connection. */
  lost() {
    this.#say = null;
    this.#isWelcome = this.isLive = false;
    this.#followed.clear();
    this.#questions.push(...this.#requests.lost());
    this.#view.lost();
    this.#receipts.lost();
    this.#outbox.lost();
  }

  /** Send the last `received` frames before the connection is closed. */
  leaving() {
    if (this.#isWelcome) this.#sayAll(this.#receipts.received(true));
  }

  /**
   * Do the regular work, twice a second; return whether the server seems to be gone.
   *
   * @param {number} now
   * @param {number} wall - Milliseconds since 1970.
   */
  tick(now, wall) {
    for (const message of this.#outbox.expired(wall))
      this.#listener.failed({ ...message, failed: { code: "send.expired", detail: "" } });
    if (!this.#say) return false;
    if (this.#requests.isOld(now) || !this.#beat(now)) return true;
    this.leaving();
    if (this.isLive) this.#view.settle();
    this.pump(now);
    return false;
  }

  /** Send a ping if one is due; return whether the server answers. @param {number} now */
  #beat(now) {
    const due = this.#heartbeat.tick(now);
    if (due === "ping") this.#say?.({ op: "ping" });
    return due !== "dead";
  }

  /** Answer the questions of the application, because the client is stopped. */
  end() {
    for (const { answer } of [...this.#requests.lost(), ...this.#questions]) answer(STOPPED);
  }

  // Calls of the application.

  /**
   * Add a saved message to the outbox.
   *
   * @param {Outgoing} message
   * @param {number} now
   */
  post(message, now) {
    this.#outbox.add(message);
    this.pump(now);
  }

  /** Take a message out of the outbox. @param {{chat: string, id: string}} key */
  discard(key) {
    this.#outbox.answered(key);
  }

  /**
   * Record and send that the user has read a chat up to a sequence; return whether that is news.
   *
   * @param {string} chat
   * @param {number} sequence
   */
  read(chat, sequence) {
    const isNews = this.#receipts.read(chat, sequence);
    if (isNews && this.#isWelcome) this.#say?.({ op: "read", chat, sequence });
    return isNews;
  }

  /**
   * Send that the user is typing, at most every three seconds and only while live.
   *
   * @param {string} chat
   * @param {number} now
   */
  typing(chat, now) {
    if (!this.isLive || now - (this.#typedAt.get(chat) ?? -TYPING_MS_MIN) < TYPING_MS_MIN) return;
    this.#typedAt.set(chat, now);
    this.#say?.({ op: "typing", chat });
  }

  /** @param {boolean} away - Whether nobody looks at this device. */
  away(away) {
    if (this.#isWelcome) this.#say?.({ op: "away", away });
  }

  /**
   * Get the entries of a chat from now on; its older ones are read in pages.
   *
   * @param {string} chat
   * @param {number} [head] - The head of the chat, if it is known from a page.
   */
  follow(chat, head = this.#heads[chat]) {
    if (this.#view.at(chat) === null) {
      if (head === undefined) return;
      this.#view.begin(chat, head);
    }
    if (!this.isLive || this.#followed.has(chat)) return;
    this.#followed.add(chat);
    this.#say?.({ op: "follow", chat, after: this.#view.at(chat) });
  }

  /**
   * Request a page from the server, now or when there is a connection.
   *
   * @param {Question} question
   * @param {number} now
   */
  ask(question, now) {
    this.#questions.push(question);
    this.pump(now);
  }

  // Frames of the server.

  /**
   * Handle a frame of the server. Throws `WrongUser` if the token belongs to another user than the
   * saved state.
   *
   * @param {ServerFrame} frame
   * @param {number} now
   */
  receive(frame, now) {
    this.#heartbeat.heard();
    switch (frame.op) {
      case "entry":
        this.#do(this.#view.take(frame));
        break;
      case "sent":
      case "page":
      case "refused":
        this.#answer(frame, now);
        break;
      case "welcome":
        this.#welcome(frame, now);
        break;
      case "live":
        this.#live();
        break;
      case "heads":
        Object.assign(this.#heads, frame.chats);
        for (const [chat, head] of Object.entries(frame.chats)) {
          // The server names only chats that are not followed: it may have refused to follow this.
          this.#followed.delete(chat);
          this.#do(this.#view.named(chat, head));
        }
        this.#listener.heads(frame.chats);
        break;
      case "resync":
        this.#view.resync(frame.chat, frame.head);
        break;
      case "gone":
        this.#do(this.#view.gone(frame.chat));
        break;
      case "notification":
      case "retracted":
        if (this.#inboxes.take(frame)) this.#listener.notice(frame);
        break;
      case "pong":
        this.#beat(now);
        break;
      default:
        this.#listener.notice(frame);
    }
    this.pump(now);
  }

  /**
   * @param {Extract<ServerFrame, {op: "welcome"}>} frame
   * @param {number} now
   */
  #welcome(frame, now) {
    if (this.user && this.user !== frame.user) throw new WrongUser();
    const isNew = frame.epoch !== this.epoch;
    if (isNew) {
      // A restored server may use the ids of notifications again.
      this.#inboxes = new InboxEvents();
      if (this.epoch) {
        this.#view.restarted();
        this.#receipts = new Receipts([]);
      }
    }
    this.#heads = {};
    this.user = frame.user;
    this.epoch = frame.epoch;
    this.device = frame.device;
    this.#isWelcome = true;
    this.#heartbeat.welcomed(now, frame.heartbeat_ms);
    this.#listener.welcome(frame.user, frame.epoch, isNew);
  }

  #live() {
    this.isLive = true;
    for (const chat of Object.keys(this.#view.have())) this.follow(chat);
    this.#do(this.#view.live());
    this.#sayAll(this.#receipts.marks());
    this.#listener.live();
  }

  /**
   * @param {Extract<ServerFrame, {op: "sent" | "page" | "refused"}>} frame
   * @param {number} now
   */
  #answer(frame, now) {
    const { message, want, question } = this.#requests.answered(frame.id) ?? {};
    if (frame.op === "sent") {
      if (message) this.#sent(message, frame);
      else this.#view.told(frame.chat, frame.sequence);
    } else if (question) question.answer(frame);
    else if (want) {
      if (frame.op === "page") this.#do(this.#view.page(want, frame.entries, frame.head));
      else if (frame.code === "chat.not_found") this.#do(this.#view.gone(want.chat));
      else this.#view.unanswered(want);
    } else if (message && frame.op === "refused") this.#refused(message, frame, now);
  }

  /**
   * @param {Outgoing} message
   * @param {Extract<ServerFrame, {op: "sent"}>} frame
   */
  #sent(message, frame) {
    if (this.#outbox.answered(message)) this.#listener.sent(message, frame);
    this.#do(this.#view.takeOwn(ownEntry(message, this.user ?? "", frame)));
  }

  /**
   * @param {Outgoing} message
   * @param {Extract<ServerFrame, {op: "refused"}>} frame
   * @param {number} now
   */
  #refused(message, { code, detail, retryable }, now) {
    if (retryable) this.#outbox.refused(message, now);
    else if (this.#outbox.answered(message)) {
      this.#listener.failed({ ...message, failed: { code, detail } });
    }
  }

  /** @param {Step[]} steps */
  #do(steps) {
    for (const step of steps) {
      if (step.step === "apply") this.#apply(step.entry);
      else if (step.step === "restart") this.#listener.restarted(step.chat, step.start);
      else {
        this.#receipts.forget(step.chat);
        this.#listener.forgotten(step.chat);
      }
    }
  }

  /** @param {Entry} entry */
  #apply(entry) {
    const isOwn = entry.sender === this.user;
    if (isOwn && entry.client_message_id) {
      // The entry confirms a message whose answer was lost with the connection.
      const message = this.#outbox.answered({ chat: entry.chat, id: entry.client_message_id });
      if (message) this.#listener.sent(message, /** @type {any} */ (entry));
    }
    this.#receipts.taken(entry.chat, entry.sequence, !isOwn);
    if (this.#isWelcome) this.#sayAll(this.#receipts.received(false));
    this.#listener.applied(entry);
  }

  // Frames to the server.

  /** Send everything that can be sent now. @param {number} now */
  pump(now) {
    if (!this.#isWelcome) return;
    for (const message of this.#outbox.due(now)) {
      this.#say?.(sendFrame(message, this.#requests.ask({ message }, now), this.epoch));
    }
    for (const question of this.#questions.splice(0)) {
      const { answer: _, ...part } = question;
      this.#say?.({ ...part, op: "fetch", id: this.#requests.ask({ question }, now) });
    }
    if (this.#requests.fetches < FETCHES_MAX) this.#fetch(now);
  }

  /** @param {number} now */
  #fetch(now) {
    for (const want of this.#view.wants()) {
      this.#say?.({
        ...want,
        limit: FETCH_ENTRIES,
        op: "fetch",
        id: this.#requests.ask({ want }, now),
      });
      if (this.#requests.fetches >= FETCHES_MAX) return;
    }
  }

  /** @param {ClientFrame[]} frames */
  #sayAll(frames) {
    for (const frame of frames) this.#say?.(frame);
  }
}
