// SPDX-License-Identifier: Apache-2.0
/** Load what plays sounds, if the user has switched it on in this browser. */

/** @typedef {import("../src/tidings.js").Tidings} Tidings */

/** The name under which the browser keeps the inbox whose quiet hours hold. @param {Tidings} tidings */
export const soundKey = ({ name }) => `${name} sound`;

/** @param {Tidings} tidings */
export function hear(tidings) {
  if (!localStorage.getItem(soundKey(tidings))) return;
  void import("../elements/sound.js").then(
    ({ soundOf }) => soundOf(tidings),
    () => {},
  );
}
