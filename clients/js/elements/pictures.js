// SPDX-License-Identifier: Apache-2.0
/** Measure pictures and videos, and make thumbnails of them: the server never looks into a file. */

import { THUMBNAIL_BYTES_MAX } from "../src/uploads.js";

/** @typedef {{width?: number, height?: number, thumbnail?: Blob}} Picture */

/** What browsers show by themselves, and the server names with its type. */
export const PICTURE = /^image\/(png|jpeg|gif|webp|avif)$/;
export const VIDEO = /^video\/(mp4|webm|ogg)$/;
export const AUDIO = /^audio\/(mpeg|mp4|ogg|webm|wav|aac)$/;
const EDGES_PX = [640, 480, 320, 160];
const QUALITY = 0.8;
const VIDEO_MS_MAX = 8_000;
/** A picture right at the beginning of a video is often black. */
const VIDEO_SECONDS = 0.1;

/**
 * Return what is known of a picture or a video; nothing of another file, or of a broken one.
 *
 * @param {Blob} file
 * @returns {Promise<Picture>}
 */
export async function pictureOf(file) {
  try {
    if (PICTURE.test(file.type)) return await ofImage(file);
    if (VIDEO.test(file.type)) return await ofVideo(file);
  } catch {
    // It is sent like any other file.
  }
  return {};
}

/** @param {Blob} file @returns {Promise<Picture>} */
async function ofImage(file) {
  const image = await createImageBitmap(file);
  const { width, height } = image;
  // A small picture is its own thumbnail.
  const thumbnail = file.size <= THUMBNAIL_BYTES_MAX ? file : await drawn(image, width, height);
  image.close();
  return { width, height, ...(thumbnail && { thumbnail }) };
}

/** @param {Blob} file @returns {Promise<Picture>} */
async function ofVideo(file) {
  const video = document.createElement("video");
  video.muted = true;
  video.preload = "auto";
  video.src = URL.createObjectURL(file);
  try {
    await happens(video, "loadeddata");
    video.currentTime = VIDEO_SECONDS;
    await happens(video, "seeked");
    const { videoWidth: width, videoHeight: height } = video;
    const thumbnail = await drawn(video, width, height);
    return { width, height, ...(thumbnail && { thumbnail }) };
  } finally {
    URL.revokeObjectURL(video.src);
  }
}

/**
 * @param {HTMLVideoElement} video
 * @param {string} name
 */
const happens = (video, name) =>
  new Promise((resolve, reject) => {
    video.addEventListener(name, resolve, { once: true });
    video.addEventListener("error", reject, { once: true });
    setTimeout(reject, VIDEO_MS_MAX);
  });

/**
 * Draw something in a size that is small enough.
 *
 * @param {CanvasImageSource} image
 * @param {number} width
 * @param {number} height
 * @returns {Promise<Blob | undefined>}
 */
async function drawn(image, width, height) {
  const canvas = document.createElement("canvas");
  for (const edge of EDGES_PX) {
    const scale = Math.min(1, edge / Math.max(width, height));
    canvas.width = Math.max(1, Math.round(width * scale));
    canvas.height = Math.max(1, Math.round(height * scale));
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    for (const type of ["image/webp", "image/jpeg"]) {
      /** @type {Blob | null} */
      const made = await new Promise((resolve) => canvas.toBlob(resolve, type, QUALITY));
      // A browser that cannot write a type writes PNG instead.
      if (made?.type === type && made.size <= THUMBNAIL_BYTES_MAX) return made;
    }
  }
  return undefined;
}
