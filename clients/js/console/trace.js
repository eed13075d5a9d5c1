// SPDX-License-Identifier: Apache-2.0
/** What is delivered to a user or in a chat, step by step, while it happens. Without content. */

import { h } from "../elements/view.js";
import { button, card, keyed, label, link, mono, number, table } from "./parts.js";
import { Screen } from "./screen.js";

/** Number of minutes after which a trace stops by itself. */
const MINUTES = 10;
/** Number of steps that are shown. */
const STEPS_MAX = 200;
const CHAT = /^[0-9A-HJKMNP-TV-Z]{26}$/;
const TROUBLE = new Set(["refused", "window_full", "socket_full", "resync_sent", "unconfirmed"]);

export class TraceScreen extends Screen {
  static path = "tenants/:tenant/trace";
  static title = "Live trace";
  static icon = /** @type {const} */ ("trace");
  static menu = /** @type {"tenant" | null} */ ("tenant");
  static refresh = 1;

  /** Newest first. */
  #steps = /** @type {any[]} */ ([]);
  /** Number of steps so far. */
  #count = 0;
  #cursor = /** @type {string | null} */ (null);
  #hasGap = false;
  #ends = Date.now() + MINUTES * 60_000;

  get #what() {
    return this.params["what"] ?? "";
  }

  get #isChat() {
    return CHAT.test(this.#what);
  }

  get #isOver() {
    return Date.now() > this.#ends;
  }

  aside() {
    if (!this.#what) return null;
    return this.#isOver ? label("Stopped") : label("Live", "good");
  }

  async load() {
    if (!this.#what || this.#isOver) return;
    const subject = this.#isChat ? { chat_id: this.#what } : { user_id: this.#what };
    const cursor = this.#cursor;
    const page = await this.server.get(this.at("trace"), { ...subject, cursor });
    if (cursor !== this.#cursor) return; // another answer had the same steps
    this.#cursor = page.next_cursor;
    this.#hasGap ||= !page.complete;
    const steps = page.data.map((/** @type {any} */ one) => ({ ...one, key: this.#count++ }));
    this.#steps = [...steps.toReversed(), ...this.#steps].slice(0, STEPS_MAX);
  }

  render() {
    return [this.#form(), this.#what ? this.#log() : null];
  }

  #form() {
    const onsubmit = (/** @type {any} */ event) => {
      event.preventDefault();
      const what = String(new FormData(event.target).get("what")).trim();
      this.desk.go("tenants", this.tenant, "trace", what);
    };
    return card(
      "What is delivered now?",
      h("form", { class: "inline", onsubmit }, [
        h("label", { class: "wide" }, [
          h("span", null, "User or chat id"),
          h("input", {
            name: "what",
            required: true,
            autocomplete: "off",
            autocapitalize: "off",
            spellcheck: false,
            defaultValue: this.#what,
          }),
        ]),
        h("button", { class: "main" }, "Trace"),
      ]),
      { hint: "Steps of the last minute, and from then on each step a second after it happened." },
    );
  }

  #log() {
    const rows = this.#steps.map((one) =>
      keyed(one.key, [
        time(one.at),
        label(one.what.replaceAll("_", " "), TROUBLE.has(one.what) ? "warn" : "plain"),
        one.user_id ? link(this.to("users", one.user_id), one.user_id) : "–",
        one.chat_id && one.sequence
          ? link(this.to("chats", one.chat_id, String(one.sequence)), number(one.sequence))
          : "–",
        mono(one.where),
      ]),
    );
    const heads = ["Time", "Step", "User", "Entry", "Where"];
    const goOn = () => {
      this.#ends = Date.now() + MINUTES * 60_000;
      void this.open();
    };
    const hint = this.#hasGap
      ? "There were too many steps at once: some are missing."
      : `The newest first. It stops after ${MINUTES} minutes.`;
    return card("Steps", table("Steps", heads, rows, "Nothing happened in the last minute."), {
      hint,
      actions: this.#isOver ? button("Go on", goOn) : null,
    });
  }
}

/** The same screen, for a user or chat. */
export class TracedScreen extends TraceScreen {
  static path = "tenants/:tenant/trace/:what";
  static menu = null;
}

/** @param {string} at */
const time = (at) => h("time", { datetime: at, title: at }, at.slice(11, 23));
