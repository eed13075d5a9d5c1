// SPDX-License-Identifier: Apache-2.0
/** The parts of a client and how they work together. Pages use `Tidings`, views use this. */

import { Backoff } from "./backoff.js";
import { Cache } from "./cache.js";
import { socketTo } from "./connection.js";
import { Conversation } from "./conversation.js";
import { SignedOut, WrongUser } from "./errors.js";
import { Events } from "./events.js";
import { Journal } from "./journal.js";
import { Keeper } from "./keeper.js";
import { Office } from "./office.js";
import { answerTo, STOPPED } from "./requests.js";
import { Rest } from "./rest.js";
import { without } from "./rows.js";
import { Sending } from "./sending.js";
import { indexedDb, memory, reserve } from "./storage.js";
import { sayToTabs, Tabs } from "./tabs.js";
import { Tokens } from "./tokens.js";
import { View } from "./view.js";
import { Views } from "./views.js";

/** @typedef {import("./frames.js").ServerFrame} ServerFrame */
/** @typedef {Extract<ServerFrame, {op: "erased"}>} Erased */
/** @import { Options, StateSnapshot } from "./tidings.js" */

const SWEEP_MS = 60_000;
const CLIENT = "tidings-js/0.1.0";

export class Core {
  user = /** @type {string | null} */ (null);
  drafts = /** @type {Map<string, string>} */ (new Map());
  #error = /** @type {unknown} */ (null);
  events = new Events();
  #options;
  #storage;
  #journal;
  #meta = /** @type {import("./storage.js").Meta | null} */ (null);
  #conversation = /** @type {Conversation | null} */ (null);
  #keeper = /** @type {Keeper | null} */ (null);
  #office = /** @type {Office | null} */ (null);
  #tabs = /** @type {Tabs | null} */ (null);
  #starting = /** @type {Promise<void> | null} */ (null);
  /** Number of times that the client was stopped. */
  #runs = 0;
  /** What requests of views belong to; null while the user is signed out. @type {object | null} */
  #session = {};
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #sweeping;
  /** Erasures whose content may still be on its way. @type {Erased[]} */
  #erasures = [];

  /** @param {string} url @param {Options} options */
  constructor(url, options) {
    this.url = url.replace(/\/+$/, "");
    this.#options = options;
    this.clock = options.clock ?? {
      now: () => performance.now(),
      wall: Date.now,
      random: Math.random,
    };
    const storage = options.storage ?? (globalThis.indexedDB ? indexedDb(this.name) : memory());
    this.#storage = reserve(storage, () => this.state.changed());
    this.#journal = new Journal(this.#storage);
    this.tokens = new Tokens(options.token, this.clock.wall);
    /** @type {typeof fetch} */
    const fetcher = options.fetch ?? ((...request) => globalThis.fetch(...request));
    this.rest = new Rest(this.url, this.tokens, fetcher);
    this.cache = new Cache(this.#storage, this.#journal, this.clock, () => this.leads);
    this.sending = new Sending(this.#journal, this.clock, {
      post: (message) => void this.#conversation?.post(message, this.clock.now()),
      discard: (key) => this.#conversation?.discard(key),
      discarded: (key) => this.#tabs?.tell({ discarded: key }),
      changed: (chat) => this.chatChanged(chat),
      seen: (chat) => ({
        after: (this.isLive && this.at(chat)) || undefined,
        epoch: this.#conversation?.epoch,
      }),
    });
    this.views = new Views(this);
    /** @type {View<StateSnapshot>} */
    this.state = new View(() => ({
      connection: this.#keeper?.state ?? "stopped",
      user: this.user,
      queued: this.sending.queued,
      storage: this.#storage.kind,
      leads: this.leads,
      error: this.#error,
    }));
  }

  /** The name of what this browser keeps of the user. */
  get name() {
    return `tidings ${this.#options.name ?? this.url}`;
  }

