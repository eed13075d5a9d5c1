// SPDX-License-Identifier: Apache-2.0
/**
 * Find the rows of erased authors.
 *
 * The server names an author by a keyed digest of the user id, so that a client learns nothing
 * about people whom it does not know.
 */

/** @typedef {import("./frames.js").ServerFrame} ServerFrame */
/** @typedef {import("./rows.js").Row} Row */

/**
 * Return a function that tells whether a row was erased, after the senders of all rows were
 * compared with the frame.
 *
 * @param {Extract<ServerFrame, {op: "erased"}>} frame
 * @param {Iterable<string>} senders - All senders whose rows this client may have.
 * @returns {Promise<(row: Row) => boolean>}
 */
export async function erasedBy({ salt = "", authors = [] }, senders) {
  const before = new Map(authors.map((author) => [author.digest, Date.parse(author.before)]));
  const bytes = Uint8Array.from(salt.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]);
  /** @type {Map<string, number | undefined>} */
  const ends = new Map();
  for (const sender of senders) {
    const digest = await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(sender));
    const name = new DataView(digest).getBigUint64(0).toString(16).padStart(16, "0");
    ends.set(sender, before.get(name));
  }
  return (row) => row.at <= /** @type {number} */ (ends.get(row.sender));
}
