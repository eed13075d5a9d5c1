// SPDX-License-Identifier: Apache-2.0
/** `<tidings-inbox>`: the notifications of one inbox, by category. */

import { TidingsElement } from "./base.js";
import { icon } from "./icons.js";
import { INBOX_STYLE } from "./inbox_style.js";
import { sheet } from "./style.js";
import { ago, moment, said } from "./text.js";
import { h } from "./view.js";

export { SignedOut, Tidings, tokenFrom } from "../src/index.js";

/** @typedef {import("../src/frames.js").NotificationRecord} NotificationRecord */

const SNOOZE_MS = 3_600_000;

export class TidingsInbox extends TidingsElement {
  static observedAttributes = ["inbox"];
  #category = "";
  #isBroken = false;

  constructor() {
    super();
    this.root.adoptedStyleSheets.push(sheet(INBOX_STYLE));
  }

  /** The name of the inbox. */
  get inbox() {
    return this.getAttribute("inbox") ?? "";
  }

  set inbox(name) {
    if (name !== this.inbox) this.setAttribute("inbox", name);
  }

  attributeChangedCallback() {
    this.#category = "";
    this.connectedCallback();
  }

  get view() {
    return this.tidings && this.inbox ? this.tidings.inbox(this.inbox) : null;
  }

  start() {
    if (this.view) this.watch(this.view);
    const minutely = setInterval(this.update, 60_000);
    this.until(() => clearInterval(minutely));
  }

  render() {
    const { strings, view } = this;
    if (!view) return null;
    const { notifications, unread, categories, isLoaded, hasMore } = view.snapshot();
    const shown = newestOfEach(notifications).filter(
      (one) => !this.#category || one.category === this.#category,
    );
    return h("section", { "aria-label": strings.notifications, part: "inbox" }, [
      h("div", { class: "bar top" }, [
        h("h2", { class: "grow" }, strings.notifications),
        unread
          ? h("button", { class: "link", onclick: () => this.#do(view.readAll()) }, [
              strings.markAllRead,
            ])
          : null,
      ]),
      this.#tabs(notifications, categories),
      this.#isBroken ? h("p", { class: "warn", role: "alert" }, strings.wentWrong) : null,
      shown.length ? null : this.#nothing(isLoaded),
      h(
        "ul",
        { role: "list", "aria-label": strings.notifications },
        shown.map((one) => h("li", { key: one.id }, [this.#note(one), this.#buttons(one)])),
      ),
      hasMore
        ? h("button", { class: "wide", onclick: () => this.#do(view.more()) }, strings.more)
        : null,
    ]);
  }

  /** @param {boolean} isLoaded */
  #nothing(isLoaded) {
    const { loading, noNotifications } = this.strings;
    return h(
      "div",
      { class: "empty" },
      icon("bell"),
      h("p", null, isLoaded ? noNotifications : loading),
    );
  }

  /** @param {Promise<void>} work */
  async #do(work) {
    this.#isBroken = await work.then(
      () => false,
      () => true,
    );
    this.update();
  }

  /**
   * @param {readonly NotificationRecord[]} notifications
   * @param {Readonly<Record<string, number>>} counts
   */
  #tabs(notifications, counts) {
    const names = new Set(notifications.flatMap((one) => one.category ?? []));
    for (const name of Object.keys(counts)) names.add(name);
    if (names.size < 2) return null;
    const tab = (/** @type {string} */ name) =>
      h(
        "button",
        {
          key: `tab ${name}`,
          "aria-pressed": String(this.#category === name),
          onclick: () => {
            this.#category = name;
            this.update();
          },
        },
        [
          h("bdi", null, name || this.strings.all),
          counts[name] ? h("span", { class: "badge" }, counts[name]) : null,
        ],
      );
    return h("div", { class: "tabs", part: "tabs" }, ["", ...[...names].sort()].map(tab));
  }

  /**
   * What the user can do with a notification besides opening it.
   *
   * @param {NotificationRecord} one
   */
  #buttons({ id, actions = [], action }) {
    const { archive, snooze } = this.strings;
    const small = (/** @type {"archive" | "clock"} */ name, /** @type {string} */ label) => ({
      class: "small",
      "aria-label": label,
      title: label,
      onclick: () =>
        this.#do(
          name === "archive"
            ? this.#putAway(id, { archived: true })
            : this.#putAway(id, { snooze_until: new Date(Date.now() + SNOOZE_MS).toISOString() }),
        ),
    });
    return h("div", { class: "acts", part: "actions" }, [
      ...actions.map((each) =>
        h(
          "button",
          {
            key: each.id,
            disabled: !!action,
            "aria-pressed": String(action === each.id),
            onclick: () => this.#act(id, each),
          },
          h("bdi", null, each.label),
        ),
      ),
      h("span", { class: "grow" }),
      h("button", small("clock", snooze), icon("clock")),
      h("button", small("archive", archive), icon("archive")),
    ]);
  }

