// SPDX-License-Identifier: Apache-2.0
/**
 * Fold the entries of a log into rows, which a page shows. No I/O.
 *
 * A message is one row, whatever happened to it since; joins, leaves and renames are rows too.
 * Edits, redactions and reactions are not rows: they change the row of their target. A reply is a
 * row, and counts in the row that it answers.
 */

/** @typedef {import("./frames.js").Entry} Entry */

/** @typedef {"redacted" | "expired" | "erased" | "blocked"} Gone - `blocked`: by the user. */

/**
 * A row of a chat. Rows are never changed: a change makes a new row.
 *
 * @typedef {object} Row
 * @property {string} chat
 * @property {number} sequence - 0 while the message is not in the log.
 * @property {string} kind - `message`, or another kind of entry.
 * @property {string} sender
 * @property {number} at - Milliseconds since 1970.
 * @property {string | undefined} [id] - The client_message_id of a message.
 * @property {string | undefined} [content] - Absent if the content is gone.
 * @property {string | undefined} [contentType]
 * @property {number | undefined} [expiresAt]
 * @property {number | undefined} [editedAt]
 * @property {Gone | undefined} [gone]
 * @property {Record<string, number> | undefined} [reactions]
 * @property {number | undefined} [replyTo] - The sequence of the message that this one answers.
 * @property {number | undefined} [replyCount] - The number of replies. The server stops at 1,000.
 * @property {string[] | undefined} [mentions] - Users whom the message mentions; `*` is everyone.
 * @property {import("./frames.js").Attachment[] | undefined} [attachments]
 * @property {boolean | undefined} [silent] - Whether nobody got a push notice of the message.
 * @property {string[] | undefined} [users] - Who joined, left or got a role.
 * @property {string | undefined} [role]
 * @property {string | undefined} [name]
 * @property {"pending" | "failed"} [state] - Of a message that is not in the log.
 * @property {{code: string, detail: string} | undefined} [error] - Why a message failed.
 * @property {number} asOf - The row reflects the log up to this sequence.
 */

/**
 * What a view shows of one chat.
 *
 * @typedef {object} ChatSnapshot
 * @property {string} id
 * @property {import("./chats_view.js").ChatRecord | null} record - Null until it is loaded.
 * @property {readonly Row[]} rows - Oldest first; messages that are not sent yet come last.
 * @property {boolean} isLoaded
 * @property {boolean} hasOlder
 * @property {boolean} hasNewer
 * @property {readonly string[]} typing - The other users who are typing.
 * @property {number} delivered - All other members have received everything up to here.
 * @property {number} read - All other members have read everything up to here.
 * @property {string} draft
 */

const GONE = /** @type {const} */ (["redacted", "expired", "erased", "blocked"]);

/**
 * Return the row of an entry. `asOf` is the head of the page that brought it, and its counts.
 *
 * An entry that comes by itself may have been read from the log later, with the reactions and the
 * replies of entries that are still to come. They are counted when they come.
 *
 * @param {Entry} entry
 * @param {number} [asOf]
 * @returns {Row}
 */
export function rowOf(entry, asOf) {
  const {
    created_at,
    client_message_id: id,
    content_type: contentType,
    expires_at,
    edited_at,
    reply_to: replyTo,
    reply_count: replyCount,
    reactions,
    ...same
  } = entry;
  /** @type {(at: any) => any} */
  const time = (at) => at && Date.parse(at);
  return {
    ...same,
    at: time(created_at),
    id,
    contentType,
    expiresAt: time(expires_at),
    editedAt: time(edited_at),
    replyTo,
    ...(asOf && { reactions, replyCount }),
    gone: GONE.find((why) => entry[why]),
    asOf: asOf ?? entry.sequence,
  };
}

/**
 * Return the sequence of the row that an entry changes, if it changes one.
 *
 * @param {Entry} entry
 */
export const targetOf = ({ target, reply_to }) => target ?? reply_to;

/**
 * Return a row after a change.
 *
 * @param {Row} row
 * @param {Entry} entry
 * @returns {Row}
 */
export function patched(row, entry) {
  if (entry.sequence <= row.asOf) return row;
  if (entry.kind === "redacted") return without(row, "redacted");
  if (entry.kind === "edited") {
    if (entry.content === undefined || row.gone) return row;
    const contentType = entry.content_type ?? row.contentType;
    return { ...row, content: entry.content, contentType, editedAt: Date.parse(entry.created_at) };
  }
  const asOf = entry.sequence;
  if (entry.reply_to) return { ...row, replyCount: (row.replyCount ?? 0) + 1, asOf };
  if (!entry.emoji) return row;
  const { [entry.emoji]: count = 0, ...reactions } = row.reactions ?? {};
  const now = count + (entry.kind === "reacted" ? 1 : -1);
  if (now > 0) reactions[entry.emoji] = now;
  return { ...row, reactions, asOf };
}

/**
 * Return a row without its content.
 *
 * @param {Row} row
 * @param {Gone} gone
 * @returns {Row}
 */
export function without(row, gone) {
  if (row.gone) return row;
  const { content: _, mentions: __, attachments: ___, ...rest } = row;
  return { ...rest, gone };
}

/**
 * Return a row as it is now: the content of an expired message is gone.
 *
 * @param {Row} row
 * @param {number} wall - Milliseconds since 1970.
 */
export function current(row, wall) {
  return row.expiresAt && row.expiresAt <= wall ? without(row, "expired") : row;
}

/** Return the rows of a page. @param {import("./requests.js").Page} page */
export const rowsOf = (page) =>
  page.entries.filter((entry) => !entry.target).map((entry) => rowOf(entry, page.head));

/** Return where the log of a page begins. @param {import("./requests.js").Page} page */
export const startOf = (page) => (page.more ? (page.entries[0]?.sequence ?? 1) : 1);

/**
 * Return when the next row expires; never if none does.
 *
 * @param {Row[]} rows
 * @param {number} wall - Milliseconds since 1970.
 */
export const nextExpiry = (rows, wall) =>
  Math.min(...rows.map(({ expiresAt = 0 }) => (expiresAt > wall ? expiresAt : Infinity)));
