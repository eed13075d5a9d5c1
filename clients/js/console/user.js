// SPDX-License-Identifier: Apache-2.0
/** One user: profile, devices, chats and counts; end sessions, ban, deactivate, erase, delete. */

import { h } from "../elements/view.js";
import { chatTable } from "./chats.js";
import {
  button,
  card,
  counted,
  facts,
  figure,
  figures,
  label,
  link,
  mono,
  number,
  table,
  when,
} from "./parts.js";
import { ban, endBan } from "./reports.js";
import { Pages, Screen } from "./screen.js";

/** @typedef {import("./server.js").Method} Method */

export class UserScreen extends Screen {
  static path = "tenants/:tenant/users/:user";
  static title = "User";
  static refresh = 15;

  #user = /** @type {any} */ (null);
  #sessions = /** @type {any[]} */ ([]);
  #connections = /** @type {any} */ (null);
  #unread = /** @type {any} */ (null);
  #chats = new Pages(this.desk, this.at("chats"), { user_id: this.id });

  get id() {
    return this.params["user"] ?? "";
  }

  /** Path of the REST API below this user. @param {...string} parts */
  #at(...parts) {
    return this.at("users", this.id, ...parts);
  }

  heading() {
    return this.#user?.display_name || this.id;
  }

  aside() {
    if (!this.#user) return null;
    if (this.#user.deactivated) return label("Deactivated", "bad");
    return isBanned(this.#user) ? label("Banned", "bad") : label("Active", "good");
  }

  above() {
    return [/** @type {const} */ (["Users", this.to("users")])];
  }

  async load() {
    this.#user = await this.server.get(this.#at());
    const [connections, sessions, unread] = await Promise.all([
      this.server.get(this.#at("connections")),
      this.server.get(this.#at("sessions")),
      this.server.get(this.#at("unread")),
      this.#chats.load(),
    ]);
    this.#connections = connections;
    this.#sessions = sessions.data;
    this.#unread = unread;
  }

  render() {
    const user = this.#user;
    if (!user) return null;
    return [
      this.#profile(user),
      this.#counts(),
      this.#connectionCard(),
      this.#sessionCard(),
      this.#chatCard(),
      this.#dangers(user),
    ];
  }

  /** @param {any} user */
  #profile(user) {
    return card(
      "Profile",
      facts([
        ["Id", mono(user.user_id)],
        ["Name", user.display_name ?? "–"],
        [
          "Phone",
          user.phone_number
            ? [
                user.phone_number,
                " ",
                user.phone_verified ? label("verified", "good") : label("not verified", "warn"),
              ]
            : "–",
        ],
        ["E-mail", user.email ?? "–"],
        ["Last seen", when(user.last_seen_at)],
        ["Created", when(user.created_at)],
        isBanned(user) && ["Banned until", when(user.banned_until)],
        Object.keys(user.metadata).length > 0 && ["Metadata", mono(JSON.stringify(user.metadata))],
      ]),
    );
  }

  #counts() {
    const counts = this.#unread;
    if (!counts) return null;
    return figures([
      figure("Unread messages", number(counts.messages), `in ${number(counts.chats)} chats`),
      Object.entries(counts.inboxes).map(([name, count]) =>
        figure(
          `Unread in ${name}`,
          link(this.to("inboxes", name), number(/** @type {number} */ (count))),
        ),
      ),
    ]);
  }

  #connectionCard() {
    const { data = [], complete = true } = this.#connections ?? {};
    const rows = data.map((/** @type {any} */ one) => [
      [mono(one.device), one.away ? [" ", label("away")] : null],
      [one.client ?? "–", small(one.address)],
      when(one.since),
      [
        `${number(one.unacknowledged)} of ${number(one.window)}`,
        one.behind ? [" ", label(`behind in ${counted(one.behind, "chat")}`, "warn")] : null,
      ],
      when(one.last_received_at),
    ]);
    const heads = ["Device", "Client", "Connected", "Not confirmed", "Last confirmed"];
    const hint = complete ? null : "A process did not answer: connections may be missing.";
    return card("Connections", table("Connections", heads, rows, "The user is not connected."), {
      hint,
      actions: link(this.to("trace", this.id), "Live trace"),
    });
  }

  #sessionCard() {
    const rows = this.#sessions.map((one) => [
      mono(one.device),
      mono(one.session_id),
      when(one.last_used_at),
      when(one.created_at),
      when(one.expires_at),
    ]);
    return card(
      "Sessions",
      table(
        "Sessions",
        ["Device", "Session", "Last used", "Opened", "Ends"],
        rows,
        "The user has not logged in by phone.",
      ),
      {
        hint: "Tokens that the tenant made are not listed, but end with the sessions.",
        actions: button("End all", () => void this.#end(), "danger"),
      },
    );
  }

  #chatCard() {
    return card("Chats", [
      chatTable(this, this.#chats.rows, "The user is in no chat."),
      this.#chats.foot(),
    ]);
  }

  /** @param {any} user */
  #dangers(user) {
    const row = (
      /** @type {string} */ text,
      /** @type {string} */ verb,
      /** @type {() => void} */ act,
    ) =>
      h("div", { class: "danger-row" }, [
        h("p", null, text),
        button(verb, act, ["Activate", "End the ban"].includes(verb) ? "" : "danger"),
      ]);
    return card("Access and data", [
      isBanned(user)
        ? row("The user can write again.", "End the ban", () => void endBan(this, this.id))
        : row(
            "The user can read, but not write, until a time that you choose.",
            "Ban",
            () => void ban(this, this.id),
          ),
      user.deactivated
        ? row(
            "The user gets access again, with new tokens.",
            "Activate",
            () => void this.#deactivate(false),
          )
        : row(
            "The user has no access until activated again. Sessions and tokens end.",
            "Deactivate",
            () => void this.#deactivate(true),
          ),
      row(
        "Everything that the user wrote is erased for everybody. Nobody can undo this.",
        "Erase content",
        () => void this.#erase(),
      ),
      row(
        "The user is deleted for good: sessions, content, memberships, notifications. The id is never used again.",
        "Delete",
        () => void this.#delete(),
      ),
    ]);
  }

  /**
   * @param {string} title
   * @param {string} text
   * @param {string} verb
   * @param {Method} method
   * @param {string} path
   * @param {object} [body]
   */
  #question(title, text, verb, method, path, body) {
    const isDangerous = verb !== "Activate";
    const act = async () => void (await this.server.ask(method, path, body));
    return { title, text, name: this.id, verb, isDangerous, request: `${method} ${path}`, act };
  }

  #end() {
    const text =
      "All sessions of the user, and every token issued up to now, end within five seconds.";
    const question = this.#question(
      "End all sessions",
      text,
      "End all",
      "DELETE",
      this.#at("sessions"),
    );
    return this.change(question, "The sessions are ended.");
  }

  /** @param {boolean} deactivated */
  #deactivate(deactivated) {
    const [verb, text] = deactivated
      ? ["Deactivate", "The user cannot log in or connect until activated again."]
      : ["Activate", "The user can log in and connect again."];
    const question = this.#question(`${verb} ${this.id}`, text, verb, "PUT", this.#at(), {
      deactivated,
    });
    return this.change(question, deactivated ? "The user is deactivated." : "The user is active.");
  }

  #erase() {
    const text =
      "The key that encrypts what the user wrote is destroyed. Messages stay as empty entries.";
    const question = this.#question(
      "Erase the content",
      text,
      "Erase for good",
      "DELETE",
      this.#at("content"),
    );
    return this.change(question, "The content is erased.");
  }

  #delete() {
    const text = "A job removes everything of the user, and ends in a signed receipt.";
    return this.remove({ title: `Delete ${this.id}`, text, name: this.id }, this.#at());
  }
}

/** @param {any} user */
const isBanned = ({ banned_until }) => !!banned_until && Date.parse(banned_until) > Date.now();

/** @param {string | null} address */
const small = (address) => (address ? h("small", null, address) : null);
