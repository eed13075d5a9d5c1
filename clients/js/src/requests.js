// SPDX-License-Identifier: Apache-2.0
/** The questions to the server that wait for an answer. No I/O. */

import { Refused, Unavailable } from "./errors.js";

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
 * One of three: a message, a part of a log that is missing, or a question.
 *
 * @typedef {{message?: Outgoing, want?: import("./log_view.js").Want, question?: Question}} Asked
 */

const ANSWER_MS_MAX = 30_000;

/**
 * The answer to questions of a client that is stopped.
 *
 * @type {RefusedFrame}
 */
export const STOPPED = { op: "refused", code: "", detail: "stopped", retryable: true };

/**
 * Return the answer to a question, as a promise.
 *
 * @param {Omit<Question, "answer">} part
 * @param {(question: Question) => void} ask
 * @returns {Promise<Page>}
 */
export const answerTo = (part, ask) =>
  new Promise((resolve, reject) => {
    /** @param {Page | RefusedFrame} frame */
    const answer = (frame) => {
      if (frame.op === "page") resolve(frame);
      else if (frame.retryable) reject(new Unavailable(frame.detail));
      else reject(new Refused(frame.code, frame.detail));
    };
    ask({ ...part, answer });
  });

export class Requests {
  #asked = /** @type {Map<string, Asked & {at: number}>} */ (new Map());
  #serial = 0;

  /** Number of pages that are on their way. */
  get fetches() {
    return [...this.#asked.values()].filter(({ message }) => !message).length;
  }

  /**
   * Remember a question; return its id.
   *
   * @param {Asked} asked
   * @param {number} now
   */
  ask(asked, now) {
    const id = String(++this.#serial);
    this.#asked.set(id, { ...asked, at: now });
    return id;
  }

  /**
   * Return the question that an answer belongs to.
   *
   * @param {any} id - Absent if the answer names none.
   */
  answered(id) {
    const found = this.#asked.get(id);
    this.#asked.delete(id);
    return found;
  }

  /**
   * Return whether the oldest request should have been answered by now.
   *
   * @param {number} now
   */
  isOld(now) {
    const [oldest] = this.#asked.values();
    return now - (oldest?.at ?? now) > ANSWER_MS_MAX;
  }

  /** Forget everything after a lost connection; return the questions of the application. */
  lost() {
    const questions = [...this.#asked.values()].flatMap(({ question }) => question ?? []);
    this.#asked.clear();
    return questions;
  }
}
