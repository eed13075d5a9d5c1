// SPDX-License-Identifier: Apache-2.0
/** `<tidings-inbox>`: the notifications of one inbox, by category. */

import { TidingsElement } from "./base.js";
import { hear } from "./hearing.js";
import { basicIcon } from "./icons_basic.js";
import { INBOX_STYLE } from "./inbox_style.js";
import { Lazy } from "./lazy.js";
import { ago, moment, said } from "./words.js";
import { h } from "./view.js";

export { SignedOut, Tidings, tokenFrom } from "../src/index.js";

/** @typedef {import("../src/frames.js").NotificationRecord} NotificationRecord */

/** @typedef {import("./inbox_more.js").InboxMore} InboxMore */

const REFRESH_MS = 300;
const AGAIN_MS = 5_000;
const WAKE_MS_MIN = 10_000;
const WAKE_MS_MAX = 3_600_000;
const DAY_MS = 86_400_000;

export class TidingsInbox extends TidingsElement {
  static observedAttributes = ["inbox"];
  #category = "";
  #trouble = "";
  #hadFocus = false;
  #isLoading = false;
  #isStale = false;
  #pause = WAKE_MS_MIN;
  /** The last button whose part is being loaded. */
  #wanted = {};
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #refreshing;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #waking;
  /** The pages behind the options, and the menu for a snooze. @type {Lazy<InboxMore>} */
  #more = new Lazy(async () => Promise.reject());

