// SPDX-License-Identifier: Apache-2.0
/** Record a voice note. */

const TYPES = ["audio/webm", "audio/mp4", "audio/ogg"];
const SECONDS_MAX = 600;

export class Recorder {
  /** When the recording began, in milliseconds since 1970; 0 if nothing is recorded. */
  since = 0;
  #recorder = /** @type {MediaRecorder | null} */ (null);
  #timer = /** @type {ReturnType<typeof setInterval> | undefined} */ (undefined);
  #isWanted = false;
  #changed;

  /** @param {() => void} changed */
  constructor(changed) {
    this.#changed = changed;
  }

  get seconds() {
    return this.since ? Math.floor((Date.now() - this.since) / 1_000) : 0;
  }

  /**
   * Record until `stop`; return the recording, or null if it was cancelled or another one goes on.
   * Throws if the user does not allow it.
   *
   * @param {string} name
   * @returns {Promise<File | null>}
   */
  async record(name) {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const end = () => stream.getTracks().forEach((track) => track.stop());
    // The user may have been asked twice.
    if (this.#recorder) {
      end();
      return null;
    }
    const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type)) ?? "";
    const recorder = (this.#recorder = new MediaRecorder(stream, mimeType ? { mimeType } : {}));
    this.since = Date.now();
    this.#isWanted = true;
    this.#timer = setInterval(() => this.#tick(), 500);
    try {
      return await this.#end(recorder, name);
    } finally {
      end();
      clearInterval(this.#timer);
      this.#recorder = null;
      this.since = 0;
      this.#changed();
    }
  }

  /**
   * @param {MediaRecorder} recorder
   * @param {string} name
   * @returns {Promise<File | null>}
   */
  #end(recorder, name) {
    /** @type {Blob[]} */
    const parts = [];
    recorder.ondataavailable = ({ data }) => parts.push(data);
    return new Promise((resolve) => {
      recorder.onstop = () => {
        const [type = ""] = recorder.mimeType.split(";");
        const file = new File(parts, `${name}.${type.slice("audio/".length)}`, { type });
        resolve(this.#isWanted && file.size ? file : null);
      };
      recorder.start();
    });
  }

  #tick() {
    if (this.seconds >= SECONDS_MAX) this.stop(true);
    this.#changed();
  }

  /** @param {boolean} isWanted - Whether the recording is used. */
  stop(isWanted) {
    this.#isWanted = isWanted;
    if (this.#recorder?.state === "recording") this.#recorder.stop();
  }
}
