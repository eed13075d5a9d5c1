// SPDX-License-Identifier: Apache-2.0
/** Keep the user's token, and ask the application for the next one before it expires. */

import { SignedOut, Unavailable } from "./errors.js";
import { ANSWER_MS_MAX, inTime } from "./in_time.js";

const RENEW_MS_BEFORE = 60_000;

export class Tokens {
  #provider;
  #clock;
  #token = /** @type {Promise<string> | null} */ (null);
  #until = 0;

  /**
   * @param {() => Promise<string> | string} provider
   * @param {() => number} clock - Returns milliseconds since 1970.
   */
  constructor(provider, clock) {
    this.#provider = provider;
    this.#clock = clock;
  }

  /** Return a token that is valid for a while. Throws the errors of the provider. */
  current() {
    if (this.#token && !this.isOld) return this.#token;
    const token = (this.#token = this.#fetch());
    token.catch(() => this.refused(token));
    return token;
  }

  /**
   * Forget a token, because the server refused it.
   *
   * @param {Promise<string> | null} token - What `current` has returned.
   */
  refused(token) {
    if (this.#token === token) this.#token = null;
  }

  /** Whether the token should be renewed on an open connection. */
  get isOld() {
    return this.#until < this.#clock();
  }

  async #fetch() {
    // Callers meanwhile wait for the same token. If it does not come, it is asked for again then.
    this.#until = this.#clock() + ANSWER_MS_MAX;
    const provide = async () => this.#provider(); // it may throw at once, or never answer
    const token = await inTime(provide());
    const life = lifeOf(token);
    this.#until = this.#clock() + Math.max(life - RENEW_MS_BEFORE, life / 2);
    return token;
  }
}

/**
 * Return a provider that gets each token from your backend. The backend answers with the token, and
 * with 401 if nobody is signed in.
 *
 * @param {string} url
 */
export const tokenFrom = (url) => async () => {
  const answer = await fetch(url, { cache: "no-store" });
  if (answer.ok) return answer.text();
  throw answer.status === 401 ? new SignedOut() : new Unavailable(url);
};

/**
 * Return the life of a JSON Web Token in milliseconds; not a number if that is not readable. The
 * time at which it expires would be compared with the clock of this computer, which may be wrong.
 *
 * @param {string} token
 */
function lifeOf(token) {
  try {
    const part = /** @type {string} */ (token.split(".")[1]);
    const { exp, iat } = JSON.parse(atob(part.replace(/-/g, "+").replace(/_/g, "/")));
    return (exp - iat) * 1_000;
  } catch {
    return NaN;
  }
}
