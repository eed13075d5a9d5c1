// SPDX-License-Identifier: Apache-2.0
/**
 * Keep messages whose files are not uploaded yet, with the bytes of the files, in a database of
 * their own. It exists only while there is such a message, so a page can see from its name alone
 * whether there is something to continue.
 */

import { uploadsName } from "./kept_uploads.js";

/** @typedef {import("./uploads.js").PendingMessage} PendingMessage */

const STORE = "messages";

/** Every call may fail, because the browser may forbid a database or have no room for it. */
export class UploadStore {
  #name;
  #opening = /** @type {Promise<IDBDatabase> | null} */ (null);
  /** Whoever opens the database anew waits until the old one is deleted. */
  #wiping = /** @type {Promise<unknown>} */ (Promise.resolve());

  /** @param {{name: string}} tidings */
  constructor(tidings) {
    this.#name = uploadsName(tidings);
  }

  /** @returns {Promise<PendingMessage[]>} */
  all() {
    return this.#run("readonly", (store) => store.getAll());
  }

  /**
   * @param {string} id
   * @returns {Promise<PendingMessage | undefined>}
   */
  get(id) {
    return this.#run("readonly", (store) => store.get(id));
  }

  /** @param {PendingMessage} message */
  put(message) {
    return this.#run("readwrite", (store) => store.put(message));
  }

  /** @param {string} id */
  delete(id) {
    return this.#run("readwrite", (store) => store.delete(id));
  }

  /** Delete the database. */
  wipe() {
    const opening = this.#opening;
    this.#opening = null;
    return (this.#wiping = this.#delete(opening));
  }

  /** @param {Promise<IDBDatabase> | null} opening */
  async #delete(opening) {
    (await opening?.catch(() => null))?.close();
    const request = indexedDB.deleteDatabase(this.#name);
    await new Promise((resolve) => {
      request.onsuccess = request.onerror = request.onblocked = resolve;
    });
  }

  /**
   * @param {IDBTransactionMode} mode
   * @param {(store: IDBObjectStore) => IDBRequest} work
   * @returns {Promise<any>}
   */
  async #run(mode, work) {
    const transaction = (await this.#open()).transaction(STORE, mode);
    const request = work(transaction.objectStore(STORE));
    await new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
    return request.result;
  }

  #open() {
    return (this.#opening ??= this.#wiping.then(() => this.#request()));
  }

  /** @returns {Promise<IDBDatabase>} */
  #request() {
    return new Promise((resolve, reject) => {
      const request = indexedDB.open(this.#name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
      request.onerror = request.onblocked = () => {
        this.#opening = null;
        reject(request.error);
      };
      request.onsuccess = () => {
        const database = request.result;
        // Otherwise this tab would keep another one from deleting the database.
        database.onversionchange = () => {
          this.#opening = null;
          database.close();
        };
        resolve(database);
      };
    });
  }
}
