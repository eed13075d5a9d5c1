// SPDX-License-Identifier: Apache-2.0
/** What the console computes: metrics and their quantiles, and lists that grow by pages. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { parse } from "../console/metrics.js";
import { bytes, counted, number, seconds } from "../console/parts.js";
import { address, Pages } from "../console/screen.js";

const TEXT = `# TYPE tidings_send_seconds histogram
tidings_send_seconds_bucket{via="socket",le="0.001"} 50.0
tidings_send_seconds_bucket{via="socket",le="0.002"} 90.0
tidings_send_seconds_bucket{via="socket",le="+Inf"} 100.0
tidings_send_seconds_bucket{via="rest",le="0.001"} 0.0
tidings_send_seconds_bucket{via="rest",le="0.002"} 100.0
tidings_send_seconds_bucket{via="rest",le="+Inf"} 100.0
tidings_entries_total{kind="message",note="a \\"b\\", c"} 3.0
tidings_entries_total{kind="edited"} 4
tidings_sockets 7 1700000000
`;

test("metrics are summed by their labels", () => {
  const metrics = parse(TEXT);
  assert.equal(metrics.sum("tidings_entries_total"), 7);
  assert.equal(metrics.sum("tidings_entries_total", { kind: "message" }), 3);
  assert.equal(metrics.sum("tidings_sockets"), 7);
  assert.equal(metrics.sum("tidings_nothing"), 0);
});

test("a quantile lies within its bucket", () => {
  const metrics = parse(TEXT);
  assert.equal(metrics.quantile("tidings_send_seconds", 0.5, { via: "socket" }), 0.001);
  assert.equal(metrics.quantile("tidings_send_seconds", 0.5, { via: "rest" }), 0.0015);
  assert.equal(metrics.quantile("tidings_send_seconds", 0.99, { via: "socket" }), 0.002);
  assert.equal(metrics.quantile("tidings_send_seconds", 0.25), 0.001);
  assert.equal(metrics.quantile("tidings_nothing", 0.5), null);
});

test("numbers have the unit that suits them", () => {
  const times = [0.0005, 0.25, 3, 600, 90_000, 864_000, null];
  assert.deepEqual(times.map(seconds), [
    "500 µs",
    "250 ms",
    "3 s",
    "10 min",
    "25 h",
    "10 days",
    "–",
  ]);
  assert.deepEqual([0, 1_536, 5 * 2 ** 30].map(bytes), ["0 B", "1.5 KiB", "5 GiB"]);
  assert.deepEqual([number(null), number(12_345.67)], ["–", "12,345.7"]);
  assert.deepEqual([counted(1, "entry", "entries"), counted(2, "user")], ["1 entry", "2 users"]);
});

test("an address can have any name in it", () => {
  assert.equal(address("tenants", "a/b", "users", "x y"), "#/tenants/a%2Fb/users/x%20y");
});

test("a list that is loaded again keeps its pages, and its last choice", async () => {
  const asked = /** @type {any[]} */ ([]);
  const server = {
    get: async (/** @type {string} */ _path, /** @type {any} */ query) => {
      asked.push(query);
      const at = Number(query.cursor ?? 0);
      return { data: [`${query.prefix ?? ""}${at}`], next_cursor: at < 2 ? String(at + 1) : null };
    },
  };
  const desk = /** @type {any} */ ({ server, update: () => {} });
  const pages = new Pages(desk, "/v1/tenants/acme/users");
  await pages.load();
  assert.deepEqual(pages.rows, ["0"]);
  await pages.more();
  await pages.load();
  assert.deepEqual([pages.rows, pages.hasMore], [["0", "1"], true]);
  pages.choose({ prefix: "a" });
  const slow = pages.load();
  pages.choose({ prefix: "b" });
  await Promise.all([slow, pages.load()]);
  assert.deepEqual(pages.rows, ["b0"]);
});
