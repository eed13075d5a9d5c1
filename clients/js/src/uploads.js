// SPDX-License-Identifier: Apache-2.0
/**
 * Send messages with files: a live list of those whose files are being uploaded. `index.js` does
 * not contain this; a page imports it when its user attaches the first file.
 *
 * A message is kept with its files until it is in the log, so a reload continues the upload. One
 * tab works on a message at a time. When all files have arrived, the message goes to the outbox of
 * the client, under the id that it had from the beginning.
 */

import { FileRefused, Transfer } from "./transfer.js";
import { uploadsName } from "./kept_uploads.js";
import { UploadStore } from "./upload_store.js";
import { View } from "./view.js";

export { THUMBNAIL_BYTES_MAX } from "./transfer.js";
export { hasUploads } from "./kept_uploads.js";

/**
 * @typedef {import("./chat_view.js").SendOptions & {sendAt?: string}} SendOptions - With `sendAt`, a
 *   time, the message is scheduled when its files have arrived.
 */
/** @typedef {import("./frames.js").Attachment} Attachment */
/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./tidings.js").Tidings} Tidings */
/** @typedef {import("./transfer.js").UploadFile} UploadFile */

/**
 * A message with files that are not all uploaded.
 *
 * @typedef {object} PendingMessage
 * @property {string} id - The client_message_id.
 * @property {string} chat
 * @property {string} content
 * @property {SendOptions} options
 * @property {UploadFile[]} files
 * @property {number} createdAt - In milliseconds since 1970.
 * @property {{code: string, detail: string}} [failed] - Why it will not be sent by itself.
 */

/**
 * @typedef {object} UploadsSnapshot
 * @property {readonly PendingMessage[]} messages - Oldest first.
 * @property {ReadonlyMap<string, readonly number[]>} sent - The bytes of each file that were sent,
 *   by the id of the message.
 * @property {boolean} isKept - Whether the files survive a reload of the page.
 */

/** Messages whose files are uploaded at the same time; the server allows a user four uploads. */
const WORKING_MAX = 3;
export const FILES_MAX = 10;
/** Like other unsent messages, those with files are given up after six days. */
const AGE_MS_MAX = 6 * 24 * 60 * 60 * 1_000;

/** @type {WeakMap<Tidings, Uploads>} */
const ALL = new WeakMap();

/**
 * Return the messages of a client whose files are being uploaded.
 *
 * @param {Tidings} tidings
 * @returns {Uploads}
 */
export function uploadsOf(tidings) {
  const uploads = ALL.get(tidings) ?? new Uploads(tidings);
  ALL.set(tidings, uploads);
  return uploads;
}

/** @extends {View<UploadsSnapshot>} */
export class Uploads extends View {
  #tidings;
  #store;
  #messages = /** @type {Map<string, PendingMessage>} */ (new Map());
  #sent = /** @type {Map<string, number[]>} */ (new Map());
  #working = /** @type {Map<string, AbortController>} */ (new Map());
  #isKept = true;
  #channel;