  constructor() {
    super();
    this.addStyle(INBOX_STYLE);
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

  /** The path of the inbox in the API. */
  get path() {
    return `/v1/inboxes/${encodeURIComponent(this.inbox)}`;
  }

  /** @param {import("../src/tidings.js").Tidings} tidings */
  start(tidings) {
    const { view } = this;
    this.#more = new Lazy(async () => {
      const { InboxMore } = await import("../elements/inbox_more.js");
      return new InboxMore(this, tidings);
    });
    if (!view) return;
    this.watch(view);
    void this.#wake();
    hear(tidings);
    this.until(tidings.on((event) => event.type === "frame" && this.#happens(event.frame)));
    const minutely = setInterval(this.update, 60_000);
    // The client does not try for long to load the inbox.
    const again = setInterval(() => {
      const isMissing = !view.snapshot().isLoaded;
      if (isMissing && tidings.state.snapshot().connection === "live") view.watched();
    }, AGAIN_MS);
    this.until(() => {
      for (const timer of [minutely, again, this.#refreshing, this.#waking]) clearTimeout(timer);
    });
  }

  /** Follow what the user puts away; the view follows what stays in the list. @param {any} frame */
  #happens({ op, inbox, archived, snooze_until }) {
    const isPutAway = archived !== undefined || snooze_until !== undefined;
    if (op === "marked" && inbox === this.inbox && isPutAway) this.#refresh();
  }

  /** Reload what was put away, once for all changes of a moment. */
  #refresh() {
    clearTimeout(this.#refreshing);
    this.#isStale = true;
    this.#refreshing = setTimeout(() => this.#isLoading || void this.#load(), REFRESH_MS);
  }

  /** Reload now. Changes that come meanwhile cause another reload after this one. */
  async #load() {
    this.#isLoading = true;
    this.#isStale = false;
    await Promise.allSettled([this.#more.value?.load(), this.#wake()]);
    this.#isLoading = false;
    if (this.#isStale && this.isConnected) this.#refresh();
  }

  /** Set a timer to reload when the next snooze ends, because the server does not report this. */
  async #wake() {
    const { tidings } = this;
    const asked = tidings?.request("GET", `${this.path}/notifications?snoozed=true&limit=100`);
    const { data } = (await asked?.catch(() => null)) ?? { data: [] };
    const ends = data.map((/** @type {any} */ one) => Date.parse(one.snoozed_until));
    const left = Math.min(...ends, Infinity) - Date.now();
    clearTimeout(this.#waking);
    if (this.tidings !== tidings || !this.isConnected) return;
    const ms = Math.min(Math.max(left, this.#pause), ends.length ? WAKE_MS_MAX : DAY_MS);
    // A browser whose clock is ahead asks less and less often.
    this.#pause = left > 0 ? WAKE_MS_MIN : ms * 2;
    this.#waking = setTimeout(() => {
      void this.view?.reload().catch(() => {});
      this.#refresh();
    }, ms);
  }

  rendering() {
    this.#hadFocus = !!this.root.activeElement;
  }

  rendered() {
    // What had the focus may be gone.
    if (this.#hadFocus && !this.root.activeElement)
      /** @type {HTMLElement | null} */ (this.root.querySelector(".top .round"))?.focus();
  }

  render() {
    const { strings, view } = this;
    const more = this.#more.value;
    if (!view) return null;
    return h("section", { "aria-label": strings.notifications, part: "inbox" }, [
      more?.page() ?? this.#list(),
      this.#trouble ? h("p", { class: "warn", role: "alert" }, this.#trouble) : null,
      more?.menu(),
    ]);
  }

  #list() {
    const { strings, view } = this;
    if (!view) return null;
    const { notifications, unread, categories, isLoaded, hasMore } = view.snapshot();
    const shown = newestOfEach(notifications).filter(
      (one) => !this.#category || one.category === this.#category,
    );
    const readAll = () => this.attempt(view.readAll());
    // A button that comes or goes leaves the focus to its neighbours, because each has a key.
    const options = {
      key: "options",
      class: "round",
      "aria-label": strings.inboxOptions,
      title: strings.inboxOptions,
      "aria-haspopup": "menu",
      onclick: (/** @type {any} */ event) => this.#use(event, (more, at) => more.options(at)),
    };
    return [
      h("div", { key: "top", class: "bar top" }, [
        h("h2", { class: "grow" }, strings.notifications),
        unread
          ? h("button", { key: "read", class: "link", onclick: readAll }, strings.markAllRead)
          : null,
        h("button", options, basicIcon("more")),
      ]),
      this.#tabs(notifications, categories),
      shown.length ? null : this.#nothing(isLoaded),
      h(
        "ul",
        { key: "list", role: "list", "aria-label": strings.notifications },
        shown.map((one) => h("li", { key: one.id }, [this.#note(one), this.#buttons(one)])),
      ),
      hasMore
        ? h("button", { class: "wide", onclick: () => this.attempt(view.more()) }, strings.more)
        : null,
    ];
  }

  /**
   * Use what is loaded later, for a button that was pressed.
   *
   * @param {any} event
   * @param {(more: InboxMore, button: HTMLElement) => void} use
   */
  #use({ currentTarget }, use) {
    const wanted = (this.#wanted = {});
    const loaded = this.#more.get();
    void this.attempt(
      loaded.then((more) => void (this.#wanted === wanted && use(more, currentTarget))),
    );
  }

  /** @param {boolean} isLoaded */
  #nothing(isLoaded) {
    const { loading, noNotifications } = this.strings;
    return h(
      "div",
      { class: "empty" },
      basicIcon("bell"),
      h("p", null, isLoaded ? noNotifications : loading),
    );
  }

  /** Wait for something, and say so if it fails. @param {Promise<unknown>} work */
  async attempt(work) {
    this.#trouble = await work.then(
      () => "",
      ({ name, message }) => (name === "Refused" && message) || this.strings.wentWrong,
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
  #buttons({ id, actions = [], action, read_at }) {
    const { archive, snooze, markUnread } = this.strings;
    const small = (/** @type {string} */ label, /** @type {(event: any) => void} */ onclick) => ({
      key: `own ${label}`,
      class: "small",
      "aria-label": label,
      title: label,
      onclick,
    });
    const choose = (/** @type {any} */ event) =>
      this.#use(event, (more, at) => more.snooze(id, at));
    const putAway = () => void this.attempt(this.mark(id, { archived: true }));
    const unread = () => void this.attempt(this.mark(id, { read: false }));
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
      read_at ? h("button", small(markUnread, unread), basicIcon("dot")) : null,
      h("button", { ...small(snooze, choose), "aria-haspopup": "menu" }, basicIcon("clock")),
      h("button", small(archive, putAway), basicIcon("archive")),
    ]);
  }

  /**
   * Put a notification away, bring it back, or mark it as unread.
   *
   * @param {string} id
   * @param {{archived: boolean} | {snooze_until: string | null} | {read: false}} state
   */
  async mark(id, state) {
    const { tidings, view, path } = this;
    if (!tidings || !view) return;
    const wish = { ids: [id], ...state };
    const { unread, categories } = await tidings.request("PUT", `${path}/state`, wish);
    if (!("read" in state)) view.retracted(id);
    view.counted({ total: unread, categories });
  }

  /** @param {string} id @param {{id: string, uri?: string}} action */
  #act(id, action) {
    const { tidings, view } = this;
    if (!tidings || !view) return;
    if (action.uri?.startsWith("https://")) window.open(action.uri, "_blank", "noopener");
    const path = `${this.path}/notifications/${id}/actions/${encodeURIComponent(action.id)}`;
    void this.attempt(tidings.request("POST", path).then(() => view.reload()));
  }

  /** @param {NotificationRecord} one */
  #note(one) {
    const { strings } = this;
    const { title, body, cta_uri } = /** @type {Record<string, string>} */ (one.message);
    const at = Date.parse(one.received_at);
    const open = () => {
      if (!one.read_at && this.view) void this.attempt(this.view.read([one.id]));
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
