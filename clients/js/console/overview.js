// SPDX-License-Identifier: Apache-2.0
/** The deployment at a glance: its processes, rates, times, lags, store, backups and settings. */

import {
  bytes,
  card,
  counted,
  facts,
  figure,
  figures,
  label,
  mono,
  number,
  seconds,
  table,
  when,
} from "./parts.js";
import { Screen } from "./screen.js";

/** @typedef {import("./parts.js").Tone} Tone */

const BACKUP_OLD_SECONDS = 26 * 3_600;

export class OverviewScreen extends Screen {
  static path = "overview";
  static title = "Overview";
  static icon = /** @type {const} */ ("pulse");
  static menu = /** @type {const} */ ("deployment");
  static refresh = 3;

  #state = /** @type {any} */ (null);

  async load() {
    this.#state = await this.server.get("/v1/state");
  }

  aside() {
    const troubled = this.#state?.processes.filter(
      (/** @type {any} */ one) => one.status !== "ready",
    );
    if (!troubled) return null;
    return troubled.length
      ? label(`${troubled.length} not ready`, "bad")
      : label("All ready", "good");
  }

  render() {
    const state = this.#state;
    return state ? [this.#totals(state), this.#processes(state), this.#store(state)] : null;
  }

  /** @param {any} state */
  #totals({ totals, processes }) {
    const slowest = (/** @type {string} */ name, /** @type {string} */ share) =>
      Math.max(...processes.map((/** @type {any} */ one) => one.latencies[name][share] ?? -1));
    const time = (/** @type {string} */ name) => {
      const [p99, p50] = [slowest(name, "p99"), slowest(name, "p50")];
      return p99 < 0
        ? figure(title(name), "–", "nothing in the last minute")
        : figure(title(name), seconds(p99), `p50 ${seconds(p50)}`);
    };
    return figures([
      figure(
        "Sockets",
        number(totals.sockets),
        `in ${counted(totals.processes, "process", "processes")}`,
      ),
      figure(
        "Messages a second",
        number(totals.rates.messages),
        `${number(totals.rates.entries)} entries`,
      ),
      time("send"),
      time("delivery"),
      figure(
        "Requests a second",
        number(totals.rates.requests),
        `${number(totals.rates.refusals)} refused`,
        totals.rates.refusals > 1 ? "warn" : "plain",
      ),
    ]);
  }

  /** @param {any} state */
  #processes({ processes, complete }) {
    const rows = processes.map((/** @type {any} */ one) => [
      [mono(`${one.host}:${one.pid}`), small(one.version)],
      label(one.status, one.status === "ready" ? "good" : "bad"),
      one.roles.map((/** @type {string} */ role) => [label(role), " "]),
      number(one.sockets),
      number(one.rates.messages),
      bytes(one.memory_bytes),
      lags(one),
      when(one.started_at),
    ]);
    const heads = [
      "Process",
      "Status",
      "Roles",
      "Sockets",
      "Messages/s",
      "Memory",
      "Lag",
      "Started",
    ];
    return card(
      "Processes",
      table("Processes", heads, rows),
      complete ? {} : { hint: "The registry does not answer: other processes are not known." },
    );
  }

  /** @param {any} state */
  #store({ store, backups, bus, registry, epoch }) {
    const age = backups.age_seconds;
    const backup =
      age === null
        ? label("none known", "warn")
        : [
            when(backups.newest_at),
            " ",
            age > BACKUP_OLD_SECONDS ? label("old", "bad") : label("fresh", "good"),
          ];
    return card(
      "Store",
      facts([
        ["Engine", store.engine],
        ["Where", mono(store.location)],
        store.size_bytes !== null && ["Size", bytes(store.size_bytes)],
        store.free_bytes !== null && ["Free on the disk", bytes(store.free_bytes)],
        ["Newest backup", backup],
        ["Bus", bus],
        ["Registry", registry],
        ["Epoch", mono(epoch)],
      ]),
    );
  }
}

export class SettingsScreen extends Screen {
  static path = "settings";
  static title = "Settings";
  static icon = /** @type {const} */ ("sliders");
  static menu = /** @type {const} */ ("deployment");

  #settings = /** @type {any[]} */ ([]);
  #process = "";

  async load() {
    const state = await this.server.get("/v1/state");
    this.#settings = state.settings;
    this.#process = state.answered_by;
  }

  render() {
    const rows = this.#settings.map((one) => [
      mono(one.name),
      one.secret ? label(one.value === null ? "not set" : "secret") : mono(one.value ?? "–"),
      one.source === "default" ? one.source : label(one.source, "accent"),
    ]);
    return card("Settings in effect", table("Settings", ["Setting", "Value", "Set by"], rows), {
      hint: `Of the process ${this.#process}. Secrets are never shown.`,
    });
  }
}

/** @param {any} process */
function lags({ lags: { bus_seconds: bus, sees_revocations: sees, failing_loops: failing } }) {
  const found = [
    bus !== null && bus > 10 ? label(`bus ${seconds(bus)}`, "bad") : null,
    sees ? null : label("revocations", "bad"),
    failing ? label(`${number(failing)} loops fail`, "bad") : null,
  ].filter(Boolean);
  return found.length ? found : label("none", "good");
}

/** @param {string} name */
const title = (name) => (name === "send" ? "Send, p99" : "Delivery, p99");

/** @param {string} text */
const small = (text) => [" ", label(text)];
