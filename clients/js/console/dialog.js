// SPDX-License-Identifier: Apache-2.0
/** The dialog before every change: what it does, its fields, and the name that has to be typed. */

import { h } from "../elements/view.js";
import { ANSWER_MS_MAX } from "../src/in_time.js";
import { icon } from "./icons.js";
import { button, trouble } from "./parts.js";

/** @typedef {import("../elements/view.js").Child} Child */

/**
 * @typedef {{name: string, label: string, hint?: string, value?: string | number | null,
 *   type?: "text" | "number" | "datetime-local" | "area" | "check" | "pick", options?: readonly (readonly [string, string])[],
 *   isOptional?: boolean, placeholder?: string}} Field
 * @typedef {Record<string, string>} Values - What was typed; a box that is ticked is "on".
 */

/**
 * A question: `name` is what has to be typed before the button works, `request` what is sent to the
 * server. `act` sends it; what it returns is shown, such as a key that is shown once. While it is
 * sent, the dialog stays, unless `canStop`: then the signal says that the dialog was left.
 *
 * @typedef {{title: string, text?: Child, name?: string, verb: string, request: string,
 *   isDangerous?: boolean, isAudited?: boolean, canStop?: boolean, fields?: Field[],
 *   act: (values: Values, left: AbortSignal) => Promise<Child | void>}} Question
 */

let dialogs = 0;

export class Dialog {
  /** A dialog that was closed is not used again for the next one. */
  #key = `dialog ${(dialogs += 1)}`;
  #typed = "";
  #trouble = "";
  #isSending = false;
  /** Whether nobody may leave, because the answer would be missed. */
  #isHeld = false;
  #shown = /** @type {Child | null} */ (null);
  #isDone = false;
  #left = new AbortController();

  /**
   * @param {Question} question
   * @param {() => void} update
   * @param {(isDone: boolean) => void} close
   * @param {(outcome: string) => void} tell - Says what became of a change after the dialog was left.
   */
  constructor(question, update, close, tell) {
    this.question = question;
    this.update = update;
    this.close = close;
    this.tell = tell;
  }

  /** Close without an answer. A change that is on its way is made nevertheless. */
  leave() {
    this.#left.abort();
    this.close(this.#isDone);
  }

  /** Let nobody leave, but not for ever: a server may be silent. Return how to end this. */
  #hold() {
    this.#isHeld = !this.question.canStop;
    const end = () => {
      this.#isHeld = false;
      this.update();
    };
    const timer = setTimeout(end, ANSWER_MS_MAX);
    return () => {
      clearTimeout(timer);
      end();
    };
  }

  render() {
    const { title, text } = this.question;
    const ref = (/** @type {HTMLDialogElement} */ made) =>
      queueMicrotask(() => made.isConnected && made.showModal());
    const onclose = () => this.leave();
    const oncancel = (/** @type {Event} */ event) => {
      if (this.#isHeld) event.preventDefault();
    };
    const round = { type: "button", class: "round", "aria-label": "Close", onclick: leave };
    return h("dialog", { key: this.#key, ref, onclose, oncancel, "aria-labelledby": "question" }, [
      h("header", null, [
        h("h2", { id: "question" }, title),
        h("button", { ...round, disabled: this.#isHeld }, [icon("close")]),
      ]),
      this.#shown
        ? h("div", { class: "shown" }, [
            this.#shown,
            h("div", { class: "end" }, button("Done", leave, "main")),
          ])
        : h("form", { onsubmit: (/** @type {SubmitEvent} */ event) => void this.#send(event) }, [
            text ? h("div", { class: "text" }, text) : null,
            this.question.fields?.map(field),
            this.#name(),
            this.#trouble ? trouble(this.#trouble) : null,
            this.#foot(),
          ]),
    ]);
  }

  #name() {
    const { name } = this.question;
    if (name === undefined) return null;
    const oninput = (/** @type {any} */ event) => {
      this.#typed = event.target.value.trim();
      this.update();
    };
    return h("label", null, [
      h("span", null, ["Type ", h("code", null, name), " to confirm"]),
      h("input", {
        name: "~name",
        autocomplete: "off",
        spellcheck: false,
        autocapitalize: "off",
        oninput,
      }),
    ]);
  }

  #foot() {
    const { name, verb, isDangerous, request, canStop, isAudited = true } = this.question;
    const isReady = !this.#isSending && (name === undefined || this.#typed === name);
    const isStop = this.#isSending && canStop;
    return h("div", { class: "end" }, [
      h("small", { class: "request" }, [
        "Sends ",
        h("code", null, request),
        isAudited ? ". It is in the audit trail." : ".",
      ]),
      h(
        "button",
        { type: "button", disabled: this.#isHeld, onclick: leave },
        isStop ? "Stop" : "Cancel",
      ),
      h("button", { class: isDangerous ? "danger" : "main", disabled: !isReady }, verb),
    ]);
  }

  /** @param {any} event */
  async #send(event) {
    event.preventDefault();
    if (this.#isSending) return;
    const form = [...new FormData(event.target)].filter(([name]) => name !== "~name");
    this.#isSending = true;
    this.#trouble = "";
    const end = this.#hold();
    this.update();
    let outcome = "done.";
    try {
      const shown = await this.question.act(
        Object.fromEntries(form.map(([k, v]) => [k, String(v).trim()])),
        this.#left.signal,
      );
      this.#isDone = true;
      if (!shown) this.close(true);
      else {
        this.#shown = shown;
        outcome = "answered, but what the server said could not be shown any more.";
      }
    } catch (error) {
      outcome = this.#trouble = /** @type {Error} */ (error).message;
    }
    this.#isSending = false;
    if (this.#left.signal.aborted) this.tell(`${this.question.title}: ${outcome}`);
    end();
  }
}

const leave = (/** @type {any} */ event) => event.target.closest("dialog").close();

/** @param {Field} field */
function field({ name, label, hint, value, type = "text", options, isOptional, placeholder }) {
  const common = { name, required: !isOptional, placeholder };
  const box =
    type === "area"
      ? h("textarea", { ...common, rows: 4 }, value)
      : type === "pick"
        ? h(
            "select",
            { name },
            options?.map(([key, text]) =>
              h("option", { value: key, selected: key === value }, text),
            ),
          )
        : type === "check"
          ? h("input", { name, type: "checkbox", defaultChecked: !!value })
          : h("input", {
              ...common,
              defaultValue: value ?? "",
              type,
              autocomplete: "off",
              ...(type === "number" ? { min: 0 } : {}),
            });
  return h("label", { class: type === "check" ? "check" : null, key: name }, [
    h("span", null, label),
    box,
    hint ? h("small", null, hint) : null,
  ]);
}
