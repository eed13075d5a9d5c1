// SPDX-License-Identifier: Apache-2.0
/** The page on which somebody signs in. */

import { said } from "../elements/text.js";
import { h, render } from "../elements/view.js";
import {
  requestCode,
  signInAsDemo,
  signInWithCode,
  signInWithToken,
  TooSoon,
  ways,
} from "./session.js";
import { choose, language, LANGUAGES } from "./strings.js";

/** @typedef {import("./session.js").Session} Session */
/** @typedef {import("./strings.js").AppStrings} AppStrings */

/** Time for a text message to arrive, before another one may be asked for. */
const ARRIVES_SECONDS = 30;

const CODE_FIELD = {
  name: "code",
  inputMode: "numeric",
  autocomplete: "one-time-code",
  ref: (/** @type {HTMLElement} */ made) => queueMicrotask(() => made.focus()),
};

/**
 * Show the page; resolves when somebody has signed in.
 *
 * @param {AppStrings} strings
 * @returns {Promise<Session>}
 */
export function signIn(strings) {
  return new Promise((resolve) => {
    const page = new SignIn(strings, resolve);
    page.update();
    void ways().then((found) => page.show(found));
  });
}

class SignIn {
  #strings;
  #done;
  #ways = /** @type {import("./session.js").Ways | null} */ (null);
  #trouble = "";
  /** Whether an answer is on its way: a code is good for one sign-in. */
  #isBusy = false;
  /** Whether a code was sent. */
  #isSent = false;
  /** Number of seconds until a code may be asked for. */
  #wait = 0;
  #waiting = /** @type {ReturnType<typeof setInterval> | undefined} */ (undefined);

  /**
   * @param {AppStrings} strings
   * @param {(session: Session) => void} done
   */
  constructor(strings, done) {
    this.#strings = strings;
    this.#done = (/** @type {Session} */ session) => {
      clearInterval(this.#waiting);
      done(session);
    };
  }

  /** @param {import("./session.js").Ways} ways */
  show(ways) {
    this.#ways = ways;
    this.update();
  }

  update() {
    const { signIn, welcome, pick, api } = this.#strings;
    const hasPeople = !!this.#ways?.demo.length;
    document.title = `${signIn} · Tidings`;
    render(
      document.body,
      h("main", { class: "sign-in" }, [
        h("header", null, [
          h("img", { src: new URL("./icon.svg", import.meta.url).href, alt: "" }),
          h("h1", null, "Tidings"),
          h("p", null, hasPeople ? pick : welcome),
        ]),
        hasPeople ? this.#demo() : null,
        this.#trouble ? h("p", { class: "warn", role: "alert" }, this.#trouble) : null,
        this.#ways?.phone ? this.#byPhone(!hasPeople) : null,
        this.#ways ? this.#byToken(!hasPeople && !this.#ways.phone) : null,
        h("footer", { class: "foot" }, [h("a", { href: "/about" }, api), languages(this.#strings)]),
      ]),
    );
  }

  #demo() {
    const one = (/** @type {{user_id: string, display_name: string}} */ person) =>
      h("button", { onclick: () => this.#done(signInAsDemo(person.user_id)) }, [
        h("span", { "aria-hidden": "true" }, person.display_name[0]),
        person.display_name,
      ]);
    return h("div", { class: "people" }, this.#ways?.demo.map(one));
  }

  /** @param {boolean} isOpen */
  #byPhone(isOpen) {
    const { byPhone, tenant, phone, code, signIn } = this.#strings;
    const submit = async (/** @type {FormData} */ form, /** @type {string} */ button) => {
      const [who, number] = [String(form.get("tenant")).trim(), String(form.get("phone")).trim()];
      if (button !== "send") return signInWithCode(who, number, String(form.get("code")).trim());
      await requestCode(who, number);
      this.#isSent = true;
      this.#pause(ARRIVES_SECONDS);
      return null;
    };
    return h("details", { open: isOpen || this.#isSent }, [
      h("summary", null, byPhone),
      this.#form(submit, [
        field(tenant, { name: "tenant", autocapitalize: "off", autocomplete: "organization" }),
        field(phone, { name: "phone", type: "tel", autocomplete: "tel", placeholder: "+49 …" }),
        this.#isSent ? field(code, CODE_FIELD) : null,
        this.#isSent ? h("button", { class: "main" }, signIn) : null,
        this.#sendButton(),
      ]),
    ]);
  }

  #sendButton() {
    const { sendCode, sendAgain, sendAgainIn } = this.#strings;
    const label = this.#wait
      ? said(sendAgainIn, { n: this.#wait })
      : this.#isSent
        ? sendAgain
        : sendCode;
    const props = {
      key: "send",
      name: "send",
      class: this.#isSent ? null : "main",
      disabled: this.#wait > 0,
      formNoValidate: this.#isSent, // whoever wants another code has none to enter
    };
    return h("button", props, label);
  }

  /** Let no code be asked for, for some time. @param {number} seconds */
  #pause(seconds) {
    this.#wait = seconds;
    clearInterval(this.#waiting);
    this.#waiting = setInterval(() => {
      this.#wait = Math.max(0, this.#wait - 1);
      if (!this.#wait) clearInterval(this.#waiting);
      this.update();
    }, 1_000);
  }

  /** @param {boolean} isOpen */
  #byToken(isOpen) {
    const { byToken, token, signIn } = this.#strings;
    const submit = (/** @type {FormData} */ form) =>
      signInWithToken(String(form.get("token")).trim());
    return h("details", { open: isOpen }, [
      h("summary", null, byToken),
      this.#form(submit, [
        h(
          "label",
          null,
          token,
          h("textarea", { name: "token", required: true, spellcheck: false }),
        ),
        h("button", { class: "main" }, signIn),
      ]),
    ]);
  }

  /**
   * @param {(form: FormData, button: string) => Promise<Session | null>} submit
   * @param {import("../elements/view.js").Child} children
   */
  #form(submit, children) {
    const onsubmit = async (/** @type {any} */ event) => {
      event.preventDefault();
      if (this.#isBusy) return;
      this.#isBusy = true;
      this.#trouble = "";
      this.update();
      try {
        const session = await submit(new FormData(event.target), event.submitter?.name ?? "");
        if (session) return this.#done(session); // busy for good: the page is over
      } catch (error) {
        this.#trouble = /** @type {Error} */ (error).message || this.#strings.failed;
        if (error instanceof TooSoon) this.#pause(error.seconds);
      }
      this.#isBusy = false;
      this.update();
    };
    return h("form", { onsubmit, "aria-busy": String(this.#isBusy) }, children);
  }
}

/**
 * @param {string} label
 * @param {Record<string, unknown>} props
 */
const field = (label, props) => h("label", null, label, h("input", { required: true, ...props }));

/** @param {AppStrings} strings */
const languages = (strings) =>
  h(
    "select",
    {
      "aria-label": strings.language,
      onchange: (/** @type {any} */ event) => choose(event.target.value),
    },
    Object.entries(LANGUAGES).map(([tag, { name }]) =>
      h("option", { value: tag, selected: tag === language() }, name),
    ),
  );
