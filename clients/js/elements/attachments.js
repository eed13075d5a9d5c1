// SPDX-License-Identifier: Apache-2.0
/**
 * The files of `<tidings-chat>`: chosen ones, those that are being uploaded, and those of messages.
 * This is loaded when the user attaches a file, or when a message with one is shown.
 */

import { FILES_MAX, uploadRow, uploadsOf } from "../src/uploads.js";
import { attachmentList } from "./attachment_list.js";
import { ATTACHMENT_STYLE } from "./attachment_style.js";
import { h } from "./describe.js";
import { icon } from "./icons.js";
import { Links } from "./links.js";
import { PICTURE, pictureOf } from "./pictures.js";
import { Recorder } from "./recorder.js";
import { wordsOf } from "./strings_more.js";
import { bytes, said } from "./text.js";

/** @typedef {import("../src/rows.js").ChatSnapshot} ChatSnapshot */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("../src/transfer.js").UploadFile} UploadFile */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */

/**
 * A file that the user has chosen, and what is found out about it meanwhile.
 *
 * @typedef {{file: File, url: string, ready: Promise<UploadFile>}} Chosen
 */

const TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$/;
const NAME_CHARACTERS_MAX = 255;
/** The texts that explain refusals to the user. */
const REASONS = /** @type {const} */ ({
  "attachment.too_large": "fileTooLarge",
  "attachment.type": "fileType",
  "attachment.used": "fileUsed",
  "attachment.unknown": "fileGone",
  "attachment.gone": "fileGone",
  "attachment.off": "filesOff",
  "quota.reached": "fileQuota",
  "upload.lost": "fileLost",
});

export class Attachments {
  element;
  uploads;
  links;
  #recorder;
  /** The chosen files by chat, so that none of them gets to somebody else. */
  #chosen = /** @type {Map<string, Chosen[]>} */ (new Map());
  /** How often something about the files of a row has changed. */
  #stamps = /** @type {Map<string, number>} */ (new Map());

  /**
   * @param {TidingsChat} element
   * @param {import("../src/tidings.js").Tidings} tidings
   * @param {(css: string) => void} addStyle
   */
  constructor(element, tidings, addStyle) {
    this.element = element;
    this.uploads = uploadsOf(tidings);
    element.watch(this.uploads);
    this.links = new Links(tidings, (row) => {
      const key = `${row.chat} ${row.sequence}`;
      this.#stamps.set(key, (this.#stamps.get(key) ?? 0) + 1);
      element.update();
    });
    this.#recorder = new Recorder(element.update);
    addStyle(ATTACHMENT_STYLE);
  }

  // Messages.

