// SPDX-License-Identifier: Apache-2.0
/**
 * Follow the log of each chat without gaps, as the protocol requires of a client. No I/O.
 *
 * The result for each chat is a series of steps. Entries are applied in order, without a gap, each
 * one once. `restart` means that the entries begin again at its `start`. `forget` means that the
 * chat is gone. If an entry cannot be applied now, because an earlier entry is missing, the chat is
 * behind: its missing entries are requested from the server.
 */

/** @typedef {import("./frames.js").Entry} Entry */

/**
 * @typedef {{step: "apply", entry: Entry} | {step: "restart", chat: string, start: number}
 *   | {step: "forget", chat: string}} Step
 */

/**
 * A missing part of a chat's log: the entries after `after`, or the newest before `before`.
 *
 * @typedef {{chat: string, after?: number, before?: number}} Want
 */

/** Number of entries per chat that are kept if they arrive too early; others are fetched again. */
const AHEAD_ENTRIES_MAX = 200;

/** The state of one chat. */
class ChatState {
  /** The sequence of the last applied entry; null if no valid entry was applied. */
  have = /** @type {number | null} */ (null);
  /** Whether the applied entries are from another epoch, so that a `restart` must follow. */
  isStale = false;
  /** The sequence of the last entry that is known to exist. */
  seen = 0;
  /** If set, the newest page, which ends here, must be loaded before anything is applied. */
  restartHead = /** @type {number | null} */ (null);
  ahead = /** @type {Map<number, Entry>} */ (new Map());
  /** Whether missing entries were requested, or must not be requested at the moment. */
  isAsked = false;

  /** @param {string} name */
  constructor(name) {
    this.name = name;
  }

  get isBehind() {
    return this.restartHead !== null || this.seen > (this.have ?? Infinity);
  }
}

/** The state of all chats of one user on one device. */
export class LogView {
  #chats = /** @type {Map<string, ChatState>} */ (new Map());
  #behind = /** @type {Map<string, ChatState>} */ (new Map());
  /** Sequences that exist beyond the entries that have arrived so far, by chat. */
  #told = /** @type {Map<string, number>} */ (new Map());
  /** Chats whose last fetch returned nothing, so that they are not fetched again at once. */
  #resting = /** @type {ChatState[]} */ ([]);

  /** @param {Iterable<readonly [string, number]>} held - The last applied entry of each chat. */
  constructor(held) {
    for (const [name, have] of held) {
      const chat = this.#chat(name);
      chat.have = chat.seen = have;
    }
  }

