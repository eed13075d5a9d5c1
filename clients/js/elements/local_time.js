// SPDX-License-Identifier: Apache-2.0
/** Times as a field of a form has them. */

export const MINUTE_MS = 60_000;

/**
 * Return a time as a field `datetime-local` has it, in the time zone of the browser.
 *
 * @param {number} at
 */
export function localTime(at) {
  const local = new Date(at - new Date(at).getTimezoneOffset() * MINUTE_MS);
  return local.toISOString().slice(0, "2026-11-17T09:30".length);
}
