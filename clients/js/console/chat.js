// SPDX-License-Identifier: Apache-2.0
/** One chat: its log with tombstones, its members and how far each has read. Content is sealed. */

import { h } from "../elements/view.js";
import { icon } from "./icons.js";
import {
  button,
  card,
  counted,
  facts,
  keyed,
  label,
  link,
  mono,
  number,
  seconds,
  table,
  when,
} from "./parts.js";
import { freeze } from "./reports.js";
import { Screen } from "./screen.js";

const PAGE = 50;

export class ChatScreen extends Screen {
  static path = "tenants/:tenant/chats/:chat";
  static title = "Chat";
  static refresh = 10;

  #chat = /** @type {any} */ (null);
  #members = /** @type {any[]} */ ([]);
  #entries = /** @type {any[]} */ ([]);
  /** Contents that were unsealed here, by sequence. */
  #unsealed = /** @type {Map<number, string>} */ (new Map());
  /** The page follows the end of the log, unless somebody has gone elsewhere. */
  #after = /** @type {number | null} */ (null);

  get id() {
    return this.params["chat"] ?? "";
  }

  /** Path of the REST API below this chat. @param {...string} parts */
  #at(...parts) {
    return this.at("chats", this.id, ...parts);
  }

  heading() {
    return this.#chat?.name ?? (this.#chat ? "Direct chat" : "Chat");
  }

  above() {
    return [/** @type {const} */ (["Chats", this.to("chats")])];
  }

  aside() {
    if (!this.#chat) return null;
    return [
      label(this.#chat.type === "group" ? "Group" : "Direct", "accent"),
      this.#chat.frozen ? [" ", label("Frozen", "bad")] : null,
    ];
  }

  async load() {
    this.#chat = await this.server.get(this.#at());
    const { sequence } = this.params;
    if (sequence && this.#after === null) this.#after = Math.max(0, Number(sequence) - PAGE / 2);
    const place = this.#after;
    const after = place ?? Math.max(0, this.#chat.head - PAGE);
    const [members, entries] = await Promise.all([
      this.server.get(this.#at("members")),
      this.server.get(this.#at("entries"), { after, limit: PAGE }),
    ]);
    this.#members = members.data;
    if (place !== this.#after) return; // somebody has gone elsewhere meanwhile
    this.#entries = entries.data.toReversed();
  }

  render() {
    const chat = this.#chat;
    if (!chat) return null;
    return [
      card(
        "Chat",
        facts([
          ["Id", mono(chat.chat_id)],
          ["Members", number(chat.member_count)],
          ["Messages", number(chat.message_count)],
          ["End of the log", number(chat.head)],
          ["Last activity", when(chat.last_activity_at)],
          chat.slow_mode_seconds > 0 && [
            "Slow mode",
            `one message in ${seconds(chat.slow_mode_seconds)}`,
          ],
        ]),
        { actions: link(this.to("trace", this.id), "Live trace") },
      ),
      this.#memberCard(),
      this.#logCard(),
      this.#dangers(),
    ];
  }

  #memberCard() {
    const { head } = this.#chat;
    const isGroup = this.#chat.type === "group";
    const rows = this.#members.map((one) =>
      keyed(one.user_id, [
        [
          link(this.to("users", one.user_id), one.user_id),
          one.display_name ? ` ${one.display_name}` : null,
        ],
        label(one.role, one.role === "member" ? "plain" : "accent"),
        mark(one.delivered, head),
        mark(one.read, head),
        one.read_at ? when(one.read_at) : "–",
        isGroup ? button("Remove", () => void this.#remove(one.user_id), "danger") : null,
      ]),
    );
    return card(
      `${counted(this.#members.length, "member")}`,
      table("Members", ["Member", "Role", "Received to", "Read to", "Read", ""], rows),
    );
  }

  #logCard() {
    const entries = this.#entries;
    const first = entries.at(-1)?.sequence ?? 1;
    const last = entries[0]?.sequence ?? 0;
    const go = (/** @type {number | null} */ after) => () => {
      this.#after = after;
      void this.open();
    };
    const rows = entries.map((entry) =>
      keyed(entry.sequence, [
        number(entry.sequence),
        this.#what(entry),
        who(this, entry.sender),
        when(entry.created_at),
        entry.kind === "message"
          ? h(
              "a",
              explaining(this.to("explain", `${this.id}.${entry.sequence}`), entry.sequence),
              "Explain",
            )
          : null,
      ]),
    );
    return card(
      "Log",
      [
        table("Log", ["Sequence", "Entry", "By", "When", ""], rows),
        h("div", { class: "more" }, [
          first > 1 ? button("Older", go(Math.max(0, first - 1 - PAGE))) : null,
          last < this.#chat.head ? button("Newer", go(last)) : null,
          this.#after !== null ? button("Newest", go(null)) : null,
        ]),
      ],
      {
        hint: "Without content. To read it, give a reason, which is in the audit trail.",
        actions: entries.some(isSealed)
          ? button("Unseal this page", () => void this.#unseal(first - 1, entries.length))
          : null,
      },
    );
  }

  /** What an entry says. @param {any} entry */
  #what(entry) {
    if (entry.kind !== "message") return [label(entry.kind), " ", about(entry)];
    const gone = ["redacted", "expired", "erased"].find((name) => entry[name]);
    const content = this.#unsealed.get(entry.sequence);
    return [
      gone
        ? label(gone, "bad")
        : content === undefined
          ? h(
              "button",
              {
                type: "button",
                class: "sealed",
                onclick: () => void this.#unseal(entry.sequence - 1, 1),
              },
              [icon("lock"), "Sealed"],
            )
          : h("span", { class: "content" }, content),
      entry.edited_at ? [" ", label("edited")] : null,
      entry.expires_at ? h("small", null, ["expires ", when(entry.expires_at)]) : null,
    ];
  }

  /**
   * @param {number} after
   * @param {number} limit
   */
  #unseal(after, limit) {
    return this.desk.ask({
      title:
        limit === 1
          ? `Unseal message ${after + 1}`
          : `Unseal ${counted(limit, "entry", "entries")}`,
      text: "Who reads the content of others needs a reason. The audit trail keeps it with your key.",
      verb: "Unseal",
      isDangerous: true,
      name: this.id,
      request: `POST ${this.#at("unseal")}`,
      fields: [{ name: "reason", label: "Reason", placeholder: "Ticket 4711: reported as abuse" }],
      act: async ({ reason }) => {
        const page = await this.server.ask("POST", this.#at("unseal"), { reason, after, limit });
        for (const { kind, sequence, content } of page.data) {
          if (kind === "message" && content !== undefined) this.#unsealed.set(sequence, content);
        }
      },
    });
  }

  #dangers() {
    const { frozen } = this.#chat;
    return card("Moderation", [
      h("div", { class: "danger-row" }, [
        h(
          "p",
          null,
          frozen
            ? "The chat is frozen: members can read and redact, but not write."
            : "Freeze the chat: members can read and redact, but not write.",
        ),
        button(
          frozen ? "Unfreeze" : "Freeze",
          () => void freeze(this, this.id, !frozen),
          frozen ? "" : "danger",
        ),
      ]),
      h("div", { class: "danger-row" }, [
        h("p", null, "Delete the chat for everybody, with all its messages. Nobody can undo this."),
        button("Delete", () => void this.#delete(), "danger"),
      ]),
    ]);
  }

  /** @param {string} user */
  #remove(user) {
    return this.change(
      {
        title: `Remove ${user}`,
        text: "The log says that the tenant removed the member.",
        name: user,
        verb: "Remove",
        isDangerous: true,
        request: `DELETE ${this.#at("members", user)}`,
        act: async () => void (await this.server.ask("DELETE", this.#at("members", user))),
      },
      "The member is removed.",
    );
  }

  #delete() {
    const text =
      "Nothing can be written from the answer on. A job removes members and messages for good.";
    return this.remove({ title: "Delete the chat", text, name: this.id }, this.#at());
  }
}

/** The same screen, opened at one message. */
export class MessageScreen extends ChatScreen {
  static path = "tenants/:tenant/chats/:chat/:sequence";
}

/**
 * @param {string} href
 * @param {number} sequence
 */
const explaining = (href, sequence) => ({
  href,
  title: "Why did it not arrive?",
  "aria-label": `Explain message ${sequence}`,
});

/** @param {any} entry */
const isSealed = (entry) =>
  entry.kind === "message" && !entry.redacted && !entry.expired && !entry.erased;

/**
 * How far somebody is, and how far behind the end of the log.
 *
 * @param {number} sequence
 * @param {number} head
 */
const mark = (sequence, head) => [
  number(sequence),
  sequence < head ? h("small", null, `${number(head - sequence)} behind`) : null,
];

/**
 * @param {Screen} screen
 * @param {string} sender
 */
const who = (screen, sender) =>
  sender.startsWith("~") ? "the tenant" : link(screen.to("users", sender), sender);

/** @param {any} entry */
function about({ target, emoji, users, role, name }) {
  const parts = [
    users?.join(", "),
    role && `as ${role}`,
    name && `“${name}”`,
    emoji,
    target && `message ${target}`,
  ];
  return parts.filter(Boolean).join(" ");
}