  /** Return the last applied entry of each chat, for hello. */
  have() {
    /** @type {Record<string, number>} */
    const have = {};
    for (const chat of this.#chats.values()) if (chat.have !== null) have[chat.name] = chat.have;
    return have;
  }

  /**
   * Return the last applied entry of a chat; null if there is none.
   *
   * @param {string} name
   */
  at(name) {
    return this.#chats.get(name)?.have ?? null;
  }

  /**
   * Return to the saved state, so that entries that were applied but not saved arrive again.
   *
   * @param {Iterable<readonly [string, number]>} held
   */
  rebase(held) {
    for (const [name, saved] of held) {
      const chat = this.#chats.get(name);
      if (chat && chat.have !== null) chat.have = Math.min(chat.have, saved);
    }
  }

  /** Treat all applied entries as invalid, because the epoch of the server has changed. */
  restarted() {
    for (const name of this.#chats.keys()) {
      const chat = new ChatState(name);
      chat.isStale = true;
      this.#chats.set(name, chat);
    }
    this.#clear();
  }

  /**
   * Handle `live`: the server has named all chats, so a stale chat without a name is gone.
   *
   * @returns {Step[]}
   */
  live() {
    const unheard = [...this.#chats.values()].filter((chat) => chat.isStale && !chat.isBehind);
    return unheard.flatMap((chat) => this.gone(chat.name));
  }

  /** Handle the loss of the connection: the next hello requests everything that is missing. */
  lost() {
    for (const chat of this.#chats.values()) {
      chat.ahead.clear();
      chat.seen = chat.have ?? 0;
      chat.restartHead = null;
      chat.isAsked = false;
    }
    this.#clear();
  }

  /**
   * Begin to follow a chat after a sequence, without its older entries.
   *
   * @param {string} name
   * @param {number} sequence
   */
  begin(name, sequence) {
    const chat = this.#chat(name);
    chat.have = sequence;
    chat.seen = Math.max(chat.seen, sequence);
    chat.isStale = false;
  }

  /**
   * Handle the name of a chat in `heads`: if the applied entries are from another epoch, begin
   * again after the head.
   *
   * @param {string} name
   * @param {number} head
   * @returns {Step[]}
   */
  named(name, head) {
    const chat = this.#chats.get(name);
    return chat?.isStale ? [this.#restart(chat, head + 1)] : [];
  }

  /**
   * Apply an entry if it is the next, and ignore it if it was applied. Otherwise the entries before
   * it are missing and must be fetched.
   *
   * @param {Entry} entry
   * @returns {Step[]}
   */
  take(entry) {
    const chat = this.#chat(entry.chat);
    chat.seen = Math.max(chat.seen, entry.sequence);
    if (chat.have === null && chat.restartHead === null) {
      return [
        ...(chat.isStale ? [this.#restart(chat, entry.sequence)] : []),
        ...this.#apply(chat, entry),
      ];
    }
    if (entry.sequence <= (chat.have ?? 0)) return [];
    if (this.#isNext(chat, entry.sequence)) return this.#apply(chat, entry);
    this.#keepAhead(chat, entry);
    this.#look(chat);
    return [];
  }

  /**
   * Apply an own message that was acknowledged, after all entries before it. These are usually on
   * their way, so they are not requested at once; see `settle`.
   *
   * @param {Entry} entry
   * @returns {Step[]}
   */
  takeOwn(entry) {
    const chat = this.#chat(entry.chat);
    if (entry.sequence <= (chat.have ?? 0)) return [];
    if (this.#isNext(chat, entry.sequence)) return this.take(entry);
    this.#keepAhead(chat, entry);
    this.told(entry.chat, entry.sequence);
    return [];
  }

  /**
   * Remember that an entry with this sequence exists, which the server may not send by itself.
   *
   * @param {string} name
   * @param {number} sequence
   */
  told(name, sequence) {
    this.#told.set(name, Math.max(sequence, this.#told.get(name) ?? 0));
  }

  /**
   * Mark overdue entries as missing. This is called twice a second on a
   * live connection.
   */
  settle() {
    for (const chat of this.#resting) chat.isAsked = false;
    this.#resting = [];
    for (const [name, sequence] of this.#told) {
      const chat = this.#chat(name);
      chat.seen = Math.max(chat.seen, sequence);
      if (chat.have === null) chat.restartHead ??= chat.seen;
      this.#look(chat);
    }
    this.#told.clear();
  }

  /**
   * Start again at the newest page; until it arrives, the applied entries stay valid.
   *
   * @param {string} name
   * @param {number} head
   */
  resync(name, head) {
    const chat = this.#chat(name);
    chat.ahead.clear();
    chat.restartHead = head;
    // A device that claims more than the log has must not wait for the rest.
    chat.seen = head < (chat.have ?? 0) ? head : Math.max(chat.seen, head);
    this.#look(chat);
  }

  /**
   * Forget a chat that is gone, or no longer the user's.
   *
   * @param {string} name
   * @returns {Step[]}
   */
  gone(name) {
    this.#behind.delete(name);
    this.#told.delete(name);
    return this.#chats.delete(name) ? [{ step: "forget", chat: name }] : [];
  }

  /**
   * Yield the missing parts to request; each only once until it is answered or refused.
   *
   * @returns {Generator<Want>}
   */
  *wants() {
    for (const chat of [...this.#behind.values()]) {
      if (chat.isAsked) continue;
      chat.isAsked = true;
      yield chat.restartHead === null
        ? { chat: chat.name, after: chat.have ?? 0 }
        : { chat: chat.name, before: chat.restartHead + 1 };
    }
  }

  /**
   * Apply the answer to a want.
   *
   * @param {Want} want
   * @param {Entry[]} entries
   * @param {number} head
   * @returns {Step[]}
   */
  page(want, entries, head) {
    const chat = this.#chats.get(want.chat);
    if (!chat) return [];
    /** @type {Step[]} */
    const steps = [];
    if (want.before) steps.push(this.#restart(chat, entries[0]?.sequence ?? head + 1));
    if (chat.restartHead === null) {
      for (const entry of entries) {
        if (this.#isNext(chat, entry.sequence)) steps.push(...this.#apply(chat, entry));
      }
    }
    chat.seen = Math.max(chat.seen, head);
    chat.isAsked = false;
    this.#look(chat);
    if (!steps.length) this.unanswered(want);
    return steps;
  }

  /**
   * Handle a want that got no entries; it is yielded again after the next `settle`.
   *
   * @param {Want} want
   */
  unanswered(want) {
    const chat = this.#chats.get(want.chat);
    if (!chat) return;
    chat.isAsked = true;
    this.#resting.push(chat);
  }

  /** @param {string} name */
  #chat(name) {
    let chat = this.#chats.get(name);
    if (!chat) this.#chats.set(name, (chat = new ChatState(name)));
    return chat;
  }

  /**
   * @param {ChatState} chat
   * @param {number} sequence
   */
  #isNext(chat, sequence) {
    return chat.restartHead === null && chat.have !== null && sequence === chat.have + 1;
  }

  /**
   * @param {ChatState} chat
   * @param {number} start
   * @returns {Step}
   */
  #restart(chat, start) {
    chat.have = start - 1;
    chat.isStale = false;
    chat.restartHead = null;
    return { step: "restart", chat: chat.name, start };
  }

  /**
   * Apply an entry, and the entries that arrived early and follow it.
   *
   * @param {ChatState} chat
   * @param {Entry} entry
   */
  #apply(chat, entry) {
    /** @type {Step[]} */
    const steps = [];
    /** @type {Entry | undefined} */
    let following = entry;
    while (following) {
      steps.push({ step: "apply", entry: following });
      chat.have = following.sequence;
      following = chat.ahead.get(chat.have + 1);
    }
    for (const early of chat.ahead.keys()) if (early <= (chat.have ?? 0)) chat.ahead.delete(early);
    this.#look(chat);
    return steps;
  }

  /**
   * @param {ChatState} chat
   * @param {Entry} entry
   */
  #keepAhead(chat, entry) {
    if (chat.ahead.size < AHEAD_ENTRIES_MAX) chat.ahead.set(entry.sequence, entry);
  }

  #clear() {
    this.#behind.clear();
    this.#told.clear();
    this.#resting = [];
  }

  /** @param {ChatState} chat */
  #look(chat) {
    if (chat.isBehind) this.#behind.set(chat.name, chat);
    else this.#behind.delete(chat.name);
  }
}
