// SPDX-License-Identifier: Apache-2.0
/** The operator's console: the menu, and the screen that the address names. */

import { gathered, h, render } from "../elements/view.js";
import { Dialog } from "./dialog.js";
import { icon } from "./icons.js";
import { trouble } from "./parts.js";
import { address } from "./screen.js";
import { SCREENS } from "./screens.js";
import { kept, signOut } from "./server.js";
import { askForKey } from "./sign_in.js";

/** @typedef {import("./server.js").Server} Server */
/** @typedef {import("./screen.js").Screen} Screen */
/** @typedef {import("./dialog.js").Question} Question */
/** @typedef {typeof import("./screen.js").Screen} ScreenClass */

const SAID_MS = 6_000;
const CHAT = /^[0-9A-HJKMNP-TV-Z]{26}$/;
const MESSAGE = /^([0-9A-HJKMNP-TV-Z]{26})\.(\d+)$/;

class Console {
  #screen = /** @type {Screen | null} */ (null);
  #kind = /** @type {ScreenClass | null} */ (null);
  #dialog = /** @type {Dialog | null} */ (null);
  #said = "";
  #isMenuOpen = false;
  #timer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);

  /** @param {Server} server */
  constructor(server) {
    this.server = server;
    this.update = gathered(() => this.#render());
  }

  start() {
    addEventListener("hashchange", () => this.#open());
    document.addEventListener("visibilitychange", () => document.hidden || this.#again());
    this.#open();
  }

  /** @param {...string} parts */
  go(...parts) {
    location.hash = address(...parts);
  }

  /** Say that something was done. @param {string} text */
  say(text) {
    this.#said = text;
    this.update();
    setTimeout(() => {
      if (this.#said === text) this.#said = "";
      this.update();
    }, SAID_MS);
  }

  /**
   * Ask before a change; resolves with whether it was made.
   *
   * @param {Question} question
   * @returns {Promise<boolean>}
   */
  ask(question) {
    // Behind a dialog there is nobody to ask: the button was clicked twice before it opened.
    if (this.#dialog) return Promise.resolve(false);
    return new Promise((resolve) => {
      const opener = /** @type {HTMLElement | null} */ (document.activeElement);
      const close = (/** @type {boolean} */ isDone) => {
        resolve(isDone);
        if (this.#dialog !== dialog) return; // it was left, and there may be another one
        this.#dialog = null;
        this.update();
        opener?.focus();
      };
      const dialog = new Dialog(question, this.update, close, this.#tell);
      this.#dialog = dialog;
      this.update();
    });
  }

  /** Say what became of a change whose dialog is gone, and show what it changed. */
  #tell = (/** @type {string} */ outcome) => {
    this.say(outcome);
    void this.#screen?.open();
  };

  /** Whether this is the screen that is open. @param {Screen} screen */
  shows(screen) {
    return this.#screen === screen;
  }

  /** Screens that the key may open. */
  get #screens() {
    return SCREENS.filter(
      ({ menu, path }) => this.server.isRoot || (menu !== "deployment" && path.includes(":")),
    );
  }

  #open() {
    const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
    for (const kind of this.#screens) {
      const params = matched(kind.path, parts);
      const isOther =
        params?.["tenant"] && this.server.tenant && params["tenant"] !== this.server.tenant;
      if (params && !isOther) return this.#show(kind, params);
    }
    const first = this.server.isRoot
      ? address(...firstOf(this.#screens))
      : address("tenants", this.server.tenant ?? "");
    history.replaceState(null, "", first);
    this.#open();
  }

  /**
   * @param {ScreenClass} kind
   * @param {Record<string, string>} params
   */
  #show(kind, params) {
    this.#dialog?.leave();
    clearTimeout(this.#timer);
    this.#kind = kind;
    const screen = (this.#screen = new kind(this, params));
    this.#isMenuOpen = false;
    this.update();
    scrollTo(0, 0);
    void screen.open().then(() => {
      if (!this.shows(screen)) return;
      this.#plan();
      // What had the focus is gone with the screen before.
      if (document.activeElement === document.body) document.querySelector("main")?.focus();
    });
  }

  /** Load the screen again after some time, while somebody looks at it. */
  #plan() {
    clearTimeout(this.#timer);
    const seconds = this.#kind?.refresh ?? 0;
    if (seconds) this.#timer = setTimeout(() => this.#again(), seconds * 1_000);
  }

  #again() {
    clearTimeout(this.#timer);
    if (!this.#kind?.refresh) return;
    if (document.hidden || this.#dialog) return this.#plan();
    void this.#screen?.open().then(() => this.#plan());
  }

  #render() {
    const screen = this.#screen;
    if (!screen) return;
    const heading = screen.heading();
    document.title = `${heading} · Tidings console`;
    render(document.body, [
      h("a", { class: "skip", href: "#main", onclick: skip }, "Skip to the content"),
      h("div", { class: "frame" }, [this.#bar(), this.#menu(screen), this.#main(screen, heading)]),
      h("p", { class: "said", role: "status", hidden: this.#said ? null : true }, this.#said),
      this.#dialog?.render() ?? null,
    ]);
  }

  #bar() {
    const isOpen = this.#isMenuOpen;
    const onclick = () => {
      this.#isMenuOpen = !isOpen;
      this.update();
    };
    return h("div", { class: "bar" }, [
      h(
        "button",
        {
          type: "button",
          class: "round",
          "aria-label": "Menu",
          "aria-expanded": String(isOpen),
          onclick,
        },
        [icon(isOpen ? "close" : "menu")],
      ),
      h("strong", null, "Tidings console"),
    ]);
  }

  /** @param {Screen} screen */
  #menu(screen) {
    const tenant = screen.params["tenant"] ?? this.server.tenant;
    const leave = () => {
      signOut();
      location.replace(location.pathname);
    };
    return h("nav", { class: this.#isMenuOpen ? "open" : null, "aria-label": "Screens" }, [
      h("p", { class: "brand" }, [
        h("img", { src: new URL("../app/icon.svg", import.meta.url).href, alt: "" }),
        h("span", null, [h("strong", null, "Tidings"), h("small", null, "console")]),
      ]),
      this.#find(tenant),
      this.server.isRoot ? this.#entries("deployment", "Deployment", []) : null,
      tenant ? this.#entries("tenant", tenant, [tenant]) : null,
      h("div", { class: "who" }, [
        h("span", null, [icon("key"), this.server.isRoot ? "Root key" : "Tenant key"]),
        h(
          "button",
          {
            type: "button",
            class: "round",
            "aria-label": "Forget the key",
            title: "Forget the key",
            onclick: leave,
          },
          [icon("leave")],
        ),
      ]),
    ]);
  }

  /**
   * @param {"deployment" | "tenant"} menu
   * @param {string} name
   * @param {string[]} values
   */
  #entries(menu, name, values) {
    const entries = this.#screens.filter((kind) => kind.menu === menu);
    return [
      h(
        "h2",
        { key: `${menu} name` },
        menu === "tenant" ? ["Tenant ", h("bdi", null, name)] : name,
      ),
      h(
        "ul",
        { key: menu },
        entries.map((kind) => {
          const rest = [...values];
          const parts = kind.path
            .split("/")
            .map((part) => (part.startsWith(":") ? (rest.shift() ?? "") : part));
          const isHere = kind === this.#kind || this.#isBelow(kind);
          return h("li", { key: kind.path }, [
            h("a", { href: address(...parts), "aria-current": isHere ? "page" : null }, [
              kind.icon ? icon(kind.icon) : null,
              kind.title,
            ]),
          ]);
        }),
      ),
    ];
  }

  /** Whether the open screen has no entry of its own and belongs to this one. @param {ScreenClass} kind */
  #isBelow(kind) {
    const here = this.#kind;
    return (
      !!here &&
      !here.menu &&
      kind.path.split("/").length > 2 &&
      here.path.startsWith(`${kind.path}/`)
    );
  }

  /** A field that leads to a user, chat or message by its id. @param {string | null} tenant */
  #find(tenant) {
    if (!tenant) return null;
    const onsubmit = (/** @type {any} */ event) => {
      event.preventDefault();
      const id = String(new FormData(event.target).get("id")).trim();
      const [, chat, sequence] = MESSAGE.exec(id) ?? [];
      if (chat && sequence) this.go("tenants", tenant, "chats", chat, sequence);
      else if (CHAT.test(id)) this.go("tenants", tenant, "chats", id);
      else if (id) this.go("tenants", tenant, "users", id);
    };
    return h("form", { class: "find", role: "search", onsubmit }, [
      icon("search"),
      h("input", {
        name: "id",
        type: "search",
        "aria-label": "Go to a user, chat or message by its id",
        placeholder: "User, chat or message id",
        autocomplete: "off",
        spellcheck: false,
      }),
    ]);
  }

  /**
   * @param {Screen} screen
   * @param {string} heading
   */
  #main(screen, heading) {
    return h("main", { id: "main", tabIndex: -1, "aria-busy": screen.isLoaded ? null : "true" }, [
      h("header", { class: "head" }, [
        screen.above().length
          ? h(
              "p",
              { class: "above" },
              screen
                .above()
                .map(([name, href]) => [
                  h("a", { href }, name),
                  h("span", { "aria-hidden": "true" }, "/"),
                ]),
            )
          : null,
        h("div", null, [h("h1", null, heading), h("div", { class: "aside" }, screen.aside())]),
      ]),
      screen.trouble ? trouble(screen.trouble) : null,
      screen.isLoaded ? screen.render() : h("p", { class: "empty" }, "Loading…"),
    ]);
  }
}

const skip = (/** @type {any} */ event) => {
  event.preventDefault();
  document.querySelector("main")?.focus();
};

/** @param {string} part */
const decoded = (part) => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

/** The address of the first screen of the menu. @param {readonly ScreenClass[]} screens */
const firstOf = (screens) =>
  (screens.find(({ menu }) => menu === "deployment")?.path ?? "tenants").split("/");

/**
 * Return the names of an address, if it is one of the path.
 *
 * @param {string} path
 * @param {string[]} parts
 * @returns {Record<string, string> | null}
 */
function matched(path, parts) {
  const wanted = path.split("/");
  if (wanted.length !== parts.length) return null;
  const params = /** @type {Record<string, string>} */ ({});
  for (const [index, name] of wanted.entries()) {
    const part = parts[index] ?? "";
    if (name.startsWith(":")) params[name.slice(1)] = part;
    else if (name !== part) return null;
  }
  return params;
}

new Console(kept() ?? (await askForKey())).start();
