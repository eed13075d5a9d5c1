// SPDX-License-Identifier: Apache-2.0
/** Call the REST API with the user's token. */

import { Refused, Unavailable } from "./errors.js";

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
   * refuses it for good, and `Unavailable` if it cannot be reached.
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
      const authorization = `Bearer ${await this.#tokens.current()}`;
      const answer = await this.#once(method, path, body, { ...headers, authorization });
      if (typeof answer === "string") trouble = answer;
      else if (answer.ok) return answer.status === 204 ? null : answer.json();
      else {
        const problem = await answer.json().catch(() => ({}));
        const refused = new Refused(
          problem.code ?? "",
          problem.detail ?? answer.statusText,
          answer.status,
        );
        if (answer.status === 401 && attempt === 0) this.#tokens.refused();
        else if (answer.status !== 429 && answer.status < 500) throw refused;
        else trouble = refused.message;
        await pause(Number(answer.headers.get("retry-after") ?? 0) * 1_000, attempt);
        continue;
      }
      await pause(0, attempt);
    }
    throw new Unavailable(trouble);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} body
   * @param {Record<string, string>} headers
   */
  async #once(method, path, body, headers) {
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    if (init.body) headers["content-type"] = "application/json";
    try {
      return await this.#fetch(this.#url + path, { method, headers, ...init });
    } catch (error) {
      return String(error);
    }
  }
}

/**
 * @param {number} atLeast
 * @param {number} attempt
 * @returns {Promise<void>}
 */
function pause(atLeast, attempt) {
  const ms = Math.min(PAUSE_MS_MAX, atLeast + Math.random() * 250 * 2 ** attempt);
  return new Promise((resolve) => setTimeout(resolve, ms));
}
