// SPDX-License-Identifier: Apache-2.0
/** Who did what: the audit trail of a tenant, and of the whole deployment. */

import { h } from "../elements/view.js";
import { label, mono, table, when } from "./parts.js";
import { Pages, Screen } from "./screen.js";

/** @typedef {import("./parts.js").Tone} Tone */

const TONES = /** @type {Record<string, Tone>} */ ({
  done: "good",
  refused: "warn",
  failed: "bad",
  unknown: "warn",
});
const ACTORS = /** @type {Record<string, string>} */ ({
  root: "root key",
  tenant_key: "tenant key",
  cli: "command line",
});

class Trail extends Screen {
  static title = "Audit";
  static icon = /** @type {const} */ ("audit");
  static refresh = 15;

  /** @type {Pages | null} */
  trail = null;

  async load() {
    await this.trail?.load();
  }

  render() {
    const hasTenants = !this.tenant;
    const rows = (this.trail?.rows ?? []).map((act) =>
      [
        when(act.at),
        [ACTORS[act.actor] ?? act.actor, act.actor_id ? [" ", mono(act.actor_id)] : null],
        [
          h("strong", null, act.action.replaceAll("_", " ")),
          act.fields.length ? h("small", null, act.fields.join(", ")) : null,
        ],
        hasTenants ? (act.tenant ?? "deployment") : null,
        act.target ? mono(act.target) : "–",
        [
          label(act.outcome, TONES[act.outcome] ?? "plain"),
          act.code ? h("small", null, act.code) : null,
        ],
      ].filter((_, index) => hasTenants || index !== 3),
    );
    const heads = ["When", "Who", "What", "Tenant", "On what", "Outcome"].filter(
      (head) => hasTenants || head !== "Tenant",
    );
    return [table("Audit trail", heads, rows, "Nothing was done yet."), this.trail?.foot()];
  }
}

export class AuditScreen extends Trail {
  static path = "audit";
  static menu = /** @type {const} */ ("deployment");

  trail = new Pages(this.desk, "/v1/audit");
}

export class TenantAuditScreen extends Trail {
  static path = "tenants/:tenant/audit";
  static menu = /** @type {const} */ ("tenant");

  trail = new Pages(this.desk, this.at("audit"));
}