  /** @param {Tidings} tidings */
  constructor(tidings) {
    super(() => this.#make());
    this.#tidings = tidings;
    this.#store = new UploadStore(tidings);
    this.#channel = new BroadcastChannel(uploadsName(tidings));
    this.#channel.onmessage = () => void this.#load();
    /** @type {any} */ (this.#channel).unref?.(); // Node need not wait for it
    tidings.on(({ type }) => void (type === "signed-out" && this.#forget()));
    this.loaded = this.#load();
  }

  /** @returns {UploadsSnapshot} */
  #make() {
    const messages = [...this.#messages.values()].sort((a, b) => a.createdAt - b.createdAt);
    return { messages, sent: new Map(this.#sent), isKept: this.#isKept };
  }

  /**
   * Send a message with files; return its id.
   *
   * @param {string} chat
   * @param {string} content - The caption; may be empty.
   * @param {UploadFile[]} files - At most 10.
   * @param {SendOptions} [options]
   */
  send(chat, content, files, options = {}) {
    const id = crypto.randomUUID();
    const message = { id, chat, content, options, files, createdAt: Date.now() };
    void this.#keep(message).then(() => this.#work());
    return id;
  }

  /**
   * Try a failed message again.
   *
   * @param {string} _chat
   * @param {string} id
   */
  retry(_chat, id) {
    const { failed, ...message } = this.#messages.get(id) ?? {};
    if (!failed) return;
    const again = { .../** @type {PendingMessage} */ (message), createdAt: Date.now() };
    void this.#keep(again).then(() => this.#work());
  }

  /**
   * Stop the upload, and delete the message.
   *
   * @param {string} _chat
   * @param {string} id
   */
  discard(_chat, id) {
    this.#working.get(id)?.abort();
    void this.#drop(id);
  }

  // Keeping.

  /** Take over what earlier pages have left, and forget what another tab has sent or deleted. */
  async #load() {
    const before = [...this.#messages.keys()]; // a message of this moment may not be stored yet
    const kept = await this.#store.all().catch(() => null);
    if (!kept) return;
    const ids = new Set(kept.map(({ id }) => id));
    for (const id of before) {
      if (ids.has(id) || !this.#isKept) continue;
      this.#working.get(id)?.abort();
      this.#messages.delete(id);
    }
    for (const message of kept) {
      if (!this.#working.has(message.id)) this.#messages.set(message.id, message);
    }
    this.changed();
    this.#work();
  }

  /** @param {PendingMessage} message */
  async #keep(message) {
    this.#messages.set(message.id, message);
    this.changed();
    try {
      await this.#store.put(message);
    } catch {
      await this.#keepName(message);
    }
    this.#channel.postMessage("changed");
  }

  /**
   * Keep a message without its bytes, so that a reload shows what was lost.
   *
   * @param {PendingMessage} message
   */
  async #keepName(message) {
    this.#isKept = false;
    this.changed();
    const files = message.files.map(({ bytes: _, thumbnail: __, ...file }) => file);
    await this.#store.put({ ...message, files }).catch(() => {});
  }

  /** @param {string} id */
  async #drop(id) {
    this.#messages.delete(id);
    this.#sent.delete(id);
    this.changed();
    await this.#store.delete(id).catch(() => {});
    const left = await this.#store.all().catch(() => null);
    if (left?.length === 0 && !this.#messages.size) await this.#store.wipe().catch(() => {});
    this.#channel.postMessage("changed");
  }

  /** Delete everything, because the user has signed out. */
  async #forget() {
    for (const work of this.#working.values()) work.abort();
    this.#messages.clear();
    this.#sent.clear();
    this.changed();
    await this.#store.wipe().catch(() => {});
  }

  // Uploading.

  /** Begin with the messages that wait, a few at a time. */
  #work() {
    for (const { id, failed } of this.snapshot().messages) {
      if (failed || this.#working.has(id)) continue;
      if (this.#working.size >= WORKING_MAX) return;
      const work = new AbortController();
      this.#working.set(id, work);
      void this.#alone(id, work.signal).then(() => {
        this.#working.delete(id);
        this.#work();
      });
    }
  }

  /**
   * Work on a message as the only tab.
   *
   * @param {string} id
   * @param {AbortSignal} signal
   */
  async #alone(id, signal) {
    const { locks } = globalThis.navigator ?? {};
    const work = async () => {
      // Another tab may have continued it before it was closed.
      const kept = locks && this.#isKept ? await this.#store.get(id).catch(() => null) : null;
      if (kept === undefined) {
        this.#messages.delete(id);
        this.changed();
      } else if (kept && !signal.aborted) this.#messages.set(id, kept);
      if (this.#messages.has(id)) await this.#finish(id, signal);
    };
    try {
      await (locks
        ? locks.request(`${this.#tidings.name} upload ${id}`, { signal }, work)
        : work());
    } catch (error) {
      if (!signal.aborted) await this.#fail(id, error);
    }
  }

  /**
   * Upload what is missing, and send the message.
   *
   * @param {string} id
   * @param {AbortSignal} signal
   */
  async #finish(id, signal) {
    const begun = this.#messages.get(id);
    if (!begun) return;
    if (begun.createdAt < Date.now() - AGE_MS_MAX) throw new FileRefused("send.expired");
    const sent = begun.files.map((file) => (file.isDone ? file.size : 0));
    this.#sent.set(id, sent);
    for (const [index, file] of begun.files.entries()) {
      const transfer = new Transfer(this.#tidings, file, signal, {
        sent: (bytes) => {
          sent[index] = bytes;
          this.changed();
        },
        changed: (now) => this.#change(id, index, now),
      });
      await transfer.run();
    }
    const message = this.#messages.get(id);
    if (message?.options.sendAt) await this.#schedule(message);
    else if (message) await this.#send(message, signal);
  }

  /**
   * @param {string} id
   * @param {number} index
   * @param {UploadFile} file
   */
  #change(id, index, file) {
    const message = this.#messages.get(id);
    if (!message) return;
    const next = { ...message, files: message.files.with(index, file) };
    this.#messages.set(id, next);
    if (this.#isKept) void this.#store.put(next).catch(() => {});
  }

  /** @param {PendingMessage} message */
  async #schedule({ id, chat, content, options, files }) {
    await this.#tidings.request("POST", `/v1/chats/${chat}/messages`, {
      client_message_id: id,
      content,
      send_at: options.sendAt,
      ttl_seconds: options.ttlSeconds,
      reply_to: options.replyTo,
      mentions: options.mentions,
      silent: options.silent,
      attachments: files.map((file) => file.attachment_id),
    });
    await this.#drop(id);
  }

  /**
   * Hand a message to the outbox. Until it is in the log, a reload begins here again, under the
   * same id.
   *
   * @param {PendingMessage} message
   * @param {AbortSignal} signal
   */
  async #send({ id, chat, content, options, files }, signal) {
    const attachments = files.map(attachmentOf);
    const { done } = this.#tidings.chat(chat).send(content, { ...options, id, attachments });
    this.#messages.delete(id);
    this.changed();
    await new Promise((resolve) => {
      done.then(resolve, resolve);
      signal.addEventListener("abort", resolve);
    });
    if (!signal.aborted) await this.#drop(id);
  }

  /**
   * @param {string} id
   * @param {any} error
   */
  async #fail(id, { code = "", message: detail = "" }) {
    const message = this.#messages.get(id);
    if (message) await this.#keep({ ...message, failed: { code, detail } });
  }
}

/**
 * Return what the log says of an uploaded file.
 *
 * @param {UploadFile} file
 * @returns {Attachment}
 */
function attachmentOf({ bytes: _, isDone: __, hasThumbnail: ___, thumbnail, ...file }) {
  const small = thumbnail && { content_type: thumbnail.type, size: thumbnail.size };
  return { ...file, attachment_id: file.attachment_id ?? "", thumbnail: small };
}

/**
 * Return the row of a message whose files are being uploaded.
 *
 * @param {PendingMessage} message
 * @param {string} sender
 * @returns {Row}
 */
export const uploadRow = ({ id, chat, content, options, files, createdAt, failed }, sender) => ({
  ...{ id, chat, content, sender, sequence: 0, kind: "message", at: createdAt, asOf: 0 },
  replyTo: options.replyTo,
  mentions: options.mentions,
  silent: options.silent,
  attachments: files.map(attachmentOf),
  error: failed,
  state: failed ? "failed" : "pending",
});
