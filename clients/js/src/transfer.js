// SPDX-License-Identifier: Apache-2.0
/** Upload one file, and continue where it stopped whenever the network or the server returns. */

/** @typedef {import("./tidings.js").Tidings} Tidings */

/**
 * A file to upload. Its bytes are absent if the browser could not keep them over a reload.
 *
 * @typedef {object} UploadFile
 * @property {string} name
 * @property {string} content_type
 * @property {number} size - In bytes.
 * @property {number | undefined} [width] - Of an image or a video, in pixels.
 * @property {number | undefined} [height]
 * @property {Blob | undefined} [bytes]
 * @property {Blob | undefined} [thumbnail] - A small picture that stands for the file.
 * @property {string | undefined} [attachment_id] - Once the server knows the file.
 * @property {boolean | undefined} [hasThumbnail] - Whether the server has the thumbnail.
 * @property {boolean | undefined} [isDone] - Whether the server has all of it.
 */

/**
 * @typedef {object} Exchange
 * @property {string} method
 * @property {Record<string, string>} [headers]
 * @property {Blob | string} [body]
 * @property {(bytes: number) => void} [progress] - Called with the number of bytes that were sent.
 */

/** @typedef {{status: number, header: (name: string) => string | null, text: string}} Answer */

const PAUSE_MS_MIN = 500;
const PAUSE_MS_MAX = 30_000;
/** A request without any progress for this long is given up, and the upload continues anew. */
const SILENT_MS_MAX = 45_000;
export const THUMBNAIL_BYTES_MAX = 65_536;

/** The server refused a file for good. */
export class FileRefused extends Error {
  name = "Refused";

  /**
   * @param {string} code
   * @param {string} [detail]
   */
  constructor(code, detail) {
    super(detail);
    this.code = code;
  }
}

/** A request failed, and may be made again. */
class Interrupted extends Error {
  /** @param {number} [waitMs] */
  constructor(waitMs = 0) {
    super("interrupted");
    this.waitMs = waitMs;
  }
}

export class Transfer {
  #tidings;
  #file;
  #signal;
  #events;
  #failures = 0;

  /**
   * @param {Tidings} tidings
   * @param {UploadFile} file
   * @param {AbortSignal} signal - Ends the upload.
   * @param {{sent: (bytes: number) => void, changed: (file: UploadFile) => void}} events - `sent`
   *   gets the bytes so far, `changed` what is worth keeping over a reload.
   */
  constructor(tidings, file, signal, events) {
    this.#tidings = tidings;
    this.#file = file;
    this.#signal = signal;
    this.#events = events;
  }

  /** Upload everything; return the file. Throws `FileRefused`, or the reason of the signal. */
  async run() {
    while (!this.#file.isDone) {
      this.#signal.throwIfAborted();
      try {
        await this.#attempt();
      } catch (error) {
        this.#signal.throwIfAborted();
        if (!(error instanceof Interrupted)) throw error;
        const longest = Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** this.#failures++);
        await pause(error.waitMs || longest * (0.5 + Math.random() / 2), this.#signal);
      }
    }
    return this.#file;
  }

  async #attempt() {
    const { bytes } = this.#file;
    if (!bytes) throw new FileRefused("upload.lost");
    let offset = 0;
    if (this.#file.attachment_id) offset = await this.#offset();
    else await this.#create();
    if (this.#file.thumbnail && !this.#file.hasThumbnail) await this.#sendThumbnail();
    while (offset < bytes.size) {
      const before = offset;
      offset = await this.#send(bytes, offset);
      if (offset > before) this.#failures = 0;
    }
    this.#set({ isDone: true });
  }

  /** @param {Partial<UploadFile>} change */
  #set(change) {
    this.#file = { ...this.#file, ...change };
    this.#events.changed(this.#file);
  }

  async #create() {
    const { name, content_type, size, width, height } = this.#file;
    const body = JSON.stringify({ name, content_type, size, width, height });
    const headers = { "content-type": "application/json" };
    const answer = await this.#ask("", { method: "POST", headers, body });
    this.#set({ attachment_id: JSON.parse(answer.text).attachment_id, hasThumbnail: false });
  }

