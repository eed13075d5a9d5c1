// SPDX-License-Identifier: Apache-2.0
/** A job of a tenant: how far a deletion or an export is, and the receipt at its end. */

import { h } from "../elements/view.js";
import { card, facts, figure, figures, label, mono, number, when } from "./parts.js";
import { Screen } from "./screen.js";

export class JobScreen extends Screen {
  static path = "tenants/:tenant/jobs/:job";
  static title = "Job";
  static refresh = 2;

  #job = /** @type {any} */ (null);

  heading() {
    const [what, act] = (this.#job?.kind ?? "").split(".");
    return act === "delete" ? `Deletion of a ${what}` : act ? `Export of a ${what}` : "Job";
  }

  aside() {
    const job = this.#job;
    return job ? label(job.state, job.state === "done" ? "good" : "accent") : null;
  }

  async load() {
    if (this.#job?.state === "done") return;
    this.#job = await this.server.get(this.at("jobs", this.params["job"] ?? ""));
  }

  render() {
    const job = this.#job;
    if (!job) return null;
    const counts = Object.entries(job.counts);
    return [
      card(
        "Progress",
        facts([
          ["Phase", label(job.phase.replaceAll("_", " "), "accent")],
          ["Of", mono(job.user_id ?? job.chat_id ?? job.inbox ?? this.tenant)],
          ["Begun", when(job.created_at)],
          ["Last step", when(job.updated_at)],
          ["Job", mono(job.job)],
        ]),
      ),
      counts.length
        ? figures(
            counts.map(([name, count]) =>
              figure(name.replaceAll("_", " "), number(/** @type {number} */ (count))),
            ),
          )
        : null,
      job.receipt
        ? card("Receipt", h("pre", null, job.receipt), {
            hint: "Signed by this deployment; it proves what was deleted.",
          })
        : null,
    ];
  }
}
