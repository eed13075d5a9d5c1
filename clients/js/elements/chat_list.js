// SPDX-License-Identifier: Apache-2.0
/** The list of chats, with a search over it. */

import { icon } from "./icons.js";
import { Search } from "./search.js";
import { brief, chatFace, face, filled, said } from "./text.js";
import { h } from "./view.js";

/** @typedef {import("../src/chats_view.js").ChatRecord} ChatRecord */
/** @typedef {import("./chat.js").TidingsChat} TidingsChat */
/** @typedef {import("./view.js").Child} Child */

/** A row under a moving pointer does not move itself for this long. */
const STILL_MS = 1_500;
const NONE = { chats: [], isLoaded: false, hasMore: false };

export class ChatList {
  #element;
  #search;
  #query = "";
  #showsHidden = false;
  #order = /** @type {string[]} */ ([]);
  #movedAt = -Infinity;
  #later = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);

  /** @param {TidingsChat} element */
  constructor(element) {
    this.#element = element;
    this.#search = new Search(element);
  }

  describe() {
    const { strings, tidings } = this.#element;
    const { chats, isLoaded, hasMore } = tidings?.chats.snapshot() ?? NONE;
    const found = chats.filter((chat) => this.#matches(chat));
    const shown = this.#ordered(found.filter((chat) => !chat.hidden || this.#showsHidden));
    const isMore = hasMore || shown.length < found.length;
    const empty = isLoaded ? strings.noChats : strings.loading;
    return h("nav", { class: "list", part: "list", "aria-label": strings.chats }, [
      h("slot", { name: "head" }),
      this.#head(),
      this.#invited(),
      shown.length || this.#query ? null : h("p", { class: "empty" }, empty),
      h(
        "ul",
        {
          role: "list",
          "aria-label": strings.chats,
          onkeydown: roving,
          onpointermove: () => (this.#movedAt = performance.now()),
          onpointerleave: () => this.#release(),
        },
        shown.map((chat) => h("li", { key: chat.chat_id }, this.#entry(chat))),
      ),
      this.#people(),
      isMore ? this.#more(hasMore) : null,
      this.#search.describe(),
    ]);
  }

  #head() {
    const { strings, tidings } = this.#element;
    const mentions = tidings?.unread.snapshot().mentions ?? 0;
    const label = mentions
      ? `${strings.mentions}, ${said(strings.unread, { n: mentions })}`
      : strings.mentions;
    const search = (/** @type {any} */ event) => {
      this.#query = event.target.value;
      this.#search.look(this.#query);
    };
    const button = (
      /** @type {string} */ label,
      /** @type {"write" | "group" | "at" | "settings"} */ name,
      /** @type {() => void} */ onclick,
      count = 0,
    ) =>
      h(
        "button",
        { class: "round", "aria-label": label, title: label, onclick },
        icon(name),
        count ? h("span", { class: "badge" }) : null,
      );
    const show = (/** @type {"direct" | "group" | "mentions"} */ kind) => () =>
      this.#element.show({ kind });
    return h("div", { class: "tools" }, [
      h("label", { class: "search grow" }, [
        icon("search"),
        h("input", {
          type: "search",
          "aria-label": strings.search,
          placeholder: strings.search,
          value: this.#query,
          oninput: search,
        }),
      ]),
      button(label, "at", show("mentions"), mentions),
      button(strings.newChat, "write", show("direct")),
      button(strings.newGroup, "group", show("group")),
      button(strings.settings, "settings", () => void this.#element.showAccount("settings")),
    ]);
  }

  /** Lead to the invitations, if there are any. */
  #invited() {
    const { strings, invitations } = this.#element;
    const n = invitations?.list.length;
    if (!n) return null;
    const open = () => void this.#element.showAccount("invitations");
    return h("button", { class: "entry invited", key: "invited", onclick: open }, [
      h("span", { class: "face", "aria-hidden": "true" }, icon("group")),
      h("span", { class: "grow cut title" }, strings.invitations),
      h("span", { class: "badge" }, n),
    ]);
  }

  /** @param {boolean} hasMore */
  #more(hasMore) {
    const { strings, tidings } = this.#element;
    const more = () => {
      if (hasMore) return void tidings?.chats.more().catch(() => {});
      this.#showsHidden = true;
      this.#element.update();
    };
    return h(
      "button",
      { class: "wide", onclick: more },
      hasMore ? strings.more : strings.showHidden,
    );
  }

  /** Offer people with whom the user has no direct chat. */
  #people() {
    const element = this.#element;
    const { people, tidings } = element;
    const wanted = this.#query.trim().toLocaleLowerCase();
    if (!wanted || !people) return null;
    const { chats } = tidings?.chats.snapshot() ?? NONE;
    const direct = new Set(chats.flatMap((chat) => (chat.type === "direct" ? chat.members : [])));
    const found = people
      .known()
      .filter(([user, name]) => !direct.has(user) && name.toLocaleLowerCase().includes(wanted));
    const begin = (/** @type {string} */ user) => () => element.attempt(element.begin(user));
    return found.map(([user, name]) =>
      h("button", { key: user, class: "entry", onclick: begin(user) }, [
        face(name, null, user),
        h("bdi", { class: "grow cut" }, name),
      ]),
    );
  }

  /** @param {ChatRecord} chat */
  #entry(chat) {
    const element = this.#element;
    const { strings, people } = element;
    const title = people?.titleOf(chat) ?? "";
    const menu = (/** @type {any} */ event) => {
      event.preventDefault();
      element.chatMenu(chat, event.currentTarget);
    };
    const props = {
      class: "entry",
      "aria-current": chat.chat_id === element.chat ? "true" : null,
      onclick: () => element.open(chat.chat_id),
      oncontextmenu: menu,
    };
    const at = chat.last_message && Date.parse(chat.last_message.created_at);
    return h("button", props, [
      h("span", { class: "portrait" }, [
        chatFace(title, chat),
        element.isOnline(chat)
          ? h("span", { class: "dot", role: "img", "aria-label": strings.online })
          : null,
      ]),
      h("span", { class: "grow lines" }, [
        h("span", { class: "bar" }, [
          h("bdi", { class: "grow cut title" }, title),
          at ? h("span", { class: "faint" }, brief(at, Date.now(), strings)) : null,
        ]),
        h("span", { class: "bar faint" }, [
          h("span", { class: "grow cut", dir: "auto" }, this.#preview(chat)),
          chat.muted_until && Date.parse(chat.muted_until) > Date.now()
            ? icon("muted", strings.muted)
            : null,
          badge(chat, strings),
        ]),
      ]),
    ]);
  }

  /** @param {ChatRecord} chat @returns {Child} */
  #preview(chat) {
    const { strings, tidings, people, chat: open } = this.#element;
    const { typing, draft } = tidings?.chat(chat.chat_id).snapshot() ?? { typing: [], draft: "" };
    const [who] = typing;
    if (who) {
      const name = people?.named(who, chat) ?? who;
      return h("span", { class: "typing" }, filled(strings.isTyping, { who: name }));
    }
    if (draft && chat.chat_id !== open) {
      return [h("span", { class: "warn" }, strings.draft), " ", draft];
    }
    const last = chat.last_message;
    if (!last) return "";
    const gone = /** @type {"redacted" | "expired" | "erased"} */ (last.gone ?? "redacted");
    // A message without a text has a file.
    const text = h(
      "bdi",
      null,
      last.preview === "" ? strings.file : (last.preview ?? strings[gone]),
    );
    if (last.sender_id === tidings?.user) return [strings.you, ": ", text];
    return chat.type === "group" ? [people?.named(last.sender_id, chat), ": ", text] : text;
  }

