// SPDX-License-Identifier: Apache-2.0
/** Why did it not arrive? One verdict in a sentence, and what is known of the way. */

import { h } from "../elements/view.js";
import { card, label, link, mono, when } from "./parts.js";
import { Screen } from "./screen.js";

/** @typedef {import("./parts.js").Tone} Tone */

const UNKNOWN = "unknown";
/** Number of members who are offered. */
const CHOICE_MAX = 20;
const ARRIVED = new Set(["read", "archived", "snoozed", "acknowledged"]);

export class ExplainScreen extends Screen {
  static path = "tenants/:tenant/explain";
  static title = "Explain";
  static icon = /** @type {const} */ ("question");
  static menu = /** @type {"tenant" | null} */ ("tenant");

  /** A message, notification or request; before the id of a notification may be its inbox. */
  #asked = { user_id: this.params["user"] ?? "", what: this.params["what"] ?? "" };
  #found = /** @type {any} */ (null);
  /** Members of the chat of the message, if nobody is named yet. */
  #members = /** @type {any[]} */ ([]);

  async load() {
    const { user_id, what } = this.#asked;
    const { message_id } = named(what);
    if (what && user_id)
      this.#found = await this.server.get(this.at("explain"), { user_id, ...named(what) });
    else if (message_id)
      this.#members = (await this.server.get(this.at("chats", chatOf(what), "members"))).data;
  }

  render() {
    return [this.#form(), this.#found && !this.trouble ? this.#verdict(this.#found) : null];
  }

  #form() {
    const onsubmit = (/** @type {any} */ event) => {
      event.preventDefault();
      const form = new FormData(event.target);
      const [user, what] = [form.get("user"), form.get("what")].map((value) =>
        String(value).trim(),
      );
      this.desk.go("tenants", this.tenant, "explain", what ?? "", user ?? "");
    };
    const { user_id, what } = this.#asked;
    const common = {
      required: true,
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: false,
    };
    return card(
      "Why did it not arrive?",
      h("form", { class: "inline", onsubmit }, [
        h("label", null, [
          h("span", null, "User"),
          h("input", { ...common, name: "user", defaultValue: user_id }),
        ]),
        h("label", { class: "wide" }, [
          h("span", null, "Message, notification or request id"),
          h("input", { ...common, name: "what", defaultValue: what }),
        ]),
        h("button", { class: "main" }, "Explain"),
        this.#members.length ? this.#choice() : null,
      ]),
      {
        hint: "The id of a message is its chat, a dot and its sequence. The id of a request is the X-Request-Id of its answer.",
      },
    );
  }

  /** The first members, so that nobody has to type their names. */
  #choice() {
    const shown = this.#members.slice(0, CHOICE_MAX);
    return h("p", { class: "choose" }, [
      h("span", { class: "faint" }, "Who misses it?"),
      shown.map(({ user_id }) => link(this.to("explain", this.#asked.what, user_id), user_id)),
      this.#members.length > CHOICE_MAX ? h("span", { class: "faint" }, "…") : null,
    ]);
  }

  /** @param {any} found */
  #verdict({ verdict, code, since, timeline, next_step }) {
    const { user_id, what } = this.#asked;
    const [chat = "", sequence = ""] = what.split(".");
    return card("Verdict", [
      h("p", { class: "verdict" }, verdict),
      next_step ? h("p", null, next_step) : null,
      h("p", { class: "faint" }, [
        label(code.replaceAll("_", " "), tone(code)),
        " ",
        since === UNKNOWN ? null : [when(since), " · "],
        link(this.to("users", user_id), user_id),
        sequence ? [" · ", link(this.to("chats", chat, sequence), `message ${sequence}`)] : null,
      ]),
      h(
        "ol",
        { class: "timeline" },
        timeline.map((/** @type {any} */ one) =>
          h("li", null, [
            h("span", { class: "at" }, one.at === UNKNOWN ? "time unknown" : exact(one.at)),
            h("strong", null, one.what.replaceAll("_", " ")),
            one.where === UNKNOWN ? null : mono(one.where),
          ]),
        ),
      ),
    ]);
  }
}

/** The same screen for a message or notification; the user is still to be named. */
export class ExplainWhatScreen extends ExplainScreen {
  static path = "tenants/:tenant/explain/:what";
  static menu = null;
}

/** The same screen, with an answer: its address can be sent to somebody else. */
export class ExplainedScreen extends ExplainScreen {
  static path = "tenants/:tenant/explain/:what/:user";
  static menu = null;
}

/** The chat of a message. @param {string} message */
const chatOf = (message) => message.split(".")[0] ?? "";

/**
 * What the server is asked about.
 *
 * @param {string} what
 * @returns {Record<string, string | null>}
 */
function named(what) {
  if (/^[0-9A-HJKMNP-TV-Z]{26}\.\d+$/.test(what)) return { message_id: what };
  const [inbox = null, notification_id = what] = what.includes("/") ? what.split("/") : [];
  const isNotification = inbox || /^(b\d+|[0-9A-HJKMNP-TV-Z]{26})$/.test(what);
  return isNotification ? { inbox, notification_id } : { request_id: what };
}

/** @param {string} code @returns {Tone} */
const tone = (code) => (ARRIVED.has(code) ? "good" : "warn");

/** @param {string} time */
const exact = (time) =>
  h("time", { datetime: time, title: time }, time.replace("T", " ").replace("Z", ""));
