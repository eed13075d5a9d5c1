// SPDX-License-Identifier: Apache-2.0
/** All elements, and the client that they show. */

export { SignedOut, Tidings, tokenFrom } from "../src/index.js";
export { TidingsBell } from "./bell.js";
export { TidingsChat } from "./chat.js";
export { TidingsInbox } from "./inbox.js";
