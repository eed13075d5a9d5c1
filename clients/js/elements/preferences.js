// SPDX-License-Identifier: Apache-2.0
/** The preferences of the user in an inbox: categories by channel, quiet hours, and the sound. */

import { h } from "./describe.js";
import { soundKey } from "./hearing.js";
import { inboxWords } from "./strings_inbox.js";

/** @typedef {import("./describe.js").Child} Child */
/** @typedef {import("./inbox.js").TidingsInbox} TidingsInbox */
/** @typedef {{in_app: boolean, push: boolean, email: boolean, required: boolean}} Choice */
/**
 * @typedef {{categories: Record<string, Choice>, chosen: Record<string, Partial<Choice>>,
 *   quiet_hours: {from: string, to: string, timezone: string} | null}} Record_
 */

const CHANNELS = /** @type {const} */ ([
  ["in_app", "inApp"],
  ["push", "byPush"],
  ["email", "byEmail"],
]);
const NIGHT = { from: "22:00", to: "07:00" };
const STYLE = `
.wishes { display: grid; gap: 14px; padding: 8px 16px 16px; }
.wishes table { border-collapse: collapse; inline-size: 100%; }
.wishes th { font-weight: inherit; padding: 6px 4px; text-align: start; }
.wishes tbody th { overflow-wrap: anywhere; }
.wishes thead { color: var(--faint); font-size: 0.87em; }
.wishes td, .wishes thead th + th { padding: 6px 4px; text-align: center; }
.wishes fieldset { border: 0; display: flex; flex-wrap: wrap; gap: 10px; margin: 0; padding: 0; }
.wishes fieldset > label { flex: 1 1 140px; min-inline-size: 0; }
.wishes select { inline-size: 100%; }
.wishes .check { align-items: start; display: flex; gap: 8px; }
.wishes .end { align-items: center; display: flex; gap: 12px; }
`;

export class Preferences {
  #element;
  #tidings;
  #record = /** @type {Record_ | null} */ (null);
  #isQuiet = false;
  #isSaved = false;

  /**
   * @param {TidingsInbox} element
   * @param {import("../src/tidings.js").Tidings} tidings
   */
  constructor(element, tidings) {
    this.#element = element;
    this.#tidings = tidings;
    element.addStyle(STYLE);
  }

  get #path() {
    return `${this.#element.path}/preferences`;
  }

  /** Load them, before they are shown. */
  async load() {
    this.#record = null;
    this.#take(await this.#tidings.request("GET", this.#path));
  }

  /** @param {Record_} record */
  #take(record) {
    this.#record = record;
    this.#isQuiet = !!record.quiet_hours;
    this.#isSaved = false;
  }

  /** Describe the form. @returns {Child} */
  form() {
    const words = inboxWords(this.#element);
    const record = this.#record;
    if (!record) return h("p", { class: "empty", role: "status" }, words.loading);
    const submit = (/** @type {any} */ event) => {
      event.preventDefault();
      void this.#element.attempt(this.#save(new FormData(event.target)));
    };
    const touched = () => {
      this.#isSaved = false;
      this.#element.update();
    };
    return h("form", { class: "wishes", onsubmit: submit, oninput: touched }, [
      Object.keys(record.categories).length ? this.#table(record) : null,
      this.#quiet(record),
      this.#sound(),
      h("div", { class: "end" }, [
        h("button", { class: "main" }, words.save),
        h("span", { class: "faint", role: "status" }, this.#isSaved ? words.saved : ""),
      ]),
    ]);
  }

  /** @param {Record_} record */
  #table({ categories }) {
    const words = inboxWords(this.#element);
    const row = (/** @type {[string, Choice]} */ [name, choice]) =>
      h("tr", { key: name }, [
        h("th", { scope: "row" }, [
          h("bdi", null, name),
          choice.required ? h("span", { class: "faint" }, ` · ${words.required}`) : null,
        ]),
        CHANNELS.map(([channel, label]) =>
          h("td", null, [
            h("input", {
              type: "checkbox",
              name: `${channel} ${name}`,
              "aria-label": `${name}: ${words[label]}`,
              defaultChecked: choice[channel],
              disabled: choice.required,
            }),
          ]),
        ),
      ]);
    return h("table", null, [
      h("thead", null, [
        h("tr", null, [
          h("th", { scope: "col" }, words.category),
          CHANNELS.map(([, label]) => h("th", { scope: "col" }, words[label])),
        ]),
      ]),
      h("tbody", null, Object.entries(categories).map(row)),
    ]);
  }

  /** @param {Record_} record */
  #quiet({ quiet_hours }) {
    const words = inboxWords(this.#element);
    const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const { from, to, timezone } = quiet_hours ?? { ...NIGHT, timezone: here };
    const zones = [...new Set([timezone, here, ...Intl.supportedValuesOf("timeZone")])].sort();
    const change = (/** @type {any} */ event) => {
      this.#isQuiet = event.target.checked;
      this.#element.update();
    };
    const time = (
      /** @type {string} */ label,
      /** @type {string} */ name,
      /** @type {string} */ at,
    ) =>
      h("label", null, [
        label,
        h("input", { name, type: "time", required: true, defaultValue: at }),
      ]);
    return [
      h("label", { class: "check" }, [
        h("input", {
          type: "checkbox",
          name: "quiet",
          defaultChecked: !!quiet_hours,
          onchange: change,
        }),
        words.quietHours,
      ]),
      this.#isQuiet
        ? h("fieldset", { key: "quiet", "aria-label": words.quietHours }, [
            time(words.quietFrom, "from", from),
            time(words.quietTo, "to", to),
            h("label", null, [
              words.timeZone,
              h(
                "select",
                { name: "timezone" },
                zones.map((zone) =>
                  h("option", { value: zone, selected: zone === timezone }, zone),
                ),
              ),
            ]),
          ])
        : null,
    ];
  }

  #sound() {
    const isOn = !!localStorage.getItem(soundKey(this.#tidings));
    return h("label", { class: "check" }, [
      h("input", { type: "checkbox", name: "sound", defaultChecked: isOn }),
      inboxWords(this.#element).playSound,
    ]);
  }

  /** @param {FormData} form */
  async #save(form) {
    const { categories: given = {}, chosen = {} } = this.#record ?? {};
    const categories = Object.entries(given).map(([name, choice]) => {
      // What the user leaves as it is may be a default, and stays one.
      const changed = CHANNELS.map(([channel]) => [channel, form.has(`${channel} ${name}`)]).filter(
        ([channel, isOn]) => choice[/** @type {"push"} */ (channel)] !== isOn,
      );
      return [name, { ...chosen[name], ...(choice.required ? {} : Object.fromEntries(changed)) }];
    });
    const [from, to, timezone] = ["from", "to", "timezone"].map((name) => form.get(name));
    const quiet_hours = form.has("quiet") ? { from, to, timezone } : null;
    const wish = { categories: Object.fromEntries(categories), quiet_hours };
    this.#take(await this.#tidings.request("PUT", this.#path, wish));
    await this.#useSound(form.has("sound"));
    this.#isSaved = true;
  }

  /** @param {boolean} isOn */
  async #useSound(isOn) {
    if (!isOn && !localStorage.getItem(soundKey(this.#tidings))) return;
    const { soundOf } = await import("../elements/sound.js");
    soundOf(this.#tidings).use(isOn ? this.#element.inbox : "");
  }
}
