// SPDX-License-Identifier: Apache-2.0
/** Keep the user's token, and ask the application for the next one before it expires. */

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
    if (this.#token && this.#until >= this.#clock()) return this.#token;
    const token = (this.#token = this.#fetch());
    token.catch(() => {
      if (this.#token === token) this.#token = null;
    });
    return token;
  }

  /** Forget the token, because the server refused it. */
  refused() {
    this.#token = null;
  }

  /** Whether the token should be renewed on an open connection. */
  get isOld() {
    return this.#until < this.#clock();
  }

  async #fetch() {
    this.#until = Infinity; // callers meanwhile wait for the same token
    const token = await this.#provider();
    const ends = expiryOf(token);
    this.#until =
      ends === null ? Infinity : Math.max(ends - RENEW_MS_BEFORE, this.#clock() + 1_000);
    return token;
  }
}

/**
 * Return when a JSON Web Token expires, in milliseconds since 1970; null if that is not readable.
 *
 * @param {string} token
 */
function expiryOf(token) {
  try {
    const part = (token.split(".")[1] ?? "").replace(/-/g, "+").replace(/_/g, "/");
    const { exp } = JSON.parse(atob(part));
    return typeof exp === "number" ? exp * 1_000 : null;
  } catch {
    return null;
  }
}
