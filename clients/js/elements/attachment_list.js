// SPDX-License-Identifier: Apache-2.0
/** The files of one message: pictures, players, and rows with a name, a size and a download. */

import { h } from "./describe.js";
import { icon } from "./icons.js";
import { AUDIO, PICTURE, VIDEO } from "./pictures.js";
import { wordsOf } from "./strings_more.js";
import { bytes, said } from "./text.js";

/** @typedef {import("../src/frames.js").Attachment} Attachment */
/** @typedef {import("../src/rows.js").Row} Row */
/** @typedef {import("./attachments.js").Attachments} Attachments */
/** @typedef {import("./describe.js").Child} Child */

const PICTURE_PX = 320;
/** A picture without a thumbnail is shown by itself, unless it is larger. */
const WHOLE_BYTES_MAX = 1_048_576;

/** Addresses of files that are not uploaded yet. @type {WeakMap<Blob, string>} */
const LOCAL = new WeakMap();

/**
 * @param {Attachments} all
 * @param {Row} row
 */
export function attachmentList(all, row) {
  const message = all.messageOf(row);
  const item = (/** @type {Attachment} */ file, /** @type {number} */ index) =>
    h("li", { key: file.attachment_id || String(index) }, [
      message ? waiting(all, message, index) : shown(all, row, file),
    ]);
  return h("ul", { class: "files media", role: "list" }, (row.attachments ?? []).map(item));
}

/**
 * @param {Attachments} all
 * @param {Row} row
 * @param {Attachment} file
 */
function shown(all, row, file) {
  const { content_type: type } = file;
  const isWhole = !file.thumbnail && file.size <= WHOLE_BYTES_MAX;
  if (PICTURE.test(type) && (file.thumbnail || isWhole)) return picture(all, row, file);
  if (VIDEO.test(type)) return [player(all, row, file, "video"), fileRow(all, row, file)];
  if (AUDIO.test(type)) return [player(all, row, file, "audio"), fileRow(all, row, file)];
  return fileRow(all, row, file);
}

/**
 * @param {Attachments} all
 * @param {Row} row
 * @param {Attachment} file
 */
function picture(all, row, file) {
  const { links } = all;
  const words = wordsOf(all.element);
  const isThumbnail = !!file.thumbnail;
  if (links.isBroken(row, file, isThumbnail)) return fileRow(all, row, file);
  // A message that is still being sent has no sequence, so no link can be had.
  const src = row.sequence ? links.of(row, file, isThumbnail) : "";
  const props = {
    class: "picture",
    style: roomFor(file),
    "aria-label": said(words.openPicture, { name: file.name }),
    onclick: () => void open(all, row, file),
  };
  const onerror = () => links.failed(row, file, isThumbnail);
  return h("button", props, src && h("img", { key: src, src, alt: "", onerror }));
}

/**
 * Return the style that gives a picture its place before it is there, so that nothing moves.
 *
 * @param {Attachment} file
 */
function roomFor({ width, height }) {
  if (!width || !height) return `inline-size: ${PICTURE_PX}px`;
  const scale = Math.min(1, PICTURE_PX / Math.max(width, height));
  const inline = Math.max(48, Math.round(width * scale));
  return `aspect-ratio: ${width} / ${height}; inline-size: ${inline}px`;
}

/**
 * @param {Attachments} all
 * @param {Row} row
 * @param {Attachment} file
 * @param {"audio" | "video"} tag
 */
function player(all, row, file, tag) {
  const { links } = all;
  const src = links.of(row, file);
  if (!src) return h("div", { class: `player ${tag}` });
  const poster = file.thumbnail ? links.of(row, file, true) : "";
  const props = {
    class: `player ${tag}`,
    controls: true,
    preload: "none",
    "aria-label": file.name,
    src,
    onerror: (/** @type {any} */ event) => void resume(all, row, file, event.target),
    ...(poster && { poster }),
    ...(tag === "video" && { style: roomFor(file) }),
  };
  return h(tag, { ...props, key: file.attachment_id });
}

/**
 * Continue with a new link where a player stopped, because the old one has run out.
 *
 * @param {Attachments} all
 * @param {Row} row
 * @param {Attachment} file
 * @param {HTMLMediaElement} player
 */
async function resume({ links, element }, row, file, player) {
  const { currentTime, src } = player;
  const url = await element.attempt(links.fresh(row, file));
  if (!url || url === src) return; // the browser cannot play it, or there is no network
  player.src = url;
  player.currentTime = currentTime;
  await player.play().catch(() => {});
}

/**
 * @param {Attachments} all
 * @param {Row} row
 * @param {Attachment} file
 */
function fileRow(all, row, file) {
  const words = wordsOf(all.element);
  const onclick = () => void download(all, row, file);
  return h("button", { class: "file", title: words.download, onclick }, [
    h("span", { class: "kind" }, icon("file")),
    h("span", { class: "lines grow" }, [
      h("bdi", { class: "cut" }, file.name),
      h("span", { class: "faint" }, bytes(file.size, words)),
    ]),
    icon("down", words.download),
  ]);
}

/**
 * @param {Attachments} all
 * @param {Row} row
 * @param {Attachment} file
 */
async function download({ element, links }, row, file) {
  const href = await element.attempt(links.fresh(row, file));
  if (!href) return;
  const props = { href, download: file.name, target: "_blank", rel: "noopener noreferrer" };
  Object.assign(document.createElement("a"), props).click();
}

/**
 * Show a picture in its full size.
 *
 * @param {Attachments} all
 * @param {Row} row
 * @param {Attachment} file
 */
async function open(all, row, file) {
  const { element, links } = all;
  const src = await element.attempt(links.fresh(row, file));
  if (!src) return;
  const describe = () =>
    /** @type {[Child, Child]} */ ([
      h("bdi", null, file.name),
      [h("img", { class: "whole", src, alt: file.name }), fileRow(all, row, file)],
    ]);
  element.show({ kind: "other", name: "picture", describe });
}

/**
 * A file that is being uploaded.
 *
 * @param {Attachments} all
 * @param {import("../src/uploads.js").PendingMessage} message
 * @param {number} index
 */
function waiting({ element, uploads }, message, index) {
  const words = wordsOf(element);
  const file = message.files[index];
  if (!file) return null;
  const { name, size } = file;
  const sent = uploads.snapshot().sent.get(message.id)?.[index] ?? 0;
  const cancel = () => uploads.discard(message.chat, message.id);
  const src = PICTURE.test(file.content_type) && file.bytes ? addressOf(file.bytes) : "";
  return [
    src &&
      h("img", {
        class: "picture",
        style: roomFor({ ...file, attachment_id: "", thumbnail: undefined }),
        src,
        alt: "",
      }),
    h("div", { class: "file" }, [
      h("span", { class: "kind" }, icon("file")),
      h("span", { class: "lines grow" }, [
        h("bdi", { class: "cut" }, name),
        message.failed
          ? h("span", { class: "faint" }, bytes(size, words))
          : h("progress", {
              max: size,
              value: sent,
              "aria-label": said(words.uploading, { name }),
            }),
      ]),
      !message.failed &&
        h("button", { class: "round", "aria-label": words.cancelUpload, onclick: cancel }, [
          icon("close"),
        ]),
    ]),
  ];
}

/** @param {Blob} blob */
function addressOf(blob) {
  const url = LOCAL.get(blob) ?? URL.createObjectURL(blob);
  LOCAL.set(blob, url);
  return url;
}
