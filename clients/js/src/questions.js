// SPDX-License-Identifier: Apache-2.0
/** The questions of views to the server, as promises. */

import { Refused, Unavailable } from "./errors.js";

/** @typedef {import("./requests.js").Page} Page */

const STOPPED = "stopped";

export class Questions {
  /** What ends the questions that wait for an answer. @type {Set<(error: Error) => void>} */
  #waiting = new Set();

  /**
   * Ask for a part of a log; this waits for a connection if there is none.
   *
   * @param {import("./conversation.js").Conversation | null} conversation
   * @param {{chat: string, after?: number, before?: number, limit: number}} part
   * @param {number} now
   * @returns {Promise<Page>}
   */
  ask(conversation, part, now) {
    return new Promise((resolve, reject) => {
      /** @param {Page | import("./requests.js").RefusedFrame} frame */
      const answer = (frame) => {
        this.#waiting.delete(reject);
        if (frame.op === "page") resolve(frame);
        else if (frame.retryable) reject(new Unavailable(frame.detail));
        else reject(new Refused(frame.code, frame.detail));
      };
      if (!conversation) return reject(new Unavailable(STOPPED));
      this.#waiting.add(reject);
      conversation.ask({ ...part, answer }, now);
    });
  }

  /** End all questions, because the client is stopped. */
  end() {
    for (const reject of this.#waiting) reject(new Unavailable(STOPPED));
    this.#waiting.clear();
  }
}
