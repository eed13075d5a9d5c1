// SPDX-License-Identifier: Apache-2.0
export { Refused, SignedOut, Unavailable } from "./errors.js";
export { indexedDb, memory } from "./storage.js";
export { Tidings } from "./tidings.js";
export { tokenFrom } from "./tokens.js";

/** @typedef {import("./chats_view.js").ChatRecord} ChatRecord */
/** @typedef {import("./rows.js").ChatSnapshot} ChatSnapshot */
/** @typedef {import("./chats_view.js").ChatsSnapshot} ChatsSnapshot */
/** @typedef {import("./tidings.js").Event} Event */
/** @typedef {import("./inbox_view.js").InboxSnapshot} InboxSnapshot */
/** @typedef {import("./frames.js").NotificationRecord} NotificationRecord */
/** @typedef {import("./tidings.js").Options} Options */
/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./tidings.js").StateSnapshot} StateSnapshot */
/** @typedef {import("./frames.js").UnreadTotal} UnreadTotal */
