// SPDX-License-Identifier: Apache-2.0
/** The types of the state that a conversation starts from, and of its listener. */

/** @typedef {import("./frames.js").Entry} Entry */
/** @typedef {import("./frames.js").Outgoing} Outgoing */
/** @typedef {import("./frames.js").ServerFrame} ServerFrame */

/**
 * The functions that a conversation calls to report changes.
 *
 * @typedef {object} Listener
 * @property {(user: string, epoch: string, isNew: boolean) => void} welcome - `isNew` means that
 *   the epoch has changed, so that nothing that was kept before is valid.
 * @property {() => void} live
 * @property {(entry: Entry) => void} applied
 * @property {(chat: string, start: number) => void} restarted
 * @property {(chat: string) => void} forgotten
 * @property {(heads: Record<string, number>) => void} heads
 * @property {(frame: ServerFrame) => void} notice
 * @property {(message: Outgoing, place: Place) => void} sent
 * @property {(message: Outgoing) => void} failed
 */

/**
 * The position of a message in the log.
 *
 * @typedef {{sequence: number, message_id: string, created_at: string}} Place
 */

/**
 * @typedef {object} SavedState
 * @property {string | null} user
 * @property {string | null} epoch
 * @property {Iterable<readonly [string, number]>} held
 * @property {Iterable<readonly [string, number]>} reads
 */

export {};
