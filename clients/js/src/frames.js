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
 * @property {string | undefined} [message_id]
 * @property {string | undefined} [client_message_id]
 * @property {string | undefined} [content]
 * @property {string | undefined} [content_type]
 * @property {string | undefined} [expires_at]
 * @property {string | undefined} [edited_at]
 * @property {boolean | undefined} [redacted]
 * @property {boolean | undefined} [expired]
 * @property {boolean | undefined} [erased]
 * @property {boolean | undefined} [blocked] - Whether the user blocks the sender.
 * @property {number | undefined} [target]
 * @property {string | undefined} [emoji]
 * @property {string[] | undefined} [users]
 * @property {string | undefined} [role]
 * @property {string | undefined} [name]
 * @property {Record<string, number> | undefined} [reactions]
 * @property {number | undefined} [reply_to]
 * @property {number | undefined} [reply_count]
 * @property {string[] | undefined} [mentions]
 * @property {Attachment[] | undefined} [attachments] - Files, as their sender describes them.
 * @property {boolean | undefined} [silent]
 */

/**
 * @typedef {object} Attachment
 * @property {string} attachment_id
 * @property {string} name
 * @property {string} content_type
 * @property {number} size - In bytes.
 * @property {number | undefined} [width] - Of an image or a video, in pixels.
 * @property {number | undefined} [height]
 * @property {{content_type: string, size: number} | undefined} [thumbnail]
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
 *   | {op: "unread", chat: string, unread: number, unread_exact: boolean,
 *      unread_mentions: number}
 *   | {op: "unread", inbox: string, total: number, categories: Record<string, number>}
 *   | ({op: "unread_total"} & UnreadTotal)
 *   | ({op: "notification", inbox: string} & NotificationRecord)
 *   | {op: "retracted", inbox: string, id: string}
 *   | {op: "marked", inbox: string, ids?: string[], before?: string, seen?: boolean, read?: boolean,
 *      archived?: boolean, snooze_until?: string | null, action?: string, acted_at?: string}
 *   | {op: "invited", chat: string, user: string}
 *   | {op: "scheduled_failed", scheduled_id: string, chat: string, code: string}
 *   | {op: "chat_changed", chat?: string}
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
 * @property {string} [seen_at]
 * @property {string} [archived_at]
 * @property {string} [snoozed_until]
 * @property {{id: string, label: string, uri?: string}[]} [actions]
 * @property {string} [action] - Id of the action that the user chose.
 * @property {string} [acted_at]
 * @property {string} [collapse_key]
 * @property {number} [collapsed] - Number of older unread notifications with the same key.
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
 * @property {string | undefined} [content_type]
 * @property {number | undefined} [ttl_seconds]
 * @property {number | undefined} [reply_to]
 * @property {string[] | undefined} [mentions]
 * @property {boolean | undefined} [silent]
 * @property {Attachment[] | undefined} [attachments] - The server gets only their ids.
 * @property {number | undefined} [after] - The last entry of the chat that this client had when the
 *   message was sent first; absent if it was not connected. The message can only be after it.
 * @property {string | null | undefined} [epoch] - The epoch of `after`.
 * @property {number} createdAt - In milliseconds since 1970.
 * @property {{code: string, detail: string}} [failed] - Why it will not be sent by itself.
 */

export {};
