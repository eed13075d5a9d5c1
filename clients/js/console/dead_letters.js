// SPDX-License-Identifier: Apache-2.0
/** Delivery jobs that failed too often and were set aside. */

import { h } from "../elements/view.js";
import { button, choice, counted, link, mono, table, when } from "./parts.js";
import { address, Pages, Screen } from "./screen.js";

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
    const shown = this.#jobs.rows.filter((job) => !this.#reason || job.reason === this.#reason);
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
            this.#reason,
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

  #row = (/** @type {any} */ job) => [
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
  ];

  /**
   * @param {any[]} jobs
   * @param {"replay" | "drop"} what
   */
  #all(jobs, what) {
    const isDrop = what === "drop";
    const [first] = jobs;
    return this.change(
      {
        title: isDrop ? "Drop" : "Replay",
        text: isDrop
          ? `The users of ${counted(jobs.length, "job")} never get the notification.`
          : `${counted(jobs.length, "job")} go back into the queue.`,
        name: jobs.length === 1 ? first.id : `${what} ${jobs.length}`,
        verb: isDrop ? "Drop" : "Replay",
        isDangerous: isDrop,
        request: isDrop ? "DELETE /v1/jobs/aside/…" : "POST /v1/jobs/aside/…/replay",
        act: async () => {
          for (const { id } of jobs) {
            const path = `/v1/jobs/aside/${encodeURIComponent(id)}`;
            await (isDrop
              ? this.server.ask("DELETE", path)
              : this.server.ask("POST", `${path}/replay`));
          }
        },
      },
      isDrop ? "Dropped." : "Back in the queue.",
    );
  }
}
