// SPDX-License-Identifier: Apache-2.0
/** The pictures that a page without chats needs; `icons.js` has all of them. */

import { h } from "./describe.js";

export const basicPaths = {
  archive: "M4 5h16v4H4zM6 9v10h12V9M10 13h4",
  back: "M15 5l-7 7 7 7",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4",
  clock: "M12 7v5l3 2M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18z",
  dot: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8z",
  more: "M12 5.5v.01M12 12v.01M12 18.5v.01",
};

/** @param {keyof typeof basicPaths} name */
export const basicIcon = (name) => picture(name, basicPaths[name]);

/**
 * Draw lines; the name is for the style sheet.
 *
 * @param {string} name
 * @param {string} lines
 * @param {string} [label]
 */
export const picture = (name, lines, label) =>
  h(
    "svg",
    {
      class: `icon i-${name}`,
      viewBox: "0 0 24 24",
      ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }),
    },
    h("path", { d: lines }),
  );
