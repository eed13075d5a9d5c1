// SPDX-License-Identifier: Apache-2.0
/** A part of an element that is loaded at its first use. */

/** @template T */
export class Lazy {
  /** The part; null until it is loaded. */
  value = /** @type {T | null} */ (null);
  #load;
  #loading = /** @type {Promise<T> | null} */ (null);

  /** @param {() => Promise<T>} load */
  constructor(load) {
    this.#load = load;
  }

  /** Return the part. If it cannot be loaded, the next call tries again. */
  get() {
    return (this.#loading ??= this.#load().then(
      (made) => (this.value = made),
      (error) => {
        this.#loading = null;
        throw error;
      },
    ));
  }
}
