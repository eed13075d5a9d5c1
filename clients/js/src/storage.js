// SPDX-License-Identifier: Apache-2.0
/**
 * Save the data that must outlive a page: rows of logs, the outbox, drafts and read marks.
 *
 * IndexedDB can fail at any moment: in private windows, when the disk is full, when the browser or
 * a user deletes it, or when another tab has a newer version open. The client then continues in
 * memory. The saved data is only a cache, except for the outbox, which every tab also has in
 * memory.
 */

import { inTime } from "./in_time.js";
import { patched, targetOf } from "./rows.js";

/** @typedef {import("./frames.js").Outgoing} Outgoing */
/** @typedef {import("./frames.js").Entry} Entry */
/** @typedef {import("./rows.js").Row} Row */

/**
 * The part of a chat's log that is kept: all rows from `start` to `have`.
 *
 * @typedef {{chat: string, start: number, have: number}} Range
 */

/**
 * @typedef {object} Meta
 * @property {string | null} user
 * @property {string | null} epoch
 * @property {string} device - The random name of this browser, until the user signs out.
 * @property {number} erasures - How many erasures of authors are applied.
 */

/**
 * @typedef {object} Saved
 * @property {Meta} meta
 * @property {Range[]} ranges
 * @property {Outgoing[]} outbox
 * @property {[string, string][]} drafts
 * @property {[string, number][]} reads
 */

/**
 * Changes that are saved together. Null deletes.
 *
 * @typedef {object} Changes
 * @property {Meta} [meta]
 * @property {Map<string, Range | null>} [ranges] - Null also deletes all rows of the chat.
 * @property {Row[]} [rows]
 * @property {Entry[]} [patches] - Entries that change earlier rows.
 * @property {Map<string, Outgoing | null>} [outbox]
 * @property {Map<string, string | null>} [drafts]
 * @property {Map<string, number>} [reads]
 */

/** @typedef {{rows: Row[], range: Range | undefined}} Kept - A page of kept rows, oldest first. */

/**
 * @typedef {object} Storage
 * @property {string} kind - `indexeddb`, `memory`, or the name of another one.
 * @property {() => Promise<Saved>} load
 * @property {(changes: Changes) => Promise<void>} save
 * @property {(chat: string, before: number, limit: number) => Promise<Kept>} page - The newest rows
 *   before a sequence, and the range of the chat at that moment.
 * @property {(change: (row: Row) => Row | null) => Promise<void>} sweep - Replace rows that have
 *   changed; null deletes a row.
 * @property {() => Promise<void>} wipe
 * @property {() => void} close
 */

/**
 * A part of a storage, in which values have keys. Only `rows` has keys of two parts.
 *
 * @typedef {string | [string, number]} Key
 * @typedef {object} Store
 * @property {(key: Key) => Promise<any>} get
 * @property {(key: Key, value: unknown) => void} put - Null deletes.
 * @property {() => Promise<[string, any][]>} all
 * @property {(visit: (row: Row) => Row | null | false, chat?: string, before?: number)
 *   => Promise<void>} walk - Visit all rows, or those of a chat before a sequence, the newest first,
 *   until `visit` returns false; replace each by what it returns.
 */

/** @typedef {[string, any][]} Pairs - Keys and values. */

/** @typedef {<T>(work: (store: (name: string) => Store) => Promise<T>) => Promise<T>} Run */

const LISTS = /** @type {const} */ (["ranges", "outbox", "drafts", "reads"]);
const STORES = ["meta", "rows", ...LISTS];

/**
 * Return a storage made of stores.
 *
 * @param {string} kind
 * @param {Run} run - Does some work in one transaction.
 * @param {() => Promise<void>} wipe
 * @param {() => void} close
 * @returns {Storage}
 */
const storageOf = (kind, run, wipe, close) => ({
  kind,
  wipe,
  close,
  load: () =>
    run(async (store) => {
      const found = await store("meta").get("meta");
      const meta = found ?? {
        user: null,
        epoch: null,
        device: `web-${crypto.randomUUID().slice(0, 8)}`,
        erasures: 0,
      };
      if (!found) store("meta").put("meta", meta);
      const [ranges, outbox, drafts, reads] = /** @type {[Pairs, Pairs, Pairs, Pairs]} */ (
        await Promise.all(LISTS.map((name) => store(name).all()))
      );
      const values = (/** @type {Pairs} */ pairs) => pairs.map(([, value]) => value);
      return {
        meta,
        ranges: values(ranges),
        outbox: values(outbox).sort((a, b) => a.createdAt - b.createdAt),
        drafts,
        reads,
      };
    }),
  save: (changes) =>
    run(async (store) => {
      if (changes.meta) store("meta").put("meta", changes.meta);
      for (const name of LISTS) {
        for (const [key, value] of changes[name] ?? []) store(name).put(key, value);
      }
      for (const [chat, range] of changes.ranges ?? [])
        if (!range) await store("rows").walk(() => null, chat, Infinity);
      for (const row of changes.rows ?? []) store("rows").put([row.chat, row.sequence], row);
      for (const entry of changes.patches ?? []) {
        const row = await store("rows").get([entry.chat, targetOf(entry) ?? 0]);
        if (row) store("rows").put([row.chat, row.sequence], patched(row, entry));
      }
    }),
  page: (chat, before, limit) =>
    run(async (store) => {
      const range = await store("ranges").get(chat);
      /** @type {Row[]} */
      const rows = [];
      const visit = (/** @type {Row} */ row) => rows.length < limit && (rows.unshift(row), row);
      await store("rows").walk(visit, chat, before);
      return { rows, range };
    }),
  sweep: (change) => run((store) => store("rows").walk(change)),
});

