// SPDX-License-Identifier: Apache-2.0
import { Unavailable } from "./errors.js";

export const ANSWER_MS_MAX = 30_000;

/**
 * Wait for an answer that may never come; reject with `Unavailable` after `ANSWER_MS_MAX`.
 *
 * The time is counted in ten ticks: a page that was frozen gets one tick for all of that time, and
 * then the answer, so it does not give up what is there.
 *
 * @template T
 * @param {Promise<T>} answer
 * @returns {Promise<T>}
 */
export const inTime = (answer) => {
  let left = 10;
  /** @type {any} */
  let timer;
  return new Promise((resolve, reject) => {
    answer.then(resolve, reject);
    const tick = () => --left || reject(new Unavailable("timeout"));
    timer = setInterval(tick, ANSWER_MS_MAX / 10);
    timer.unref?.(); // Node need not wait for it
  }).finally(() => clearInterval(timer));
};
