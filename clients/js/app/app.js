// SPDX-License-Identifier: Apache-2.0
/** The web app: sign in, then chats and notifications. */

import "../elements/bell.js";
import "../elements/chat.js";
import { icon } from "../elements/icons.js";
import { h, render } from "../elements/view.js";
import { Tidings } from "../src/index.js";
import { showUnread } from "./badge.js";
import { endPush, Notices } from "./notices.js";
import { keepChats, showKept } from "./offline.js";
import { deviceOf, forget, session, tokenOf } from "./session.js";
import { keepShell } from "./shell.js";
import { signIn } from "./sign_in.js";
import { load } from "./strings.js";

/** @typedef {import("../elements/chat.js").TidingsChat} TidingsChat */
/** @typedef {import("./session.js").Session} Session */

/** How long the sign-out waits for the end of the notices. */
const STOP_MS_MAX = 3_000;

const texts = await load();

class App {
  #tidings;
  #notices;
  #who;
  #name;
  #stopped = /** @type {Promise<void> | null} */ (null);
  #isLeaving = false;
  #isGone = false;

  /** @param {Session} who */
  constructor(who) {
    this.#who = who;
    this.#name = who.user;
    // Two tabs can be two people: each has what it keeps under its own name.
    const name = `${location.origin} ${who.name}`;
    const device = deviceOf(who);
    this.#tidings = new Tidings(location.origin, {
      token: tokenOf(who),
      name,
      device,
      client: "tidings-web/0.1.0",
    });
    this.#notices = new Notices(this.#tidings, device, texts.app, () => this.#update());
  }

  async start() {
    const tidings = this.#tidings;
    this.#update();
    showUnread(tidings, () => this.#title);
    tidings.on((event) => void (event.type === "signed-out" && this.#left()));
    addEventListener("hashchange", () => this.#goTo());
    keepChats(tidings, this.#who.name);
    await tidings.start();
    this.#notices.start();
    showKept(tidings, this.#who.name);
    this.#goTo();
    await tidings.request("GET", "/v1/me").then(
      (me) => (this.#name = me.display_name || me.user_id),
      () => {},
    );
    this.#update();
  }

  #update() {
    const { elements } = texts;
    const tidings = this.#tidings;
    render(
      document.body,
      h("main", { class: "app" }, [
        this.#notices.question(),
        h("tidings-chat", { tidings, strings: elements, ref: this.#listen }, this.#head()),
      ]),
    );
  }

  #head() {
    const { app, elements } = texts;
    const tidings = this.#tidings;
    return h("div", { slot: "head", class: "me" }, [
      h("h1", null, h("bdi", null, this.#name)),
      h("tidings-bell", { tidings, strings: elements }),
      this.#notices.button(),
      h("button", { "aria-label": app.signOut, title: app.signOut, onclick: () => this.#leave() }, [
        icon("leave"),
      ]),
    ]);
  }

  /** @returns {TidingsChat | null} */
  get #chat() {
    return document.querySelector("tidings-chat");
  }

  /** The title of the open chat. */
  get #title() {
    const chat = this.#chat;
    const record = chat?.view?.snapshot().record;
    return record ? chat?.people?.titleOf(record) : undefined;
  }

  /** The address names the open chat, so that a link, a reload and the back button lead to it. */
  #listen = (/** @type {TidingsChat} */ element) => {
    element.addEventListener("tidings-open", (/** @type {any} */ { detail }) => {
      const [chat = ""] = location.hash.slice(1).split("/");
      if (chat !== detail.chat) history.pushState(null, "", `#${detail.chat}`);
    });
  };

  #goTo() {
    const [chat = "", sequence] = location.hash.slice(1).split("/");
    this.#chat?.open(chat, Number(sequence) || undefined);
    // The same link leads there again, after the user has gone elsewhere in the chat.
    if (sequence) history.replaceState(null, "", `#${chat}`);
  }

  async #leave() {
    if (this.#isLeaving) return;
    this.#isLeaving = true;
    await this.#stop();
    await this.#tidings.signOut();
  }

  /** End the notices while there is a token, but do not wait long for a slow server. */
  #stop() {
    const soon = new Promise((resolve) => setTimeout(resolve, STOP_MS_MAX));
    return (this.#stopped ??= Promise.race([this.#notices.stop(), soon]).then(() => {}));
  }

  /** The user is signed out, here or in another tab. To load the page twice would end the first. */
  async #left() {
    if (this.#isGone) return;
    this.#isGone = true;
    await this.#stop();
    await forget(this.#who);
    history.replaceState(null, "", location.pathname);
    location.reload();
  }
}

void keepShell();
if (!session()) void endPush().catch(() => {});
void new App(session() ?? (await signIn(texts.app))).start();
