// SPDX-License-Identifier: Apache-2.0
/** A server in the same process: one user's chats, sockets without a network, and few routes. */

/** @typedef {import("../src/frames.js").Entry} Entry */

const WAIT_MS = Number(process.env.WAIT_MS ?? 30_000);
const START = Date.parse("2026-11-16T10:00:00.000Z");

export class FakeServer {
  /** @type {Map<string, Entry[]>} */
  logs = new Map();
  /** @type {Set<FakeSocket>} */
  sockets = new Set();
  /** Number of sockets that were opened so far. */
  opened = 0;
  /** Every frame of every client. @type {any[]} */
  heard = [];
  /** Every request. @type {string[]} */
  requests = [];
  /** Whether sockets can be opened. */
  isUp = true;
  /** Whether messages are answered; those that are not are in the log all the same. */
  answers = true;
  /** What a request gets instead of its usual answer. @type {Record<string, any>} */
  routes = {};
  user = "alice";

  /** The constructor of sockets to this server. @returns {any} */
  get WebSocket() {
    const server = this;
    return class extends FakeSocket {
      constructor() {
        super(server);
      }
    };
  }

  /** @type {any} */
  fetch = async (/** @type {string} */ url, /** @type {any} */ init = {}) => {
    const path = url.replace(/^https?:\/\/[^/]*/, "");
    this.requests.push(`${init.method ?? "GET"} ${path}`);
    const [bare = ""] = path.split("?");
    const answer = this.routes[bare] ?? this.#answer(bare);
    const body = typeof answer === "function" ? await answer() : answer;
    return { ok: true, status: 200, headers: new Map(), json: async () => structuredClone(body) };
  };

  /** @param {string} path */
  #answer(path) {
    if (path === "/v1/chats")
      return { data: [...this.logs.keys()].map((chat) => this.record(chat)), next_cursor: null };
    if (path.endsWith("/receipts") || path.endsWith("/notifications"))
      return { data: [], next_cursor: null };
    if (path.endsWith("/unread")) return { total: 0, categories: {} };
    return this.record(path.split("/")[3] ?? "");
  }

  /** @param {string} chat */
  record(chat) {
    const last = this.logs.get(chat)?.findLast((entry) => entry.kind === "message");
    return {
      chat_id: chat,
      type: "group",
      name: chat,
      members: ["bob"],
      member_count: 2,
      role: "member",
      last_activity_at: last?.created_at ?? new Date(START).toISOString(),
      last_message: last && {
        sequence: last.sequence,
        sender_id: last.sender,
        preview: last.content ?? null,
        created_at: last.created_at,
      },
      unread: 0,
      unread_exact: true,
      unread_mentions: 0,
      muted_until: null,
    };
  }

  /**
   * Append an entry, and send it to all sockets that follow the chat.
   *
   * @param {string} chat
   * @param {Partial<Entry>} fields
   * @param {FakeSocket} [except]
   */
  append(chat, fields, except) {
    const log = this.logs.get(chat) ?? [];
    this.logs.set(chat, log);
    const sequence = log.length + 1;
    /** @type {Entry} */
    const entry = {
      chat,
      sequence,
      kind: "message",
      sender: "bob",
      created_at: new Date(START + sequence * 1_000).toISOString(),
      message_id: `${chat}.${sequence}`,
      client_message_id: `b${sequence}`,
      content_type: "text/plain",
      ...fields,
    };
    log.push(entry);
    for (const socket of this.sockets) {
      if (socket !== except && socket.follows.has(chat)) socket.say({ op: "entry", ...entry });
    }
    return entry;
  }

  /** Send a frame to all clients. @param {any} frame */
  say(frame) {
    for (const socket of this.sockets) socket.say(frame);
  }

  /** Lose all connections. */
  cut() {
    for (const socket of [...this.sockets]) socket.end(1006);
  }

  /**
   * @param {FakeSocket} socket
   * @param {any} frame
   */
  take(socket, frame) {
    this.heard.push(frame);
    if (frame.op === "hello") this.#hello(socket);
    else if (frame.op === "ping") socket.say({ op: "pong" });
    else if (frame.op === "send") this.#send(socket, frame);
    else if (frame.op === "fetch") socket.say(this.page(frame));
    else if (frame.op === "follow") {
      socket.follows.add(frame.chat);
      for (const entry of (this.logs.get(frame.chat) ?? []).slice(frame.after))
        socket.say({ op: "entry", ...entry });
    }
  }

  /** @param {FakeSocket} socket */
  #hello(socket) {
    const chats = Object.fromEntries([...this.logs].map(([chat, log]) => [chat, log.length]));
    const { user } = this;
    socket.say({ op: "welcome", user, device: "d", epoch: "e", heartbeat_ms: 20_000 });
    socket.say({ op: "heads", chats });
    socket.say({ op: "live" });
  }

  /**
   * @param {FakeSocket} socket
   * @param {any} frame
   */
  #send(socket, { id, chat, client_message_id, content, reply_to, mentions }) {
    const known = this.logs.get(chat)?.find((one) => one.client_message_id === client_message_id);
    const fields = { client_message_id, content, reply_to, mentions, sender: this.user };
    const { sequence, message_id, created_at } = known ?? this.append(chat, fields, socket);
    if (this.answers) socket.say({ op: "sent", id, chat, sequence, message_id, created_at });
  }

  /** @param {any} frame */
  page({ id, chat, after, before, limit = 50 }) {
    const log = this.logs.get(chat) ?? [];
    const some = log.filter((one) => (before ? one.sequence < before : one.sequence > after));
    const entries = before ? some.slice(-limit) : some.slice(0, limit);
    return { op: "page", id, chat, entries, head: log.length, more: entries.length < some.length };
  }
}

