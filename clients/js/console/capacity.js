// SPDX-License-Identifier: Apache-2.0
/** Cost and capacity: what this process does, and what it takes of the store, while one looks. */

import { h } from "../elements/view.js";
import { parse } from "./metrics.js";
import { card, figure, figures, number, seconds, table } from "./parts.js";
import { Screen } from "./screen.js";

/** @typedef {import("./metrics.js").Metrics} Metrics */

const SHOWN = 12;
const DAY_SECONDS = 86_400;

export class CapacityScreen extends Screen {
  static path = "capacity";
  static title = "Cost and capacity";
  static icon = /** @type {const} */ ("gauge");
  static menu = /** @type {const} */ ("deployment");
  static refresh = 5;

  #first = /** @type {Metrics | null} */ (null);
  #now = /** @type {Metrics | null} */ (null);

  async load() {
    this.#now = parse(await this.server.text("/metrics"));
    this.#first ??= this.#now;
  }

  render() {
    const now = this.#now;
    const first = this.#first;
    if (!now || !first) return null;
    const elapsed = (now.at - first.at) / 1_000;
    const rate = (/** @type {string} */ name, /** @type {Record<string, string>} */ labels = {}) =>
      elapsed > 1 ? (now.sum(name, labels) - first.sum(name, labels)) / elapsed : null;
    const messages = { kind: "message" };
    const sent = rate("tidings_entries_total", messages);
    return [
      h("p", { class: "lead" }, [
        "Of the process that answers. Rates are measured since this screen was opened",
        elapsed > 1 ? ` ${seconds(elapsed)} ago.` : ".",
      ]),
      figures([
        figure(
          "Messages",
          number(now.sum("tidings_entries_total", messages)),
          sent === null ? "measuring…" : `${number(sent)} a second`,
        ),
        figure("At this pace", sent === null ? "–" : number(sent * DAY_SECONDS), "messages a day"),
        figure("Sockets", number(now.sum("tidings_sockets", {}))),
        figure(
          "Send, p99",
          seconds(now.quantile("tidings_send_seconds", 0.99)),
          `p50 ${seconds(now.quantile("tidings_send_seconds", 0.5))}`,
        ),
      ]),
      this.#units(now, rate),
      this.#routes(now, rate),
      this.#patterns(now, rate),
    ];
  }

  /** @param {Metrics} now @param {(name: string, labels?: Record<string, string>) => number | null} rate */
  #units(now, rate) {
    const name = "tidings_capacity_units_total";
    const rows = now.labelled(name).map(({ labels, value }) => {
      const each = rate(name, labels);
      return [
        labels["table"],
        labels["kind"],
        number(value),
        each === null ? "…" : number(each),
        each === null ? "…" : number(each * DAY_SECONDS),
      ];
    });
    return rows.length
      ? card(
          "Capacity units of DynamoDB",
          table(
            "Capacity units",
            ["Table", "Kind", "Units so far", "A second", "A day at this pace"],
            rows,
          ),
          {
            hint: "What they cost for your traffic: tidings capacity.",
          },
        )
      : null;
  }

  /** @param {Metrics} now @param {(name: string, labels?: Record<string, string>) => number | null} rate */
  #patterns(now, rate) {
    const rows = timings(now, "tidings_store_seconds", "operation", rate);
    return card(
      "The store",
      table(
        "Operations of the store",
        ["Operation", "Calls", "A second", "p50", "p99"],
        rows,
        "The store was not used yet.",
      ),
    );
  }

  /** @param {Metrics} now @param {(name: string, labels?: Record<string, string>) => number | null} rate */
  #routes(now, rate) {
    const rows = timings(now, "tidings_requests_seconds", "route", rate);
    return card(
      "Routes",
      table(
        "Routes",
        ["Route", "Requests", "A second", "p50", "p99"],
        rows,
        "No request was made yet.",
      ),
    );
  }
}

/**
 * Return a row for each value of a label, those with the most calls first.
 *
 * @param {Metrics} now
 * @param {string} name
 * @param {string} label
 * @param {(name: string, labels?: Record<string, string>) => number | null} rate
 */
function timings(now, name, label, rate) {
  const values = [
    ...new Set(now.labelled(`${name}_count`).map(({ labels }) => labels[label] ?? "")),
  ];
  return values
    .map((value) => ({ value, calls: now.sum(`${name}_count`, { [label]: value }) }))
    .filter(({ calls }) => calls)
    .sort((a, b) => b.calls - a.calls)
    .slice(0, SHOWN)
    .map(({ value, calls }) => {
      const each = rate(`${name}_count`, { [label]: value });
      return [
        value,
        number(calls),
        each === null ? "…" : number(each),
        seconds(now.quantile(name, 0.5, { [label]: value })),
        seconds(now.quantile(name, 0.99, { [label]: value })),
      ];
    });
}
