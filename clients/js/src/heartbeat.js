// SPDX-License-Identifier: Apache-2.0
/** Check whether the server still answers. No I/O. */

const MISSED_PONGS_MAX = 3;
const WELCOME_MS_MAX = 15_000;

/** Schedules pings at the interval that the server requested, and counts missing answers. */
export class Heartbeat {
  #interval = 0;
  #due;
  #unanswered = 0;

  /** @param {number} now */
  constructor(now) {
    this.#due = now + WELCOME_MS_MAX;
  }

  /**
   * Set the interval that the server requested in `welcome`.
   *
   * @param {number} now
   * @param {number} interval
   */
  welcomed(now, interval) {
    this.#interval = interval;
    this.#due = now + interval;
  }

  /** Record that the server sent something. */
  heard() {
    this.#unanswered = 0;
  }

  /**
   * Return `ping` if a ping is due, `dead` if the server does not answer.
   *
   * @param {number} now
   * @returns {"ping" | "dead" | null}
   */
  tick(now) {
    if (now < this.#due) return null;
    if (!this.#interval || this.#unanswered >= MISSED_PONGS_MAX) return "dead";
    this.#due = now + this.#interval;
    this.#unanswered += 1;
    return "ping";
  }
}
