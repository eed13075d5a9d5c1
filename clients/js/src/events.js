// SPDX-License-Identifier: Apache-2.0
/** Pass events to listeners. */

/** @typedef {import("./tidings.js").Event} Event */

export class Events {
  #listeners = /** @type {Set<(event: Event) => void>} */ (new Set());

  /** Call all listeners, apart from each other: one may throw. @param {Event} event */
  emit(event) {
    for (const listener of this.#listeners) queueMicrotask(() => listener(event));
  }

  /**
   * Call a function with each event; return a function that ends this.
   *
   * @param {(event: Event) => void} listener
   */
  listen(listener) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /**
   * Yield all events from now on.
   *
   * @returns {AsyncGenerator<Event, void>}
   */
  async *all() {
    /** @type {Event[]} */
    const events = [];
    let wake = /** @type {any} */ (() => {});
    const end = this.listen((event) => {
      events.push(event);
      wake();
    });
    try {
      for (;;) {
        yield* events.splice(0);
        if (!events.length) await new Promise((resolve) => (wake = resolve));
      }
    } finally {
      end();
    }
  }
}
