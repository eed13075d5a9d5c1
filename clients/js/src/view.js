// SPDX-License-Identifier: Apache-2.0
/** A live view: a value that changes, and its subscribers. */

/**
 * `snapshot` returns the same object until something has changed, and `subscribe` returns a
 * function that ends the subscription. React, Svelte and Vue expect this pair of functions from a
 * store.
 *
 * @template T
 */
export class View {
  #make;
  /** @type {T | undefined} */
  #value;
  #listeners = /** @type {Set<() => void>} */ (new Set());
  #isScheduled = false;

  /** @param {() => T} make - Returns the present value. */
  constructor(make) {
    this.#make = make;
  }

  /** Whether anybody looks at this view. */
  get isWatched() {
    return this.#listeners.size > 0;
  }

  snapshot = () => (this.#value ??= this.#make());

  /** @param {() => void} listener - Called after changes, once for all changes of a turn. */
  subscribe = (listener) => {
    this.#listeners.add(listener);
    this.watched();
    return () => void this.#listeners.delete(listener);
  };

  /** Called when somebody begins to look. */
  watched() {}

  /** Mark the snapshot as outdated, and notify the listeners. */
  changed() {
    this.#value = undefined;
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      // Apart from each other: one may throw.
      for (const listener of this.#listeners) queueMicrotask(listener);
    });
  }
}
