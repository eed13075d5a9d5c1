// SPDX-License-Identifier: Apache-2.0
/** Play a short sound when something arrives, unless the user wants quiet. */

import { soundKey } from "./hearing.js";

/** @typedef {import("../src/tidings.js").Tidings} Tidings */
/** @typedef {{from: string, to: string, timezone: string}} QuietHours */

const REST_MS = 2_000;
/** No sound is played for messages older than this: they arrived after an interruption. */
const NEW_MS_MAX = 30_000;
const TONES_HZ = [660, 880];
const TONE_SECONDS = 0.18;
const VOLUME = 0.08;

/** @type {WeakMap<Tidings, Sound>} */
const SOUNDS = new WeakMap();

/** Return what plays the sounds of a client; there is one for all elements. @param {Tidings} tidings */
export function soundOf(tidings) {
  const sound = SOUNDS.get(tidings) ?? new Sound(tidings);
  SOUNDS.set(tidings, sound);
  return sound;
}

class Sound {
  #tidings;
  #quiet = /** @type {QuietHours | null} */ (null);
  #playedAt = -REST_MS;
  /** @type {AudioContext | undefined} */
  #context;

  /** @param {Tidings} tidings */
  constructor(tidings) {
    this.#tidings = tidings;
    tidings.on((event) => this.#happens(event));
  }

  /** Switch it on or off. @param {string} inbox - The inbox whose quiet hours apply; empty for off. */
  use(inbox) {
    if (inbox) localStorage.setItem(soundKey(this.#tidings), inbox);
    else localStorage.removeItem(soundKey(this.#tidings));
  }

  get #inbox() {
    return localStorage.getItem(soundKey(this.#tidings)) ?? "";
  }

  /** Ask whether it is quiet now: the user may have changed the hours on another device. */
  async #isQuiet() {
    const path = `/v1/inboxes/${encodeURIComponent(this.#inbox)}/preferences`;
    const found = await this.#tidings.request("GET", path).catch(() => null);
    if (found) this.#quiet = found.quiet_hours;
    return isQuiet(this.#quiet, Date.now());
  }

  /** @param {import("../src/tidings.js").Event} event */
  #happens(event) {
    if (event.type === "signed-out") localStorage.removeItem(soundKey(this.#tidings));
    else if (event.type === "notification") void this.#play();
    else if (event.type === "entry" && !event.isOwn) this.#message(event.entry);
  }

  /** @param {import("../src/frames.js").Entry} entry */
  #message({ kind, chat, created_at, blocked, silent }) {
    const { muted_until } = this.#tidings.chats.record(chat) ?? {};
    const isMuted = !!muted_until && Date.parse(muted_until) > Date.now();
    const isNew = Date.now() - Date.parse(created_at) < NEW_MS_MAX;
    if (kind !== "message" || blocked || silent || isMuted || !isNew) return;
    if (!document.hasFocus()) void this.#play();
  }

  async #play() {
    const now = performance.now();
    // All tabs hear of it, and one of them plays.
    if (!this.#inbox || !this.#tidings.state.snapshot().leads) return;
    if (now - this.#playedAt < REST_MS) return;
    this.#playedAt = now;
    if (await this.#isQuiet()) return;
    const context = (this.#context ??= new AudioContext());
    // Before the user has touched the page, a browser may refuse it.
    void context.resume().catch(() => {});
    TONES_HZ.forEach((hertz, index) => tone(context, hertz, index * TONE_SECONDS));
  }
}

/**
 * @param {AudioContext} context
 * @param {number} hertz
 * @param {number} delay - In seconds.
 */
function tone(context, hertz, delay) {
  const [oscillator, gain] = [context.createOscillator(), context.createGain()];
  const begin = context.currentTime + delay;
  oscillator.frequency.value = hertz;
  gain.gain.setValueAtTime(VOLUME, begin);
  gain.gain.exponentialRampToValueAtTime(VOLUME / 100, begin + TONE_SECONDS);
  oscillator.connect(gain).connect(context.destination);
  oscillator.start(begin);
  oscillator.stop(begin + TONE_SECONDS);
}

/**
 * Return whether it is a quiet hour, by the clock of the user's time zone.
 *
 * @param {QuietHours | null} quiet
 * @param {number} now
 */
export function isQuiet(quiet, now) {
  if (!quiet) return false;
  const { from, to, timezone: timeZone } = quiet;
  const format = { timeZone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const clock = new Intl.DateTimeFormat("en-GB", /** @type {any} */ (format)).format(now);
  return from < to ? clock >= from && clock < to : clock >= from || clock < to;
}