  get #sharesTabs() {
    return this.#options.tabs !== "each" && globalThis.navigator?.locks;
  }

  // Starting and stopping.

  start() {
    return (this.#starting ??= this.#start());
  }

  async #start() {
    const run = this.#runs;
    const saved = await this.#storage.load();
    if (this.#runs !== run) return; // stopped meanwhile
    this.#session ??= {};
    this.#meta = saved.meta;
    this.user = saved.meta.user;
    this.#error = null;
    this.drafts = new Map(saved.drafts);
    const state = { ...saved.meta, held: this.#hold(saved), reads: saved.reads };
    this.#conversation = new Conversation(state, this.#listener(), this.clock.random);
    this.#office = new Office(this.#conversation, this.clock, () => this.views.news());
    const events = {
      changed: () => this.state.changed(),
      trouble: (/** @type {unknown} */ error) => this.#trouble(error),
    };
    const backoff = new Backoff(this.clock.random);
    const hello = () => this.#hello();
    this.#keeper = new Keeper(this.#conversation, this.tokens, backoff, this.clock, hello, events);
    this.#sweeping = setInterval(() => this.#sweep(), SWEEP_MS);
    this.sending.adopt(saved.outbox);
    if (this.#sharesTabs) this.#share();
    else this.#lead(true);
  }

  /** Use the saved logs; return the last entry of each. @param {import("./storage.js").Saved} saved */
  #hold({ ranges }) {
    this.cache.ranges = new Map(ranges.map((range) => [range.chat, range]));
    return ranges.map(({ chat, have }) => /** @type {const} */ ([chat, have]));
  }

  #share() {
    this.#tabs = new Tabs(this.name, {
      leads: (leads) => this.#lead(leads),
      serve: (frame, reply) => this.#office?.serve(frame, reply),
      discarded: (key) => this.sending.drop(key),
      signedOut: () => this.#forget(),
    });
    this.#keeper?.use(this.#tabs.connect);
  }

  /** @param {boolean} leads - Whether this tab has the socket now. */
  #lead(leads) {
    if (leads) void this.#takeOver();
    else this.#keeper?.use(this.#tabs?.connect ?? null);
  }

  /**
   * Open the socket, and continue from the saved state of the tab that had it before. Entries that
   * this tab applied but did not save are requested again, and its unsent messages are sent.
   */
  async #takeOver() {
    const run = this.#runs;
    this.#keeper?.use(null);
    const saved = await this.#storage.load();
    if (!this.leads || this.#runs !== run) return;
    this.#conversation?.rebase(this.#hold(saved));
    const { WebSocket: Socket = globalThis.WebSocket } = this.#options;
    this.#keeper?.use(socketTo(this.url, Socket));
    this.sending.adopt(saved.outbox);
  }

  async stop() {
    this.#end();
    await this.#journal.flush();
    this.#storage.close();
  }

  #end() {
    this.#runs += 1;
    this.#starting = null;
    clearInterval(this.#sweeping);
    this.#keeper?.use(null);
    this.#conversation?.end();
    this.#conversation = null;
    this.#tabs?.close();
    this.#tabs = null;
  }

  /** Stop, and delete everything that this browser has kept. */
  signOut() {
    const forgotten = this.#forget();
    // Also a client that was not started has other tabs. Its own part in them has just ended.
    if (this.#sharesTabs) sayToTabs(this.name, { about: "signed-out" });
    return forgotten;
  }

  async #forget() {
    this.#end();
    this.sending.forget();
    for (const part of [this.cache.ranges, this.drafts, this.views]) part.clear();
    this.user = this.#session = null;
    this.#erasures = [];
    await this.#journal.drop();
    await this.#storage.wipe();
    this.events.emit({ type: "signed-out" });
    this.state.changed();
  }

  /** @param {unknown} error */
  async #trouble(error) {
    if (error instanceof WrongUser) {
      // The saved state belongs to another user of this browser.
      await this.#forget();
      return this.start();
    }
    this.#error = error;
    if (error instanceof SignedOut) await this.#forget();
    this.state.changed();
  }

  #hello() {
    return {
      device: this.#options.device ?? this.#meta?.device,
      client: this.#options.client ?? CLIENT,
      erasures: this.#meta?.erasures ?? 0,
      totals: true,
    };
  }

  async #sweep() {
    const erasures = this.#erasures.splice(0);
    const last = erasures.at(-1);
    for (const frame of erasures) await this.#erase(frame);
    if (!this.#meta || !this.#conversation || !this.leads) return;
    if (last) this.#journal.changes.meta = this.#meta = { ...this.#meta, erasures: last.n };
    await this.cache.sweep();
    await this.#adopt();
  }

  /** Send the messages that other tabs kept, because they were closed before they sent them. */
  async #adopt() {
    await this.#journal.flush();
    const { outbox } = await this.#storage.load();
    if (this.leads && this.#conversation) this.sending.adopt(outbox);
  }

  // News of the conversation.

  /** @returns {import("./listener.js").Listener} */
  #listener() {
    return {
      welcome: (user, epoch, isNew) => {
        this.user = user;
        if (isNew && this.#meta)
          this.#journal.changes.meta = this.#meta = { ...this.#meta, user, epoch };
      },
      live: () => {
        this.views.live();
        if (!this.leads) return;
        this.#tabs?.tell({ about: "leads" });
        if (globalThis.document?.hidden) this.#conversation?.away(true);
        void this.#adopt();
      },
      applied: (entry) => {
        const isOwn = entry.sender === this.user;
        this.broadcast({ op: "entry", ...entry });
        this.cache.add(entry);
        this.views.applied(entry, isOwn);
        this.events.emit({ type: "entry", entry, isOwn });
      },
      restarted: (chat, start) => this.#restarted(chat, start),
      forgotten: (chat) => {
        this.cache.drop(chat);
        this.broadcast({ op: "gone", chat });
        this.views.forgotten(chat);
      },
      heads: (chats) => {
        this.broadcast({ op: "heads", chats });
        for (const chat of Object.keys(chats)) this.views.named(chat);
      },
      notice: (frame) => this.#notice(frame),
      sent: (message, place) => {
        this.#office?.answer(message, { ...place, op: "sent", chat: message.chat });
        this.sending.sent(message, place);
      },
      failed: (message) => {
        this.#office?.answer(message, { op: "refused", retryable: false, ...message.failed });
        if (this.sending.failed(message)) this.events.emit({ type: "failed", message });
      },
    };
  }

  /** @param {string} chat @param {number} start */
  #restarted(chat, start) {
    this.cache.drop(chat);
    this.broadcast({ op: "resync", chat, head: start - 1 });
    this.views.restarted(chat);
  }

  /** @param {ServerFrame} frame */
  #notice(frame) {
    this.broadcast(frame);
    this.views.notice(frame);
    this.events.emit({ type: "frame", frame });
    if (frame.op === "erased") {
      // Erased content may already be on its way here, so the next sweep looks again.
      this.#erasures.push(frame);
      void this.#erase(frame);
      if (!frame.all) return;
    } else if (frame.op !== "chat_changed" || frame.chat) return;
    // Too many authors were erased, or the user blocks somebody: everything is loaded again.
    this.views.replace((row) => (frame.op === "erased" ? without(row, frame.op) : row));
    for (const chat of this.cache.ranges.keys()) this.#restarted(chat, (this.at(chat) ?? 0) + 1);
  }

  /** @param {Erased} frame */
  async #erase(frame) {
    if (!frame.all) this.views.replace(await this.cache.erase(frame, this.views.senders));
  }

  // Functions for views.

  /** Whether this tab has the socket. */
  get leads() {
    return this.#tabs?.leads ?? true;
  }

  get isLive() {
    return !!this.#conversation?.isLive;
  }

  /** @param {ServerFrame} frame - A frame for the other tabs. */
  broadcast(frame) {
    this.#tabs?.broadcast(frame);
  }

  /** @param {string} chat */
  at(chat) {
    return this.#conversation?.at(chat);
  }

  /** @param {string} chat @param {number} [head] */
  follow(chat, head) {
    this.#conversation?.follow(chat, head);
  }

  /**
   * Ask the server for a part of a log; this waits for a connection if there is none.
   *
   * @param {{chat: string, after?: number, before?: number, limit: number}} part
   */
  ask(part) {
    return answerTo(part, (question) => {
      if (!this.#conversation) return question.answer(STOPPED);
      this.#conversation.ask(question, this.clock.now());
    });
  }

  /** Ask for a view; reject if the user is signed out, or signs out before the answer. */
  async request(/** @type {Parameters<Rest["request"]>} */ ...given) {
    const session = this.#session;
    const answer = session && (await this.rest.request(...given));
    if (session && session === this.#session) return answer;
    throw new SignedOut();
  }

  /** @param {string} chat */
  chatChanged(chat) {
    this.views.changed(chat);
    this.state.changed();
  }

  /** @param {string} chat @param {number} sequence */
  read(chat, sequence) {
    if (!this.#conversation?.read(chat, sequence)) return;
    this.#journal.changes.reads.set(chat, sequence);
    if (sequence >= (this.at(chat) ?? 0))
      this.views.chats.unread({ chat, unread: 0, unread_exact: true, unread_mentions: 0 });
  }

  /** @param {string} chat */
  typing(chat) {
    this.#conversation?.typing(chat, this.clock.now());
  }

  /** @param {string} chat @param {string} text */
  draft(chat, text) {
    if (text) this.drafts.set(chat, text);
    else this.drafts.delete(chat);
    this.#journal.changes.drafts.set(chat, text || null);
  }

  /** Handle that the page came to the front or went to the back, or that the network came back. */
  woken() {
    const hidden = !!globalThis.document?.hidden;
    this.#conversation?.away(hidden);
    this.#tabs?.seen();
    if (!hidden) this.#keeper?.wake();
  }
}