/**
 * Return a storage that lasts as long as the page.
 *
 * @returns {Storage}
 */
export function memory() {
  /** @type {Record<string, Map<string, any>>} */
  let maps = {};
  /**
   * @param {string} name
   * @returns {Store}
   */
  const store = (name) => {
    const map = (maps[name] ??= new Map());
    const put = (/** @type {Key} */ key, /** @type {unknown} */ value) =>
      void (value === null ? map.delete(String(key)) : map.set(String(key), value));
    return {
      get: async (key) => map.get(String(key)),
      put,
      all: async () => [...map],
      walk: async (visit, chat, before) => {
        const rows = [...map.values()].filter(
          (row) => !before || (row.chat === chat && row.sequence < before),
        );
        for (const row of rows.sort((a, b) => b.sequence - a.sequence)) {
          const next = visit(row);
          if (next === false) return;
          put([row.chat, row.sequence], next);
        }
      },
    };
  };
  return storageOf(
    "memory",
    (work) => work(store),
    async () => {
      maps = {};
    },
    () => {},
  );
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = reject;
  });

/**
 * @param {IDBObjectStore} store
 * @returns {Store}
 */
const storeOf = (store) => ({
  get: (key) => done(store.get(key)),
  put: (key, value) => void (value === null ? store.delete(key) : store.put(value, key)),
  all: async () => {
    const [keys, values] = await Promise.all([done(store.getAllKeys()), done(store.getAll())]);
    return keys.map((key, index) => [String(key), values[index]]);
  },
  walk: (visit, chat, before) =>
    new Promise((resolve, reject) => {
      const part = before ? IDBKeyRange.bound([chat, 0], [chat, before], false, true) : null;
      const request = store.openCursor(part, "prev");
      request.onerror = reject;
      request.onsuccess = () => {
        const cursor = request.result;
        const next = cursor && visit(cursor.value);
        if (!cursor || next === false) return resolve();
        if (!next) cursor.delete();
        else if (next !== cursor.value) cursor.update(next);
        cursor.continue();
      };
    }),
});

/**
 * Return a storage in the browser's database, which all tabs of a site share.
 *
 * @param {string} [name]
 * @returns {Storage}
 */
export function indexedDb(name = "tidings") {
  /** @type {Promise<IDBDatabase> | null} */
  let opening = null;
  const open = () =>
    (opening ??= new Promise((resolve, reject) => {
      const request = indexedDB.open(name, 1);
      request.onupgradeneeded = () => {
        for (const store of STORES) request.result.createObjectStore(store);
      };
      request.onerror = request.onblocked = reject;
      request.onsuccess = () => {
        const database = request.result;
        // Otherwise this tab would keep another one from deleting or upgrading the database.
        database.onversionchange = () => database.close();
        resolve(database);
      };
    }));
  const shut = async () => {
    const closing = opening;
    opening = null; // whoever comes now opens it again
    await closing?.then((database) => database.close()).catch(() => {});
  };
  return storageOf(
    "indexeddb",
    async (work) => {
      const transaction = (await open()).transaction(STORES, "readwrite");
      const ended = new Promise((resolve, reject) => {
        transaction.oncomplete = resolve;
        transaction.onabort = reject;
      });
      ended.catch(() => {}); // reported below, unless the work fails first
      const result = await work((store) => storeOf(transaction.objectStore(store)));
      await ended;
      return result;
    },
    async () => {
      await shut();
      await done(indexedDB.deleteDatabase(name));
    },
    shut,
  );
}

/**
 * Return a storage that uses another one until it fails or does not answer, then memory. A
 * transaction of a database that the browser deletes may never end.
 *
 * @param {Storage} first
 * @param {() => void} onChange - Called when the storage has failed.
 * @returns {Storage}
 */
export function reserve(first, onChange) {
  let storage = first;
  /**
   * @param {"load" | "save" | "page" | "sweep"} name
   * @returns {(...given: any[]) => Promise<any>}
   */
  const use =
    (name) =>
    async (...given) => {
      const used = /** @type {any} */ (storage);
      try {
        return await inTime(used[name](...given));
      } catch (error) {
        if (used.kind === "memory") throw error;
        if (storage === used) {
          storage = memory();
          onChange();
        }
        return /** @type {any} */ (storage)[name](...given);
      }
    };
  return {
    get kind() {
      return storage.kind;
    },
    load: use("load"),
    save: use("save"),
    page: use("page"),
    sweep: use("sweep"),
    // What was kept before the storage failed has to go, too.
    wipe: async () => {
      for (const one of new Set([storage, first])) await inTime(one.wipe()).catch(() => {});
    },
    close: () => storage.close(),
  };
}
