// SPDX-License-Identifier: Apache-2.0
/**
 * Share one socket between all tabs of a browser.
 *
 * The tab that holds a lock leads: it has the socket. The others talk to it over a
 * BroadcastChannel, in the frames of the protocol, as if it were the server. They get states, never
 * differences, so that a repeated or a lost broadcast does no harm. When the leader's page ends or
 * crashes, the browser gives the lock to the next tab. A hidden leader gives it to a visible tab,
 * because browsers slow hidden pages down.
 */

/** @typedef {import("./connection.js").Connect} Connect */
/** @typedef {import("./connection.js").LineEvents} LineEvents */
/** @typedef {import("./frames.js").ClientFrame} ClientFrame */
/** @typedef {import("./frames.js").ServerFrame} ServerFrame */
/** @typedef {import("./sending.js").Key} Key */

/**
 * A message between tabs: `up` is a frame for the tab that leads, `down` a frame from it, for
 * the tab `to` or for all. A leader says that it leads, or that it is hidden; a visible tab then
 * asks to lead, and the leader says that it may.
 *
 * @typedef {{from: string, to?: string, up?: ClientFrame, down?: ServerFrame,
 *   about?: "leads" | "hidden" | "asks" | "may" | "signed-out", discarded?: Key}} Letter
 */

/** @typedef {(frame: ClientFrame, reply: (frame: ServerFrame) => void) => void} Serve */

const LEADER_SILENT_MS_MAX = 15_000;
/** Time for a tab to accept the offer to lead, before the next one gets it. */
const OFFER_MS = 1_000;

export class Tabs {
  leads = false;
  #name;
  #id = crypto.randomUUID();
  #channel;
  #events;
  #resign = /** @type {(() => void) | null} */ (null);
  #line = /** @type {LineEvents | null} */ (null);
  #heardAt = 0;
  /** When this tab has offered another one to lead. */
  #offeredAt = -OFFER_MS;
  #isOver = false;

  /**
   * @param {string} name - The same for all tabs that share.
   * @param {{leads: (leads: boolean) => void, serve: Serve, discarded: (key: Key) => void,
   *   signedOut: () => void}} events
   */
  constructor(name, events) {
    this.#name = name;
    this.#events = events;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => this.#take(data);
    void this.#stand();
  }

  /** The way to the server over the tab that leads. @type {Connect} */
  connect = (events) => {
    this.#line = events;
    const openedAt = (this.#heardAt = performance.now());
    queueMicrotask(events.opened);
    return {
      say: (frame) => {
        this.#listen();
        this.tell({ up: frame });
      },
      close: () => {
        // Nothing was heard, so the next line would begin to wait anew.
        if (this.#heardAt === openedAt) this.#listen();
      },
    };
  };

  /**
   * Send a frame of the server to all other tabs.
   *
   * @param {ServerFrame} frame
   */
  broadcast(frame) {
    if (this.leads) this.tell({ down: frame });
  }

  /**
   * Handle that this page came to the front or went to the back: a visible tab should lead.
   *
   * @param {boolean} [hidden]
   */
  seen(hidden = globalThis.document?.hidden) {
    if (this.leads === hidden) this.tell({ about: hidden ? "hidden" : "asks" });
  }

  close() {
    this.#isOver = true;
    this.#resign?.();
    this.#channel.close();
  }

  /**
   * Wait for the lock, lead as long as this tab has it, and begin again.
   *
   * @param {boolean} [steal]
   */
  async #stand(steal = false) {
    /** @type {(() => void) | null | undefined} */
    let resign;
    try {
      await navigator.locks.request(this.#name, { steal }, () => {
        if (this.#isOver) return undefined;
        this.leads = true;
        this.#events.leads(true);
        this.tell({ about: "leads" });
        this.seen(); // this tab was the next one, but another one may be visible
        /** @type {Promise<void>} */
        const term = new Promise((done) => (resign = this.#resign = done));
        return term;
      });
    } catch {
      // Another tab took the lock: it is in front, or believes that this one is dead.
    }
    // A tab takes the lock from itself if it got it in its turn just before. Then it still leads.
    if (resign && resign === this.#resign) {
      this.#resign = null;
      this.leads = false;
      if (!this.#isOver) this.#events.leads(false);
    }
    // A tab that stole the lock still waits for it in its turn, too.
    if (!steal && !this.#isOver) void this.#stand();
  }

  /** Take over if the tab that leads does not answer. */
  #listen() {
    if (performance.now() - this.#heardAt <= LEADER_SILENT_MS_MAX) return;
    this.#heardAt = performance.now();
    if (!globalThis.document?.hidden) void this.#stand(true);
  }

  /** Let a visible tab lead: the first of those that ask. @param {string} tab */
  #offer(tab) {
    const now = performance.now();
    if (now - this.#offeredAt < OFFER_MS) return;
    this.#offeredAt = now;
    this.tell({ to: tab, about: "may" });
  }

  /** @param {Letter} letter */
  #take({ from, to, up, down, about, discarded }) {
    if (to && to !== this.#id) return;
    if (!up) this.#heardAt = performance.now();
    if (about === "signed-out") this.#events.signedOut();
    else if (discarded) this.#events.discarded(discarded);
    else if (this.leads) {
      if (up) this.#events.serve(up, (frame) => this.tell({ to: from, down: frame }));
      else if (about === "asks" && globalThis.document?.hidden) this.#offer(from);
    } else if (about === "leads") this.#line?.ended({ code: 1012, retry_after_ms: 0 });
    else if (about === "hidden") this.seen();
    else if (about === "may") void this.#stand(true);
    else if (down) this.#line?.receive(down);
  }

  /** Tell the other tabs something. @param {Omit<Letter, "from">} letter */
  tell(letter) {
    if (!this.#isOver) this.#channel.postMessage({ from: this.#id, ...letter });
  }
}

/**
 * Tell the tabs of a browser something, as none of them.
 *
 * @param {string} name
 * @param {Omit<Letter, "from">} letter
 */
export function sayToTabs(name, letter) {
  const channel = new BroadcastChannel(name);
  channel.postMessage(letter);
  channel.close();
}
