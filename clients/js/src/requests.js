// SPDX-License-Identifier: Apache-2.0
/** The questions to the server that wait for an answer. No I/O. */

/** @typedef {import("./frames.js").Outgoing} Outgoing */
/** @typedef {import("./frames.js").ServerFrame} ServerFrame */
/** @typedef {Extract<ServerFrame, {op: "page"}>} Page */
/** @typedef {Extract<ServerFrame, {op: "refused"}>} RefusedFrame */

/**
 * A question of the application for a part of a log.
 *
 * @typedef {object} Question
 * @property {string} chat
 * @property {number} [after]
 * @property {number} [before]
 * @property {number} limit
 * @property {(answer: Page | RefusedFrame) => void} answer
 */

/**
 * @typedef {{message: Outgoing} | {want: import("./log_view.js").Want} | {question: Question}} Asked
 */

const ANSWER_MS_MAX = 30_000;

export class Requests {
  #asked = /** @type {Map<string, {asked: Asked, at: number}>} */ (new Map());
  #serial = 0;

  /** Number of pages that are on their way. */
  get fetches() {
    return [...this.#asked.values()].filter(({ asked }) => !("message" in asked)).length;
  }

  /**
   * Remember a question; return its id.
   *
   * @param {Asked} asked
   * @param {number} now
   */
  ask(asked, now) {
    const id = String(++this.#serial);
    this.#asked.set(id, { asked, at: now });
    return id;
  }

  /**
   * Return the question that an answer belongs to.
   *
   * @param {string} [id]
   */
  answered(id = "") {
    const found = this.#asked.get(id);
    this.#asked.delete(id);
    return found?.asked;
  }

  /**
   * Return whether the oldest request should have been answered by now.
   *
   * @param {number} now
   */
  isOld(now) {
    const [oldest] = this.#asked.values();
    return oldest !== undefined && now - oldest.at > ANSWER_MS_MAX;
  }

  /** Forget everything after a lost connection; return the questions of the application. */
  lost() {
    const questions = [...this.#asked.values()].flatMap(({ asked }) =>
      "question" in asked ? [asked.question] : [],
    );
    this.#asked.clear();
    return questions;
  }
}
