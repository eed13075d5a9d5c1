// SPDX-License-Identifier: Apache-2.0
/** The client that a page uses: live views of chats and inboxes, and the messages it sends. */

import { Core } from "./core.js";

/**
 * @typedef {object} Options
 * @property {() => Promise<string> | string} token - Returns a new token. It is called at the
 *   start, before the token expires, and when the server refuses it. It may throw `SignedOut`. A
 *   provider that takes more than 30 seconds is asked again later.
 * @property {import("./storage.js").Storage} [storage] - By default IndexedDB where there is one.
 * @property {"share" | "each"} [tabs] - Whether all tabs share one socket; by default they do.
 * @property {string} [name] - The name of what this browser keeps and shares between tabs; by default
 *   the server's. Two users at once need two names.
 * @property {string} [device] - The name of this device; by default a random one per browser.
 * @property {string} [client] - The name and version of the application, such as `shop/2.1`.
 * @property {typeof WebSocket} [WebSocket]
 * @property {typeof fetch} [fetch]
 * @property {Clock} [clock]
 */

/** @typedef {{now: () => number, wall: () => number, random: () => number}} Clock */

/**
 * @typedef {object} StateSnapshot
 * @property {import("./keeper.js").ConnectionState} connection
 * @property {string | null} user
 * @property {number} queued - Messages that are not in the log yet.
 * @property {string} storage - `memory` if the browser's database has failed.
 * @property {boolean} leads - Whether this tab has the socket.
 * @property {unknown} error - Why the client has stopped by itself.
 */

/**
 * An event, for applications that react to it once. Views show the current state.
 *
 * @typedef {{type: "entry", entry: import("./frames.js").Entry, isOwn: boolean}
 *   | {type: "failed", message: import("./frames.js").Outgoing}
 *   | {type: "notification", inbox: string,
 *      notification: import("./frames.js").NotificationRecord}
 *   | ({type: "presence"} & Presence)
 *   | {type: "erased"}
 *   | {type: "frame", frame: import("./frames.js").ServerFrame}
 *   | {type: "signed-out"}} Event
 *
 * `frame` is a frame of the server that is no entry, such as `invited`; few applications need it.
 * After `erased`, the content of some authors is gone, or can be seen again after a block has ended:
 * load again what the application keeps itself.
 */

/** @typedef {{user: string, online: boolean, lastSeen: string | null}} Presence */

/** Events after which a lost connection is opened again at once: the network or the page is back. */
const WAKES = ["online", "pageshow", "visibilitychange"];

/**
 * A client of one user. Creating it has no effects: `start` connects, `stop` disconnects, and both
 * may be called any number of times, in any order.
 */
export class Tidings {
  #core;
  #wake = () => this.#core.woken();

  /**
   * @param {string} url - The server, such as `https://chat.example.org`.
   * @param {Options} options
   */
  constructor(url, options) {
    this.#core = new Core(url, options);
  }

  /** Load the saved state, connect, and reconnect whenever the connection is lost. */
  start() {
    for (const name of WAKES) globalThis.addEventListener?.(name, this.#wake);
    return this.#core.start();
  }

  /** Disconnect. Messages that were not sent stay in the outbox. */
  stop() {
    this.#ignore();
    return this.#core.stop();
  }

  /** Stop, and delete everything that this browser has kept, in all tabs. */
  signOut() {
    this.#ignore();
    return this.#core.signOut();
  }

  #ignore() {
    for (const name of WAKES) globalThis.removeEventListener?.(name, this.#wake);
  }

  /** The state of the connection, as a live view. */
  get state() {
    return this.#core.state;
  }

  /** The chat list, as a live view. */
  get chats() {
    return this.#core.views.chats;
  }

  /** How much is unread, over all chats and inboxes, as a live view. */
  get unread() {
    return this.#core.views.unread;
  }

  /** The name of what this browser keeps of the user, for what an application keeps beside it. */
  get name() {
    return this.#core.name;
  }

  /** The user of this client; null before the first connection. */
  get user() {
    return this.#core.user;
  }

  /**
   * Return one chat, as a live view.
   *
   * @param {string} id
   */
  chat(id) {
    return this.#core.views.chat(id);
  }

  /**
   * Return an inbox, as a live view.
   *
   * @param {string} name
   */
  inbox(name) {
    return this.#core.views.inbox(name);
  }

  /**
   * Return whether a user is online; null if that is not known.
   *
   * @param {string} user
   */
  presence(user) {
    return this.#core.views.presence.get(user) ?? null;
  }

  /**
   * Send a failed message again.
   *
   * @param {string} chat
   * @param {string} id - The client_message_id of the row.
   */
  retry(chat, id) {
    this.#core.sending.retry(chat, id);
  }

  /**
   * Delete a message that failed, or that was not sent yet.
   *
   * @param {string} chat
   * @param {string} id - The client_message_id of the row.
   */
  discard(chat, id) {
    this.#core.sending.discard(chat, id);
  }

  /**
   * Make a request to the REST API with the user's token.
   *
   * @param {string} method
   * @param {string} path - Such as `/v1/me`.
   * @param {unknown} [body]
   */
  request(method, path, body) {
    return this.#core.rest.request(method, path, body);
  }

  /**
   * Return the address of a path on the server, for what `request` cannot do, such as an `<img>`.
   *
   * @param {string} path - Such as `/v1/me`.
   */
  link(path) {
    return this.#core.url + path;
  }

  /** Return a token that is valid for a while, for requests that `request` cannot make. */
  token() {
    return this.#core.tokens.current();
  }

  /**
   * Call a function with each event; return a function that ends this.
   *
   * @param {(event: Event) => void} listener
   */
  on(listener) {
    return this.#core.events.listen(listener);
  }

  /**
   * Yield all events from now on.
   *
   * @returns {AsyncGenerator<Event, void>}
   */
  events() {
    return this.#core.events.all();
  }
}
