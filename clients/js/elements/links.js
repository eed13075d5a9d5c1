// SPDX-License-Identifier: Apache-2.0
/**
 * Links to the files of messages, for `<img>` and players, which cannot send a token. A link works
 * for five minutes; a picture that is shown needs none any more.
 */

/** @typedef {import("../src/frames.js").Attachment} Attachment */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {{url: string, until: number}} Link */

const LINKS_MAX = 500;
const ASKED_MAX = 4;
/** A link that has less time left is not given to anybody. */
const LEFT_MS_MIN = 15_000;
/** Time until a link that did not come is asked for again. */
const AGAIN_MS = 5_000;

export class Links {
  #tidings;
  #changed;
  #known = /** @type {Map<string, Link>} */ (new Map());
  #wanted = /** @type {Map<string, () => Promise<void>>} */ (new Map());
  #broken = /** @type {Set<string>} */ (new Set());
  #asked = /** @type {Set<string>} */ (new Set());
  /** Those that did not come, until they are asked for again. */
  #resting = /** @type {Set<string>} */ (new Set());

  /**
   * @param {import("../src/tidings.js").Tidings} tidings
   * @param {(row: Row) => void} changed - Called when a link has come.
   */
  constructor(tidings, changed) {
    this.#tidings = tidings;
    this.#changed = changed;
  }

  /**
   * Return a link, and ask for it if there is none; empty until then.
   *
   * @param {Row} row
   * @param {Attachment} file
   * @param {boolean} [isThumbnail]
   */
  of(row, file, isThumbnail = false) {
    const key = keyOf(row, file, isThumbnail);
    const known = this.#known.get(key);
    if (known) return known.url;
    if ([this.#broken, this.#asked, this.#resting].some((keys) => keys.has(key))) return "";
    this.#wanted.set(key, async () => {
      await this.fresh(row, file, isThumbnail).catch((error) => {
        if (error.status) this.#broken.add(key);
        else this.#rest(key, row);
      });
      this.#changed(row);
    });
    this.#ask();
    return "";
  }

  /**
   * Wait, because the server could not be reached.
   *
   * @param {string} key
   * @param {Row} row
   */
  #rest(key, row) {
    this.#resting.add(key);
    setTimeout(() => {
      this.#resting.delete(key);
      this.#changed(row);
    }, AGAIN_MS);
  }

  /** Ask for the links that are shown, a few at a time. The one that was wanted last comes first. */
  #ask() {
    while (this.#asked.size < ASKED_MAX && this.#wanted.size) {
      const [key, ask] = /** @type {[string, () => Promise<void>]} */ ([...this.#wanted].at(-1));
      this.#wanted.delete(key);
      this.#asked.add(key);
      void ask().then(() => {
        this.#asked.delete(key);
        this.#ask();
      });
    }
  }

  /**
   * Return a link that works for a while.
   *
   * @param {Row} row
   * @param {Attachment} file
   * @param {boolean} [isThumbnail]
   */
  async fresh(row, file, isThumbnail = false) {
    const key = keyOf(row, file, isThumbnail);
    const known = this.#known.get(key);
    if (known && known.until - Date.now() > LEFT_MS_MIN) return known.url;
    const path = `/v1/chats/${row.chat}/messages/${row.sequence}/attachments/${file.attachment_id}`;
    const body = { thumbnail: isThumbnail };
    const made = await this.#tidings.request("POST", `${path}/link`, body);
    const url = this.#tidings.link(made.url);
    if (this.#known.size >= LINKS_MAX) this.#known.clear();
    this.#known.set(key, { url, until: Date.parse(made.expires_at) });
    return url;
  }

  /**
   * Handle that something could not be loaded: a link that has run out is replaced.
   *
   * @param {Row} row
   * @param {Attachment} file
   * @param {boolean} [isThumbnail]
   */
  failed(row, file, isThumbnail = false) {
    const key = keyOf(row, file, isThumbnail);
    const known = this.#known.get(key);
    if (known && known.until - Date.now() > LEFT_MS_MIN) this.#broken.add(key);
    this.#known.delete(key);
    this.#changed(row);
  }

  /**
   * Return whether there is nothing behind the link, or nothing that the browser can show.
   *
   * @param {Row} row
   * @param {Attachment} file
   * @param {boolean} [isThumbnail]
   */
  isBroken(row, file, isThumbnail = false) {
    return this.#broken.has(keyOf(row, file, isThumbnail));
  }
}

/**
 * @param {Row} row
 * @param {Attachment} file
 * @param {boolean} isThumbnail
 */
const keyOf = (row, file, isThumbnail) =>
  `${row.chat} ${row.sequence} ${file.attachment_id} ${isThumbnail}`;
