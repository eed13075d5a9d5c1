// SPDX-License-Identifier: Apache-2.0
/** Save changes in batches: one write to the storage for all changes since the last write. */

/** @typedef {import("./storage.js").Changes} Changes */

const DELAY_MS = 100;

export class Journal {
  #storage;
  #changes = empty();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #writing = Promise.resolve();

  /** @param {import("./storage.js").Storage} storage */
  constructor(storage) {
    this.#storage = storage;
  }

  /** The changes for the next write, which follows soon after a change is added. */
  get changes() {
    this.#timer ??= setTimeout(() => this.flush(), DELAY_MS);
    return this.#changes;
  }

  /** Write everything now. */
  flush() {
    const changes = this.#changes;
    void this.drop();
    this.#writing = this.#writing.then(() => this.#storage.save(changes)).catch(() => {});
    return this.#writing;
  }

  /** Forget the changes that were not written yet. */
  drop() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#changes = empty();
    return this.#writing;
  }
}

/** @returns {Required<Omit<Changes, "meta">> & Pick<Changes, "meta">} */
const empty = () => ({
  ranges: new Map(),
  rows: [],
  patches: [],
  outbox: new Map(),
  drafts: new Map(),
  reads: new Map(),
});