class FakeSocket {
  static OPEN = 1;
  readyState = 0;
  /** @type {Set<string>} */
  follows = new Set();
  /** @type {any} */
  onopen = null;
  /** @type {any} */
  onmessage = null;
  /** @type {any} */
  onclose = null;

  /** @param {FakeServer} server */
  constructor(server) {
    this.server = server;
    queueMicrotask(() => (server.isUp ? this.#open() : this.end(1006)));
  }

  #open() {
    if (this.readyState) return;
    this.readyState = 1;
    this.server.opened += 1;
    this.server.sockets.add(this);
    this.onopen?.();
  }

  /** @param {string} text */
  send(text) {
    queueMicrotask(() => this.readyState === 1 && this.server.take(this, JSON.parse(text)));
  }

  /** @param {any} frame */
  say(frame) {
    const data = JSON.stringify(frame);
    queueMicrotask(() => this.readyState === 1 && this.onmessage?.({ data }));
  }

  close() {
    this.end(1000);
  }

  /** @param {number} code */
  end(code) {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.server.sockets.delete(this);
    queueMicrotask(() => this.onclose?.({ code }));
  }
}

/**
 * Wait until something holds.
 *
 * @param {() => unknown} holds
 */
export async function until(holds) {
  for (const end = Date.now() + WAIT_MS; !(await holds());) {
    if (Date.now() > end) throw new Error(`not in time: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Locks as browsers have them, for several tabs in one process. */
export class FakeLocks {
  /** @type {{lost: (error: Error) => void} | null} */
  #holder = null;
  /** @type {(() => void)[]} */
  #queue = [];

  /**
   * @param {string} _name
   * @param {{steal: boolean}} options
   * @param {() => Promise<void>} work
   */
  async request(_name, { steal }, work) {
    if (steal) this.#holder?.lost(new Error("stolen"));
    else while (this.#holder) await new Promise((resolve) => this.#queue.push(() => resolve(null)));
    /** @type {(error: Error) => void} */
    let lost = () => {};
    const stolen = new Promise((_, reject) => (lost = reject));
    const holder = (this.#holder = { lost });
    try {
      await Promise.race([work(), stolen]);
    } finally {
      if (this.#holder === holder) {
        this.#holder = null;
        for (const next of this.#queue.splice(0)) next();
      }
    }
  }
}
