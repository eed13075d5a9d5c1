// SPDX-License-Identifier: Apache-2.0
/** The chats of a tenant, newest first. */

import { keyed, label, link, mono, number, table, when } from "./parts.js";
import { Pages, Screen } from "./screen.js";

export class ChatsScreen extends Screen {
  static path = "tenants/:tenant/chats";
  static title = "Chats";
  static icon = /** @type {const} */ ("chat");
  static menu = /** @type {const} */ ("tenant");

  #chats = new Pages(this.desk, this.at("chats"));

  async load() {
    await this.#chats.load();
  }

  render() {
    return [chatTable(this, this.#chats.rows, "The tenant has no chats."), this.#chats.foot()];
  }
}

/**
 * @param {Screen} screen
 * @param {any[]} chats
 * @param {string} empty
 */
export const chatTable = (screen, chats, empty) =>
  table(
    "Chats",
    ["Chat", "Kind", "Members", "Created by", "Created"],
    chats.map((chat) =>
      keyed(chat.chat_id, [
        [link(screen.to("chats", chat.chat_id), chat.name ?? mono(chat.chat_id))],
        chat.type === "group" ? label("Group", "accent") : label("Direct"),
        number(chat.member_count),
        link(screen.to("users", chat.created_by), chat.created_by),
        when(chat.created_at),
      ]),
    ),
    empty,
  );