  async #sendThumbnail() {
    const thumbnail = /** @type {Blob} */ (this.#file.thumbnail);
    const headers = { "content-type": thumbnail.type };
    const path = `/${this.#file.attachment_id}/thumbnail`;
    try {
      await this.#ask(path, { method: "PUT", headers, body: thumbnail });
      this.#set({ hasThumbnail: true });
    } catch (error) {
      if (!(error instanceof FileRefused)) throw error;
      // The file can do without, and whoever gets it sees its name instead.
      this.#set({ thumbnail: undefined });
    }
  }

  /** Ask how much of the file has arrived. */
  async #offset() {
    try {
      const answer = await this.#ask(`/${this.#file.attachment_id}`, { method: "HEAD" });
      return Number(answer.header("upload-offset"));
    } catch (error) {
      if (!(error instanceof FileRefused)) throw error;
      // After a day without a message, the server deletes an upload. It is created anew.
      this.#set({ attachment_id: undefined });
      throw new Interrupted();
    }
  }

  /**
   * Send the rest of the bytes; return how many the server has then.
   *
   * @param {Blob} bytes
   * @param {number} offset
   */
  async #send(bytes, offset) {
    const answer = await this.#ask(`/${this.#file.attachment_id}`, {
      method: "PATCH",
      headers: { "upload-offset": String(offset), "content-type": "application/octet-stream" },
      body: bytes.slice(offset),
      progress: (sent) => this.#events.sent(offset + sent),
    });
    const end = Number(answer.header("upload-offset"));
    this.#events.sent(end);
    return end;
  }

  /**
   * Make a request; throw if it is refused, or interrupted.
   *
   * @param {string} path
   * @param {Exchange} exchange
   * @returns {Promise<Answer>}
   */
  async #ask(path, exchange) {
    const url = this.#tidings.link(`/v1/attachments${path}`);
    const answer = await this.#answer(url, exchange);
    const { status } = answer;
    if (status < 300) return answer;
    // This request renews the token, if that is what is wrong.
    if (status === 401) await this.#tidings.request("GET", "/v1/me").catch(() => {});
    const { code = "", detail = "" } = problemOf(answer.text);
    const mayPass = status === 401 || status === 429 || status >= 500;
    if (code === "attachment.offset" || (mayPass && code !== "quota.reached"))
      throw new Interrupted(Number(answer.header("retry-after")) * 1_000);
    throw new FileRefused(code, detail);
  }

  /**
   * @param {string} url
   * @param {Exchange} exchange
   */
  async #answer(url, exchange) {
    const make = globalThis.XMLHttpRequest ? byXhr : byFetch;
    try {
      const authorization = `Bearer ${await this.#tidings.token()}`;
      const headers = { ...exchange.headers, authorization };
      return await make(url, { ...exchange, headers }, this.#signal);
    } catch {
      throw new Interrupted();
    }
  }
}

/** @param {string} text */
function problemOf(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

/**
 * Only this kind of request tells how much of its body was sent.
 *
 * @param {string} url
 * @param {Exchange} exchange
 * @param {AbortSignal} signal
 * @returns {Promise<Answer>}
 */
const byXhr = (url, { method, headers = {}, body = "", progress }, signal) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const abort = () => request.abort();
    let timer = setTimeout(abort, SILENT_MS_MAX);
    const lives = () => {
      clearTimeout(timer);
      timer = setTimeout(abort, SILENT_MS_MAX);
    };
    request.open(method, url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded }) => {
      lives();
      progress?.(loaded);
    };
    request.onload = () => {
      const header = (/** @type {string} */ name) => request.getResponseHeader(name);
      resolve({ status: request.status, header, text: request.responseText });
    };
    request.onerror = request.onabort = () => reject(new Error("no answer"));
    request.onloadend = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    };
    signal.addEventListener("abort", abort);
    request.send(body || null);
  });

/**
 * @param {string} url
 * @param {Exchange} exchange
 * @param {AbortSignal} signal
 * @returns {Promise<Answer>}
 */
async function byFetch(url, { method, headers = {}, body }, signal) {
  const answer = await fetch(url, { method, headers, body: body ?? null, signal });
  const header = (/** @type {string} */ name) => answer.headers.get(name);
  return { status: answer.status, header, text: await answer.text() };
}

/**
 * Wait, but not longer than until the network returns or the signal comes.
 *
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
const pause = (ms, signal) =>
  new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      globalThis.removeEventListener?.("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    globalThis.addEventListener?.("online", done);
    signal.addEventListener("abort", done);
  });