  /** @param {ChatRecord} chat */
  #matches(chat) {
    const wanted = this.#query.trim().toLocaleLowerCase();
    const { people } = this.#element;
    if (!wanted || !people) return true;
    const names = [people.titleOf(chat), ...chat.members.map((user) => people.nameOf(user, chat))];
    return names.some((name) => name.toLocaleLowerCase().includes(wanted));
  }

  // The order.

  /**
   * Return the chats in order of activity, or in the order before while somebody points at one.
   *
   * @param {ChatRecord[]} chats
   */
  #ordered(chats) {
    const left = STILL_MS - (performance.now() - this.#movedAt);
    if (left <= 0) {
      this.#order = chats.map((chat) => chat.chat_id);
      return chats;
    }
    clearTimeout(this.#later);
    this.#later = setTimeout(this.#element.update, left);
    const place = new Map(this.#order.map((chat, index) => [chat, index]));
    return chats.toSorted((a, b) => (place.get(a.chat_id) ?? -1) - (place.get(b.chat_id) ?? -1));
  }

  #release() {
    this.#movedAt = -Infinity;
    this.#element.update();
  }
}

/**
 * @param {ChatRecord} chat
 * @param {import("./strings.js").Strings} strings
 */
function badge({ unread, unread_exact, unread_mentions, marked_unread }, strings) {
  if (!unread && !marked_unread) return null;
  const text = unread ? `${unread}${unread_exact ? "" : "+"}` : "";
  const label = unread ? said(strings.unread, { n: text }) : strings.markUnread;
  const mentions = said(strings.unreadMentions, { n: unread_mentions });
  return [
    unread_mentions
      ? h("span", { class: "badge", role: "img", "aria-label": mentions }, "@")
      : null,
    h("span", { class: "badge", role: "img", "aria-label": label }, text),
  ];
}

/** Move the focus with the arrow keys. @param {any} event */
export function roving(event) {
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  const at = buttons.indexOf(event.target.closest("button"));
  const places = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 };
  const to = places[/** @type {"Home"} */ (event.key)];
  if (to === undefined) return;
  event.preventDefault();
  buttons[Math.max(0, Math.min(buttons.length - 1, to))]?.focus();
}
