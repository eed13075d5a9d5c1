// SPDX-License-Identifier: Apache-2.0
/**
 * Notices of the device for new messages. Off until switched on.
 *
 * While the page is open but hidden, it shows them itself. While it is closed, the push service of
 * the browser wakes the service worker. Both use the chat as the tag: one notice replaces the other.
 */

import { icon } from "../elements/icons.js";
import { said } from "../elements/text.js";
import { h } from "../elements/view.js";
import { turnOffPush, turnOnPush } from "../src/push.js";

const ICON = new URL("./icon.svg", import.meta.url).href;
const KEY = "tidings notices";
const WORDS = "tidings words";

export class Notices {
  #tidings;
  #device;
  #strings;
  #changed;
  #isAsking = false;
  /** What is done about push, one after the other: quick clicks must not overtake each other. */
  #settled = Promise.resolve();

  /**
   * @param {import("../src/tidings.js").Tidings} tidings
   * @param {string} device
   * @param {import("./strings.js").AppStrings} strings
   * @param {() => void} changed
   */
  constructor(tidings, device, strings, changed) {
    this.#tidings = tidings;
    this.#device = device;
    this.#strings = strings;
    this.#changed = changed;
  }

  /** Begin to show notices, and renew the subscription of this browser, or end what is left of it. */
  start() {
    const tidings = this.#tidings;
    tidings.on((event) => {
      if (event.type !== "entry" || event.entry.kind !== "message") return;
      if (event.isOwn) this.#offer();
      else void this.#show(event.entry);
    });
    tidings.chats.subscribe(() => void this.#clear());
    navigator.serviceWorker?.addEventListener("message", ({ data }) => {
      if (data?.chat) location.hash = data.chat;
    });
    void this.#settle();
  }

  /** End the notices; whoever signs in next has to switch them on. */
  async stop() {
    localStorage.removeItem(KEY);
    await this.#settle();
  }

  /** Make push what was chosen last. */
  #settle() {
    const work = () => (this.#isOn ? this.#turnOn() : this.#turnOff());
    return (this.#settled = this.#settled.then(work).catch(() => {}));
  }

  get #isOn() {
    return localStorage.getItem(KEY) === "on" && globalThis.Notification?.permission === "granted";
  }

  /**
   * Say who has written, but not what: others may see the screen.
   *
   * @param {import("../src/frames.js").Entry} entry
   */
  async #show({ chat, sender, sequence, silent, mentions = [] }) {
    const { chats, state, user } = this.#tidings;
    const record = chats.record(chat);
    const isCalled = mentions.some((one) => one === "*" || one === user);
    const isMuted = !!record?.muted_until && Date.parse(record.muted_until) > Date.now();
    const isHushed = silent || (isMuted && !(isCalled && record.mute_except_mentions));
    // One tab is enough, and whoever looks at the page needs no notice.
    if (!this.#isOn || !state.snapshot().leads || isHushed || !document.hidden) return;
    const who = record?.others?.find((one) => one.user_id === sender)?.display_name ?? sender;
    const body = said(this.#strings.newMessage, { who });
    const data = { chat_id: chat, sequence };
    await (
      await registration()
    )?.showNotification("Tidings", { body, tag: chat, icon: ICON, data });
  }

  /** Close the notices of chats that were read, on whatever device. */
  async #clear() {
    const shown = this.#isOn ? await (await registration())?.getNotifications() : [];
    for (const notice of shown ?? []) {
      const { chat_id, sequence } = notice.data ?? {};
      const record = this.#tidings.chats.record(chat_id);
      // A push can be faster than the entry, which this page does not know then.
      const isKnown = Number(sequence) <= (record?.last_message?.sequence ?? 0);
      if (isKnown && !record?.unread) notice.close();
    }
  }

  async #turnOn() {
    const worker = await registration();
    if (!worker) return;
    const { newPush: message, newPushInbox: notification } = this.#strings;
    // Whoever wants notices also wants what is not sent yet to stay here.
    void navigator.storage?.persist?.().catch(() => {});
    const words = new Response(JSON.stringify({ message, notification }));
    // Without push, the page still shows notices itself.
    await caches
      .open(WORDS)
      .then((cache) => cache.put("/words", words))
      .then(() => turnOnPush(this.#tidings, worker, this.#device))
      .catch(() => {});
  }

  async #turnOff() {
    const worker = await registration();
    // A browser that never had push has none to end.
    if (await worker?.pushManager?.getSubscription())
      await turnOffPush(this.#tidings, /** @type {any} */ (worker), this.#device);
  }

  /** Offer notices to a user who has just sent a message, once. */
  #offer() {
    const isOpen = globalThis.Notification?.permission === "default" && !localStorage.getItem(KEY);
    if (!isOpen || this.#isAsking) return;
    this.#isAsking = true;
    this.#changed();
  }

  /** @param {boolean} isWanted */
  async #choose(isWanted) {
    this.#isAsking = false;
    const isOn = isWanted && (await Notification.requestPermission()) === "granted";
    localStorage.setItem(KEY, isOn ? "on" : "off");
    this.#changed();
    await this.#settle();
  }

  button() {
    if (!globalThis.Notification) return null;
    const { notices } = this.#strings;
    const toggle = () => this.#choose(!this.#isOn);
    const props = { "aria-label": notices, title: notices, "aria-pressed": String(this.#isOn) };
    return h("button", { ...props, onclick: toggle }, icon(this.#isOn ? "screen" : "noScreen"));
  }

  /** The question whether notices are wanted; null if it is not the time to ask. */
  question() {
    if (!this.#isAsking) return null;
    const { askNotices, turnOn, notNow } = this.#strings;
    return h("div", { class: "ask", role: "status" }, [
      h("p", null, askNotices),
      h("button", { class: "main", onclick: () => this.#choose(true) }, turnOn),
      h("button", { onclick: () => this.#choose(false) }, notNow),
    ]);
  }
}

/** End what a sign-out has left, because the server was too slow to end it in time. */
export async function endPush() {
  if (localStorage.getItem(KEY) === "on") return; // somebody is signed in in another tab
  const subscription = await (await registration())?.pushManager?.getSubscription();
  await subscription?.unsubscribe();
}

const registration = async () => navigator.serviceWorker?.getRegistration();
