// SPDX-License-Identifier: Apache-2.0
/** Small pictures, drawn with lines in the colour of the text around them. */

import { basicPaths, picture } from "./icons_basic.js";

const PATHS = {
  ...basicPaths,
  at: "M15.5 8.5v4.5a2.5 2.5 0 0 0 5 0v-1a8.5 8.5 0 1 0-3.5 7M12 8.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7z",
  attach:
    "M20 11.5l-8 8a5 5 0 0 1-7-7l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7L9.7 17a1.7 1.7 0 0 1-2.4-2.4l7.7-7.6",
  chat: "M5 5h14a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-7l-5 4v-4H5a2 2 0 0 1-2-2V7a2 2 0 0 1 2-2z",
  check: "M5 12.5l4.5 4.5L19 7",
  checks: "M2 12.5l4.5 4.5L16 7M11.5 16l1 1L22 7",
  close: "M6 6l12 12M18 6L6 18",
  down: "M12 5v14M6 13l6 6 6-6",
  file: "M6 3h8l5 5v13H6zM14 3v5h5",
  group:
    "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20a6.5 6.5 0 0 1 13 0M16 4.5a3.5 3.5 0 0 1 0 6.5M18 14a6.5 6.5 0 0 1 3.5 6",
  leave: "M14 4H6v16h8M10 12h11M17 8l4 4-4 4",
  microphone: "M12 3a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0V6a3 3 0 0 1 3-3zM6 11a6 6 0 0 0 12 0M12 17v4",
  muted: "M4 9v6h4l5 4V5L8 9zM16.5 9.5l5 5M21.5 9.5l-5 5",
  noScreen: "M4 5h16v11H4zM9 20h6M12 16v4M3 3l18 18",
  pin: "M9 4h6l-1 7 3 3H7l3-3zM12 14v7",
  reply: "M9 6l-6 6 6 6M3 12h11a6 6 0 0 1 6 6v1",
  screen: "M4 5h16v11H4zM9 20h6M12 16v4M8.5 10.5l2.5 2.5 4.5-5",
  search: "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM15.5 15.5L21 21",
  send: "M4 12l16-8-5 16-3.5-6.5z",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  warning: "M12 4l9 16H3zM12 10v4M12 17v.01",
  write: "M4 20l1-4L16 5l3 3L8 19z",
};

/** @typedef {keyof typeof PATHS} IconName */

/**
 * @param {IconName} name
 * @param {string} [label] - What the picture says, if no text beside it does.
 */
export const icon = (name, label) => picture(name, PATHS[name], label);
