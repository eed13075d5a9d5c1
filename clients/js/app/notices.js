// SPDX-License-Identifier: Apache-2.0
/** Notices of the desktop for messages that arrive while nobody looks. Off until switched on. */

import { icon } from "../elements/icons.js";
import { said } from "../elements/text.js";
import { h } from "../elements/view.js";

const ICON = new URL("./icon.svg", import.meta.url).href;
const KEY = "tidings notices";

export class Notices {
  #strings;
  #changed;

  /**
   * @param {import("../src/tidings.js").Tidings} tidings
   * @param {import("./strings.js").AppStrings} strings
   * @param {() => void} changed
   */
  constructor(tidings, strings, changed) {
    this.#strings = strings;
    this.#changed = changed;
    tidings.on((event) => {
      if (event.type !== "entry" || event.isOwn || event.entry.kind !== "message") return;
      const { chat, sender, silent, mentions = [] } = event.entry;
      // One tab is enough, and whoever looks at the page needs no notice.
      const { leads } = tidings.state.snapshot();
      const record = tidings.chats.record(chat);
      const isCalled = mentions.some((user) => user === "*" || user === tidings.user);
      const isMuted = !!record?.muted_until && Date.parse(record.muted_until) > Date.now();
      const isHushed = silent || (isMuted && !(isCalled && record.mute_except_mentions));
      if (!this.#isOn || !leads || isHushed || !document.hidden) return;
      this.#show(
        chat,
        record?.others?.find((one) => one.user_id === sender)?.display_name ?? sender,
      );
    });
  }

  get #isOn() {
    return localStorage.getItem(KEY) === "on" && globalThis.Notification?.permission === "granted";
  }

  /**
   * Say who has written, but not what: others may see the screen.
   *
   * @param {string} chat
   * @param {string} who
   */
  #show(chat, who) {
    const body = said(this.#strings.newMessage, { who });
    const notice = noticeOf({ body, tag: chat, icon: ICON });
    if (!notice) return;
    notice.onclick = () => {
      window.focus();
      location.hash = chat;
      notice.close();
    };
  }

  button() {
    if (!globalThis.Notification) return null;
    const { notices } = this.#strings;
    const toggle = async () => {
      const wanted = !this.#isOn && (await Notification.requestPermission()) === "granted";
      localStorage.setItem(KEY, wanted ? "on" : "off");
      this.#changed();
    };
    const props = { "aria-label": notices, title: notices, "aria-pressed": String(this.#isOn) };
    return h("button", { ...props, onclick: toggle }, icon(this.#isOn ? "screen" : "noScreen"));
  }
}

/**
 * Browsers on phones have notices only for service workers, and throw.
 *
 * @param {NotificationOptions} options
 */
function noticeOf(options) {
  try {
    return new Notification("Tidings", options);
  } catch {
    return null;
  }
}