  /**
   * Return a number that changes with what is known of the files of a row.
   *
   * @param {Row} row
   */
  stampOf({ chat, sequence }) {
    return 1 + (this.#stamps.get(`${chat} ${sequence}`) ?? 0);
  }

  /**
   * Return a chat with the messages whose files are being uploaded.
   *
   * @param {ChatSnapshot} chat
   * @returns {ChatSnapshot}
   */
  with(chat) {
    const user = this.element.tidings?.user ?? "";
    const known = new Set(chat.rows.map((row) => row.id));
    const rows = this.uploads
      .snapshot()
      .messages.filter((one) => one.chat === chat.id && !known.has(one.id))
      .map((one) => uploadRow(one, user));
    return rows.length ? { ...chat, rows: [...chat.rows, ...rows] } : chat;
  }

  /** Number of messages whose files are being uploaded. */
  get waiting() {
    return this.uploads.snapshot().messages.filter(({ failed }) => !failed).length;
  }

  /** Return the message of a row, if its files are being uploaded. @param {Row} row */
  messageOf({ id, sequence }) {
    return sequence ? undefined : this.uploads.snapshot().messages.find((one) => one.id === id);
  }

  /** Describe the files of a message. @param {Row} row */
  list(row) {
    return attachmentList(this, row);
  }

  /**
   * Return why a message with files was refused, in the words of the user.
   *
   * @param {{code: string, detail: string} | undefined} error
   */
  reason(error) {
    const name = REASONS[/** @type {keyof typeof REASONS} */ (error?.code)];
    return name ? wordsOf(this.element)[name] : "";
  }

  // Choosing.

  /** The files that are chosen for the open chat. */
  get chosen() {
    return this.#chosen.get(this.element.chat) ?? [];
  }

  /**
   * Choose files for the next message of a chat.
   *
   * @param {Iterable<File>} files
   * @param {string} chat
   */
  add(files, chat) {
    const words = wordsOf(this.element);
    const all = [...(this.#chosen.get(chat) ?? [])];
    for (const file of files) {
      if (!file.size) this.element.say(said(words.emptyFile, { name: file.name }));
      else if (all.length >= FILES_MAX)
        this.element.say(said(words.tooManyFiles, { n: FILES_MAX }));
      else all.push({ file, url: URL.createObjectURL(file), ready: readied(file) });
    }
    this.#choose(all, chat);
    if (chat === this.element.chat) this.element.focusField();
  }

  /**
   * @param {Chosen[]} chosen
   * @param {string} [chat]
   */
  #choose(chosen, chat = this.element.chat) {
    this.#chosen.set(chat, chosen);
    this.element.update();
  }

  /** @param {Chosen} one */
  #remove(one) {
    URL.revokeObjectURL(one.url);
    this.#choose(this.chosen.filter((other) => other !== one));
    this.element.focusField();
  }

  /** Record a voice note, and choose it. */
  async record() {
    const { chat } = this.element;
    const words = wordsOf(this.element);
    try {
      const file = await this.#recorder.record(words.voiceNote);
      if (file) this.add([file], chat);
    } catch {
      this.element.say(words.noMicrophone);
    }
  }

  /**
   * Send the chosen files with a text.
   *
   * @param {string} text
   * @param {import("../src/uploads.js").SendOptions} options
   */
  async send(text, options) {
    const { chat } = this.element;
    const { chosen } = this;
    this.#choose([]);
    const files = await Promise.all(chosen.map(({ ready }) => ready));
    for (const { url } of chosen) URL.revokeObjectURL(url);
    this.uploads.send(chat, text, files, options);
  }

  // Describing.

  /** Describe what is chosen or recorded, above the field. */
  tray() {
    return [this.#recording(), this.#list()];
  }

  #list() {
    const words = wordsOf(this.element);
    const { chosen } = this;
    if (!chosen.length) return null;
    return h("ul", { class: "tray", role: "list", "aria-label": words.chosenFiles }, [
      chosen.map((one) => this.#one(one)),
    ]);
  }

  /** @param {Chosen} one */
  #one(one) {
    const words = wordsOf(this.element);
    const { name, size, type } = one.file;
    return h("li", { key: one.url }, [
      PICTURE.test(type)
        ? h("img", { src: one.url, alt: "" })
        : h("span", { class: "kind" }, icon(type.startsWith("audio/") ? "microphone" : "file")),
      h("span", { class: "lines grow" }, [
        h("bdi", { class: "cut" }, name),
        h("span", { class: "faint" }, bytes(size, words)),
      ]),
      h(
        "button",
        {
          type: "button",
          class: "round",
          "aria-label": said(words.remove, { name }),
          onclick: () => this.#remove(one),
        },
        icon("close"),
      ),
    ]);
  }

  #recording() {
    if (!this.#recorder.since) return null;
    const words = wordsOf(this.element);
    const { seconds } = this.#recorder;
    const time = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    const stop = (/** @type {boolean} */ isWanted) => () => {
      this.#recorder.stop(isWanted);
      this.element.focusField();
    };
    const link = (/** @type {string} */ label, /** @type {() => void} */ onclick) =>
      h("button", { type: "button", class: "link", onclick }, label);
    return h("div", { class: "bar editing" }, [
      h("span", { class: "live", "aria-hidden": "true" }),
      h("span", { class: "grow" }, said(words.recording, { time })),
      link(words.cancel, stop(false)),
      link(words.stopRecording, stop(true)),
    ]);
  }
}

/**
 * Return a file with what others need to know of it.
 *
 * @param {File} file
 * @returns {Promise<UploadFile>}
 */
async function readied(file) {
  const name = [...file.name].slice(-NAME_CHARACTERS_MAX).join("") || "file";
  const type = file.type.split(";")[0]?.trim().toLowerCase() ?? "";
  return {
    name,
    content_type: TYPE.test(type) ? type : "application/octet-stream",
    size: file.size,
    bytes: file,
    ...(await pictureOf(file)),
  };
}
