// SPDX-License-Identifier: Apache-2.0
/** Delivery jobs that failed too often and were set aside. */

import { h } from "../elements/view.js";
import { button, choice, counted, keyed, link, mono, table, when } from "./parts.js";
import { address, Pages, Screen } from "./screen.js";
import { Refused } from "./server.js";

export class DeadLettersScreen extends Screen {
  static path = "jobs";
  static title = "Dead letters";
  static icon = /** @type {const} */ ("tray");
  static menu = /** @type {const} */ ("deployment");
  static refresh = 15;

  #jobs = new Pages(this.desk, "/v1/jobs/aside", { limit: 100 });
  #reason = "";

  async load() {
    await this.#jobs.load();
  }

  render() {
    const reasons = [...new Set(this.#jobs.rows.map((job) => job.reason))];
    // The last letter of the reason that was chosen may be gone.
    const chosen = reasons.includes(this.#reason) ? this.#reason : "";
    const shown = this.#jobs.rows.filter((job) => !chosen || job.reason === chosen);
    const choose = (/** @type {string} */ reason) => {
      this.#reason = reason;
      this.desk.update();
    };
    return [
      h(
        "p",
        { class: "lead" },
        "Notifications for these users were tried too often. Mend the reason, then replay them.",
      ),
      reasons.length > 1
        ? choice(
            "Reason",
            [["", "All"], ...reasons.map((one) => /** @type {const} */ ([one, one]))],
            chosen,
            choose,
          )
        : null,
      shown.length > 1
        ? h("div", { class: "actions" }, [
            button(`Replay ${shown.length}`, () => void this.#all(shown, "replay")),
            button(`Drop ${shown.length}`, () => void this.#all(shown, "drop"), "danger"),
          ])
        : null,
      table(
        "Dead letters",
        ["Job", "For", "Reason", "Since", ""],
        shown.map(this.#row),
        "There are no dead letters.",
      ),
      this.#jobs.foot(),
    ];
  }

  #row = (/** @type {any} */ job) =>
    keyed(job.id, [
      mono(job.id),
      [
        link(address("tenants", job.tenant, "inboxes", job.inbox), `${job.tenant}/${job.inbox}`),
        `, ${counted(job.users.length, "user")}`,
      ],
      job.reason,
      when(job.set_aside_at),
      h("div", { class: "actions" }, [
        button("Replay", () => void this.#all([job], "replay")),
        button("Drop", () => void this.#all([job], "drop"), "danger"),
      ]),
    ]);

  /**
   * @param {any[]} jobs
   * @param {"replay" | "drop"} what
   */
  #all(jobs, what) {
    const isDrop = what === "drop";
    const verb = isDrop ? "Drop" : "Replay";
    const { length } = jobs;
    const one = length === 1 ? jobs[0].id : null;
    return this.change(
      {
        title: `${verb} ${one ?? counted(length, "job")}`,
        text: isDrop
          ? `The users of ${counted(length, "job")} never get the notification.`
          : `${counted(length, "job")} go back into the queue.`,
        name: one ?? `${what} ${length}`,
        verb,
        isDangerous: isDrop,
        canStop: !one,
        request: isDrop ? "DELETE /v1/jobs/aside/…" : "POST /v1/jobs/aside/…/replay",
        act: one ? () => this.#end(one, isDrop) : this.#each(jobs, isDrop),
      },
      isDrop ? "Dropped." : "Back in the queue.",
    );
  }

  /**
   * Return what drops or replays many jobs. A second attempt goes on where the first one failed.
   *
   * @param {any[]} jobs
   * @param {boolean} isDrop
   */
  #each(jobs, isDrop) {
    const left = [...jobs];
    let missing = 0;
    const done = () =>
      `${jobs.length - left.length - missing} of ${counted(jobs.length, "job")} done.`;
    return async (/** @type {unknown} */ _, /** @type {AbortSignal} */ isLeft) => {
      try {
        for (; left.length; left.shift()) {
          if (isLeft.aborted) throw new Error("Stopped.");
          if (!(await this.#ends(left[0].id, isDrop))) missing += 1;
        }
      } catch (error) {
        throw new Error(`${/** @type {Error} */ (error).message} ${done()}`);
      }
      return missing ? `${done()} The others were not there any more.` : undefined;
    };
  }

  /**
   * @param {string} id
   * @param {boolean} isDrop
   * @returns {Promise<void>}
   */
  #end(id, isDrop) {
    const path = `/v1/jobs/aside/${encodeURIComponent(id)}`;
    return isDrop ? this.server.ask("DELETE", path) : this.server.ask("POST", `${path}/replay`);
  }

  /**
   * Drop or replay one of many jobs; return false if somebody else has done either.
   *
   * @param {string} id
   * @param {boolean} isDrop
   */
  async #ends(id, isDrop) {
    try {
      await this.#end(id, isDrop);
      return true;
    } catch (error) {
      if (error instanceof Refused && error.status === 404) return false;
      throw error;
    }
  }
}
