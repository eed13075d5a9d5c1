// SPDX-License-Identifier: Apache-2.0
/** Loads the module that plays sounds, if the user has switched it on in this browser. */

/** @typedef {import("../src/tidings.js").Tidings} Tidings */

/** The key under which the browser stores the inbox whose quiet hours apply. @param {Tidings} tidings */
export const soundKey = ({ name }) => `${name} sound`;

/** @param {Tidings} tidings */
export function hear(tidings) {
  if (!localStorage.getItem(soundKey(tidings))) return;
  void import("../elements/sound.js").then(
    ({ soundOf }) => soundOf(tidings),
    () => {},
  );
}