  /** @param {string} id @param {Record<string, unknown>} state */
  async #putAway(id, state) {
    const { tidings, view } = this;
    if (!tidings || !view) return;
    const path = `/v1/inboxes/${encodeURIComponent(view.name)}/state`;
    const { unread, categories } = await tidings.request("PUT", path, { ids: [id], ...state });
    view.retracted(id);
    view.counted({ total: unread, categories });
    if (!state.archived) setTimeout(() => void view.reload().catch(() => {}), SNOOZE_MS);
  }

  /** @param {string} id @param {{id: string, uri?: string}} action */
  #act(id, action) {
    const { tidings, view } = this;
    if (!tidings || !view) return;
    if (action.uri?.startsWith("https://")) window.open(action.uri, "_blank", "noopener");
    const [inbox, name] = [view.name, action.id].map(encodeURIComponent);
    const path = `/v1/inboxes/${inbox}/notifications/${id}/actions/${name}`;
    void this.#do(tidings.request("POST", path).then(() => view.reload()));
  }

  /** @param {NotificationRecord} one */
  #note(one) {
    const { strings } = this;
    const { title, body, cta_uri } = /** @type {Record<string, string>} */ (one.message);
    const at = Date.parse(one.received_at);
    const open = () => {
      if (!one.read_at && this.view) void this.#do(this.view.read([one.id]));
      const goes = this.tell("notification", one);
      if (goes && cta_uri?.startsWith("https://")) window.open(cta_uri, "_blank", "noopener");
    };
    const unread = said(strings.unread, { n: 1 });
    return h("button", { class: "note", part: "notification", onclick: open }, [
      h("span", { class: "mark" }, [
        one.read_at ? null : h("span", { class: "badge", role: "img", "aria-label": unread }),
      ]),
      h("span", { class: "grow" }, [
        h("span", { class: "bar" }, [
          h("strong", { class: "grow", dir: "auto" }, title ?? one.sender ?? ""),
          h("time", { class: "faint", dateTime: one.received_at, title: moment(at, strings) }, [
            ago(at, Date.now(), strings),
          ]),
        ]),
        body ? h("span", { class: "body", dir: "auto" }, body) : null,
        one.category ? h("bdi", { class: "faint" }, one.category) : null,
        one.collapsed ? h("span", { class: "faint" }, ` +${one.collapsed}`) : null,
      ]),
    ]);
  }
}

/**
 * Return the notifications without older ones of the same collapse key.
 *
 * @param {readonly NotificationRecord[]} notifications - The newest first.
 */
function newestOfEach(notifications) {
  const keys = new Set();
  return notifications.filter(({ collapse_key: key }) => {
    if (!key) return true;
    return !keys.has(key) && keys.add(key);
  });
}

if (!customElements.get("tidings-inbox")) customElements.define("tidings-inbox", TidingsInbox);
