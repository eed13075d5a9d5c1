// SPDX-License-Identifier: Apache-2.0
/** The pictures of the console. */

import { picture } from "../elements/icons_basic.js";

const PATHS = {
  audit: "M8 4h8v3H8zM16 5h3v16H5V5h3M9 12h6M9 16h4",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4",
  chat: "M5 5h14a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-7l-5 4v-4H5a2 2 0 0 1-2-2V7a2 2 0 0 1 2-2z",
  close: "M6 6l12 12M18 6L6 18",
  flag: "M6 21V4h12l-3 4 3 4H6",
  gauge: "M4 18a9 9 0 1 1 16 0zM12 14l4-5",
  home: "M4 11l8-7 8 7v9h-5v-6H9v6H4z",
  hook: "M12 3v9a4 4 0 1 1-8 0M12 3a2 2 0 1 1 0-.01M4 12l-1.5 2.5M4 12l2 2.2",
  key: "M8 12a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM11 13l9-9M16 8l3 3",
  leave: "M14 4H6v16h8M10 12h11M17 8l4 4-4 4",
  lock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  menu: "M4 7h16M4 12h16M4 17h16",
  people:
    "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20a6.5 6.5 0 0 1 13 0M16 4.5a3.5 3.5 0 0 1 0 6.5M18 14a6.5 6.5 0 0 1 3.5 6",
  phone: "M8 3h8v18H8zM11 18h2",
  pulse: "M3 12h4l3-7 4 14 3-7h4",
  question:
    "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M12 17v.01",
  search: "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM15.5 15.5L21 21",
  sliders: "M4 7h9M17 7h3M15 5v4M4 12h3M11 12h9M9 10v4M4 17h11M19 17h1M17 15v4",
  tenants: "M4 20V5h9v15M13 10h7v10M3 20h18M7 9h3M7 13h3M16 14h1",
  trace: "M4 6h9M4 12h16M4 18h6M17 6v.01M14 18v.01",
  tray: "M4 13l3-8h10l3 8v6H4zM4 13h5l1 3h4l1-3h5",
  warning: "M12 4l9 16H3zM12 10v4M12 17v.01",
};

/** @typedef {keyof typeof PATHS} IconName */

/**
 * @param {IconName} name
 * @param {string} [label]
 */
export const icon = (name, label) => picture(name, PATHS[name], label);
