// SPDX-License-Identifier: Apache-2.0
/** Find out whether an earlier page has left messages with files. */

/**
 * Return the name of the database with messages whose files are not uploaded yet.
 *
 * @param {{name: string}} tidings
 */
export const uploadsName = ({ name }) => `${name} uploads`;

/**
 * Return whether there is such a database: it exists only while there is such a message.
 *
 * @param {{name: string}} tidings
 */
export async function hasUploads(tidings) {
  const found = await globalThis.indexedDB?.databases?.().catch(() => []);
  return !!found?.some(({ name }) => name === uploadsName(tidings));
}
