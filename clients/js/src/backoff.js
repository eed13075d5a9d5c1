// SPDX-License-Identifier: Apache-2.0
/** Decide whether and when to reconnect after a connection has ended. No I/O. */

const PAUSE_MS_MIN = 1_000;
const PAUSE_MS_MAX = 60_000;

export const NOT_AUTHENTICATED = 4401;

/** After these codes a new connection would end in the same way, until something is changed. */
const FINAL = new Set([1002, 1007, 1009, 4400, 4403, 4413]);

/**
 * How a connection, or an attempt to connect, ended: `bye` of the server, or only a code.
 *
 * @typedef {object} Ended
 * @property {number} code - The close code; 1006 if the network failed or nobody answered.
 * @property {number} [retry_after_ms] - When to reconnect, if the server said so.
 * @property {boolean} [reconnect] - False if the server told the client to stay away.
 */

/** Random pauses between 0 and a maximum, which doubles with each failure from 1 to 60 s. */
export class Backoff {
  #random;
  #failures = 0;
  #refusedTokens = 0;

  /** @param {() => number} random - Returns a number from 0 up to 1. */
  constructor(random) {
    this.#random = random;
  }

  /**
   * Return how many milliseconds to wait before the next attempt; null if there must be none.
   *
   * @param {Ended} ended
   * @returns {number | null}
   */
  after(ended) {
    if (ended.code === NOT_AUTHENTICATED) {
      // The first refusal is usually a token that has just expired, so no pause is needed.
      return this.#refusedTokens++ ? this.#pause() : 0;
    }
    if (ended.reconnect === false || FINAL.has(ended.code)) return null;
    return ended.retry_after_ms ?? this.#pause();
  }

  /** Make the next pause short again, because the connection has lasted for a while. */
  steady() {
    this.#failures = this.#refusedTokens = 0;
  }

  #pause() {
    return this.#random() * Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** this.#failures++);
  }
}
