// SPDX-License-Identifier: Apache-2.0
/**
 * Drop repeated frames about notifications. No I/O.
 *
 * The server sends each frame at least once, and two gateways may send them in any order. The
 * application gets each notification once, and never after its retraction.
 */

/** Number of notifications that are remembered; repeats arrive within seconds. */
const TOLD_MAX = 10_000;

export class InboxEvents {
  /** Whether each notification was retracted, by inbox and id, the latest last. */
  #told = /** @type {Map<string, boolean>} */ (new Map());

  /**
   * Return whether a frame is news for the application.
   *
   * @param {{op: "notification" | "retracted", inbox: string, id: string}} frame
   */
  take({ op, inbox, id }) {
    const key = `${inbox} ${id}`;
    const told = this.#told.get(key);
    const isRetracted = op === "retracted";
    this.#told.delete(key);
    this.#told.set(key, isRetracted || told === true);
    if (this.#told.size > TOLD_MAX) {
      const [oldest = ""] = this.#told.keys();
      this.#told.delete(oldest);
    }
    return !told && told !== isRetracted;
  }
}
