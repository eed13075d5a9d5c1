// SPDX-License-Identifier: Apache-2.0
/** The types of the frames of the socket, in both directions. Nothing here runs. */

/**
 * An entry of a chat's log. Inside a page it has no `op`.
 *
 * @typedef {object} Entry
 * @property {string} chat
 * @property {number} sequence
 * @property {string} kind
 * @property {string} sender
 * @property {string} created_at
 * @property {string} [message_id]
 * @property {string} [client_message_id]
 * @property {string} [content]
 * @property {string} [content_type]
 * @property {string} [expires_at]
 * @property {string} [edited_at]
 * @property {boolean} [redacted]
 * @property {boolean} [expired]
 * @property {boolean} [erased]
 * @property {number} [target]
 * @property {string} [emoji]
 * @property {string[]} [users]
 * @property {string} [role]
 * @property {string} [name]
 * @property {Record<string, number>} [reactions]
 */

/**
 * A frame of the server. Unknown frames and fields are ignored.
 *
 * @typedef {{op: "welcome", user: string, device: string, epoch: string, heartbeat_ms: number}
 *   | {op: "live"}
 *   | ({op: "entry"} & Entry)
 *   | {op: "heads", chats: Record<string, number>}
 *   | {op: "sent", id: string, chat: string, sequence: number, message_id: string,
 *      created_at: string}
 *   | {op: "refused", id?: string, code: string, detail: string, retryable: boolean,
 *      retry_after_ms?: number}
 *   | {op: "page", id: string, chat: string, entries: Entry[], head: number, more: boolean}
 *   | {op: "receipt", chat: string, user: string, delivered: number, read: number}
 *   | {op: "typing", chat: string, user: string}
 *   | {op: "presence", user: string, online: boolean, last_seen?: string}
 *   | {op: "unread", chat: string, unread: number, unread_exact: boolean}
 *   | {op: "unread", inbox: string, total: number, categories: Record<string, number>}
 *   | ({op: "unread_total"} & UnreadTotal)
 *   | ({op: "notification", inbox: string} & NotificationRecord)
 *   | {op: "retracted", inbox: string, id: string}
 *   | {op: "invited", chat: string, user: string}
 *   | {op: "chat_changed", chat: string}
 *   | {op: "profile", user: string, display_name: string | null, avatar_url: string | null}
 *   | {op: "erased", n: number, all?: boolean, salt?: string,
 *      authors?: {digest: string, before: string}[]}
 *   | {op: "resync", chat: string, head: number}
 *   | {op: "gone", chat: string}
 *   | {op: "bye", code: number, reconnect: boolean, retry_after_ms: number}
 *   | {op: "pong"}
 *   | {op: "records", records: import("./chats_view.js").ChatRecord[]}} ServerFrame
 *
 * `records` comes from the tab that leads, never from the server.
 */

/**
 * Everything that the user has not read. `mentions` are among the messages.
 *
 * @typedef {{chats: number, messages: number, mentions: number, inboxes: Record<string, number>,
 *   total: number, exact: boolean}} UnreadTotal
 */

/**
 * A notification in an inbox.
 *
 * @typedef {object} NotificationRecord
 * @property {string} id
 * @property {string | null} [category]
 * @property {string | null} [sender]
 * @property {string | null} [host_system_id]
 * @property {Record<string, unknown>} message
 * @property {string} received_at
 * @property {string | null} [read_at]
 */

/**
 * A frame of the client.
 *
 * @typedef {{op: string} & Record<string, unknown>} ClientFrame
 */

/**
 * A message that the server has not answered for good.
 *
 * @typedef {object} Outgoing
 * @property {string} chat
 * @property {string} id - The client_message_id, which is the same for every repeat.
 * @property {string} content
 * @property {string | undefined} [contentType]
 * @property {number | undefined} [ttlSeconds]
 * @property {number} createdAt - In milliseconds since 1970.
 * @property {{code: string, detail: string}} [failed] - Why it will not be sent by itself.
 */

export {};
