// SPDX-License-Identifier: Apache-2.0
/** What waits for a moment, in which the user may undo it. */

const UNDO_MS = 5_000;

export class Undoable {
  #waiting = /** @type {Map<string, {timer: ReturnType<typeof setTimeout>, run: () => void}>} */ (
    new Map()
  );

  /** @param {string} key */
  has(key) {
    return this.#waiting.has(key);
  }

  /**
   * Do something soon.
   *
   * @param {string} key
   * @param {() => void} work
   */
  add(key, work) {
    this.undo(key);
    const run = () => {
      this.#waiting.delete(key);
      work();
    };
    this.#waiting.set(key, { timer: setTimeout(run, UNDO_MS), run });
  }

  /** @param {string} key */
  undo(key) {
    clearTimeout(this.#waiting.get(key)?.timer);
    this.#waiting.delete(key);
  }

  /** Do not wait any longer. */
  hurry() {
    for (const { timer, run } of [...this.#waiting.values()]) {
      clearTimeout(timer);
      run();
    }
  }
}
