// SPDX-License-Identifier: Apache-2.0
/** Call the REST API with the user's token. */

import { Refused, Unavailable } from "./errors.js";
import { inTime } from "./in_time.js";

const ATTEMPTS_MAX = 4;
const PAUSE_MS_MAX = 10_000;

export class Rest {
  #url;
  #tokens;
  #fetch;

  /**
   * @param {string} url
   * @param {import("./tokens.js").Tokens} tokens
   * @param {typeof fetch} fetcher
   */
  constructor(url, tokens, fetcher) {
    this.#url = url;
    this.#tokens = tokens;
    this.#fetch = fetcher;
  }

  /**
   * Make a request that may be repeated; return the decoded answer. Throws `Refused` if the server
   * refuses it for good, and `Unavailable` if it cannot be reached. A DELETE that finds nothing is
   * done.
   *
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {Record<string, string>} [headers]
   * @returns {Promise<any>}
   */
  async request(method, path, body, headers = {}) {
    let trouble = "";
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const token = this.#tokens.current();
      const authorization = `Bearer ${await token}`;
      const init = {
        method,
        body: JSON.stringify(body),
        headers: { ...headers, authorization, "content-type": "application/json" },
        keepalive: method === "DELETE", // what is deleted while the page ends is deleted
      };
      let wait = 0;
      try {
        const answer = await inTime(this.#fetch(this.#url + path, init));
        if (answer.ok) return answer.status === 204 ? null : await inTime(answer.json());
        const { code = "", detail = "" } = await inTime(answer.json()).catch(() => ({}));
        const { status } = answer;
        // What a DELETE does not find is gone: the answer to its first attempt may have been lost.
        if (status === 404 && method === "DELETE") return null;
        if (status === 401 && !attempt) this.#tokens.refused(token);
        else if (status < 500 && status !== 429) throw new Refused(code, detail, status);
        wait = Number(answer.headers.get("retry-after")) * 1_000;
        trouble = detail;
      } catch (error) {
        if (error instanceof Refused) throw error;
        trouble = String(error);
      }
      wait += Math.random() * 250 * 2 ** attempt;
      await new Promise((resolve) => setTimeout(resolve, Math.min(PAUSE_MS_MAX, wait)));
    }
    throw new Unavailable(trouble);
  }
}
