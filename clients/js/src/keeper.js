// SPDX-License-Identifier: Apache-2.0
/** Keep a conversation connected: open lines, tick, and wait between attempts. */

import { NOT_AUTHENTICATED } from "./backoff.js";
import { SignedOut } from "./errors.js";

/** @typedef {import("./connection.js").Connect} Connect */
/** @typedef {import("./connection.js").Line} Line */

/** @typedef {"connecting" | "live" | "waiting" | "stopped"} ConnectionState */

const TICK_MS = 500;
/** A line that has lasted this long is steady, so the next pause is short again. */
const STEADY_MS = 30_000;
/** Time for bytes that a sleeping computer received but did not read yet. */
const GRACE_MS = 1_000;
/** Minimum time between two attempts that the return of the network or page causes. */
const WAKE_MS_MIN = 5_000;

export class Keeper {
  /** @type {ConnectionState} */
  state = "stopped";
  #conversation;
  #tokens;
  #backoff;
  #clock;
  #hello;
  #events;
  #connect = /** @type {Connect | null} */ (null);
  #line = /** @type {Line | null} */ (null);
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #ticking;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #pause;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #ping;
  #heardAt = 0;
  #openedAt = 0;
  #wokenAt = -WAKE_MS_MIN;
  #heartbeatMs = 20_000;
  #token = /** @type {Promise<string> | null} */ (null);

  /**
   * @param {import("./conversation.js").Conversation} conversation
   * @param {import("./tokens.js").Tokens} tokens
   * @param {import("./backoff.js").Backoff} backoff
   * @param {{now: () => number, wall: () => number}} clock
   * @param {() => Record<string, unknown>} hello - Returns further fields of hello.
   * @param {{changed: () => void, trouble: (error: unknown) => void}} events
   */
  constructor(conversation, tokens, backoff, clock, hello, events) {
    this.#conversation = conversation;
    this.#tokens = tokens;
    this.#backoff = backoff;
    this.#clock = clock;
    this.#hello = hello;
    this.#events = events;
  }

  /**
   * Use another way to the server from now on; null ends the present one.
   *
   * @param {Connect | null} connect
   */
  use(connect) {
    this.#drop();
    clearTimeout(this.#pause);
    clearInterval(this.#ticking);
    this.#connect = connect;
    if (!connect) return this.#become("stopped");
    this.#ticking = setInterval(() => this.#tick(), TICK_MS);
    void this.#open();
  }

  /** Try again now, because the network or the page came back. */
  wake() {
    const now = this.#clock.now();
    if (this.state === "live") this.#tick();
    if (this.state !== "waiting" || now - this.#wokenAt < WAKE_MS_MIN) return;
    this.#wokenAt = now;
    clearTimeout(this.#pause);
    void this.#open();
  }

  async #open() {
    const connect = this.#connect;
    if (!connect) return;
    this.#become("connecting");
    let token;
    try {
      token = await (this.#token = this.#tokens.current());
    } catch (error) {
      if (error instanceof SignedOut) return this.#fail(error);
      if (this.#connect === connect) this.#ended({ code: 1006 });
      return;
    }
    if (this.#connect !== connect || this.#line) return;
    /** @type {Line} */
    const line = (this.#line = connect({
      opened: () => this.#opened(line, token),
      receive: (frame) => this.#receive(line, frame),
      ended: (ended) => this.#line === line && this.#ended(ended),
    }));
  }

  /**
   * @param {Line} line
   * @param {string} token
   */
  #opened(line, token) {
    if (this.#line !== line) return;
    this.#openedAt = this.#heardAt = this.#clock.now();
    // Messages that became too old in the meantime are given up before they could be sent.
    this.#tick();
    this.#conversation.connected(line.say, { token, ...this.#hello() }, this.#openedAt);
  }

  /**
   * @param {Line} line
   * @param {import("./frames.js").ServerFrame} frame
   */
  #receive(line, frame) {
    if (this.#line !== line) return;
    this.#heardAt = this.#clock.now();
    try {
      this.#conversation.receive(frame, this.#heardAt);
    } catch (error) {
      return this.#fail(error);
    }
    if (frame.op === "welcome") {
      this.#heartbeatMs = frame.heartbeat_ms;
      this.#arm();
    }
    if (frame.op === "pong") this.#arm();
    if (frame.op === "live") this.#become("live");
  }

  /**
   * Schedule the next ping from here. A browser delays timers that are started by timers of a
   * hidden page by up to a minute, but not those that are started by a frame.
   */
  #arm() {
    clearTimeout(this.#ping);
    this.#ping = setTimeout(() => this.#tick(), this.#heartbeatMs + 10);
  }

  #tick() {
    const now = this.#clock.now();
    const isGone = this.#conversation.tick(now, this.#clock.wall());
    if (isGone && this.#line) {
      const line = this.#line;
      setTimeout(() => {
        if (this.#line === line && this.#heardAt <= now) this.#ended({ code: 1006 });
      }, GRACE_MS);
    }
    if (this.state !== "live") return;
    if (now - this.#openedAt > STEADY_MS) this.#backoff.steady();
    if (this.#tokens.isOld) void this.#renew();
  }

  async #renew() {
    try {
      const token = await (this.#token = this.#tokens.current());
      this.#line?.say({ op: "auth", token });
    } catch (error) {
      // The present token may still be valid for a while; the server closes when it is not.
      if (error instanceof SignedOut) this.#fail(error);
    }
  }

  /** @param {import("./backoff.js").Ended} ended */
  #ended(ended) {
    this.#drop();
    const ms = this.#backoff.after(ended);
    if (ms === null) return this.#fail(new Error(`closed with ${ended.code}`));
    if (ended.code === NOT_AUTHENTICATED) this.#tokens.refused(this.#token);
    this.#become("waiting");
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => this.#open(), ms);
  }

  /** @param {unknown} error */
  #fail(error) {
    this.use(null);
    this.#events.trouble(error);
  }

  #drop() {
    clearTimeout(this.#ping);
    if (!this.#line) return;
    this.#conversation.leaving();
    this.#line.close();
    this.#line = null;
    this.#conversation.lost();
  }

  /** @param {ConnectionState} state */
  #become(state) {
    this.state = state;
    this.#events.changed();
  }
}
