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
    // A second attempt goes on where the first one failed.
    const left = [...jobs];
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
        act: async (_, isLeft) => {
          try {
            for (; left.length; left.shift()) {
              if (isLeft.aborted) throw new Error("Stopped.");
              await this.#end(left[0].id, isDrop);
            }
          } catch (error) {
            const { message } = /** @type {Error} */ (error);
            throw new Error(
              `${message} ${length - left.length} of ${counted(length, "job")} done.`,
            );
          }
        },
      },
      isDrop ? "Dropped." : "Back in the queue.",
    );
  }

  /**
   * Drop or replay a job. One that is not there is done: the answer to the last attempt was lost.
   *
   * @param {string} id
   * @param {boolean} isDrop
   */
  async #end(id, isDrop) {
    const path = `/v1/jobs/aside/${encodeURIComponent(id)}`;
    const ended = isDrop
      ? this.server.ask("DELETE", path)
      : this.server.ask("POST", `${path}/replay`);
    await ended.catch((error) => {
      if (!(error instanceof Refused && error.status === 404)) throw error;
    });
  }
}
