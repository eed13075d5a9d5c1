// SPDX-License-Identifier: Apache-2.0
/** The invitations to groups that the user has not answered. */

/** @typedef {{chat_id: string, name: string | null, invited_by: string}} Invitation */

export class Invitations {
  list = /** @type {Invitation[]} */ ([]);
  #tidings;
  #changed;
  #wasLive = false;
  #asked = 0;
  #shown = 0;
  #ends;

  /**
   * @param {import("../src/tidings.js").Tidings} tidings
   * @param {() => void} changed
   */
  constructor(tidings, changed) {
    this.#tidings = tidings;
    this.#changed = changed;
    this.#ends = [
      tidings.state.subscribe(() => this.#connected()),
      tidings.on((event) => {
        if (event.type === "frame" && event.frame.op === "invited") void this.reload();
      }),
    ];
    this.#connected();
  }

  end = () => {
    for (const end of this.#ends) end();
  };

  #connected() {
    const isLive = this.#tidings.state.snapshot().connection === "live";
    if (isLive && !this.#wasLive) void this.reload();
    this.#wasLive = isLive;
  }

  async reload() {
    const at = (this.#asked += 1);
    const found = await this.#tidings.request("GET", "/v1/me/invites").catch(() => null);
    // The answer to an earlier request may come after that to a later one.
    if (!found || at < this.#shown) return;
    this.#shown = at;
    this.list = found.data;
    this.#changed();
  }
}
