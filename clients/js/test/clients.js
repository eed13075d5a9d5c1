// SPDX-License-Identifier: Apache-2.0
/** Clients of a server in the same process; they stop when a test ends. */

import { afterEach } from "node:test";

import { memory, Tidings } from "../src/index.js";
import { FakeServer, until } from "./fake_server.js";

/** @type {Tidings[]} */
const open = [];
afterEach(() => Promise.all(open.splice(0).map((client) => client.stop())));

/**
 * @param {FakeServer} server
 * @param {any} [options]
 */
export function client(server, options = {}) {
  const made = new Tidings("http://test", {
    token: () => "t",
    storage: memory(),
    tabs: "each",
    WebSocket: server.WebSocket,
    fetch: server.fetch,
    clock: { now: () => performance.now(), wall: () => Date.now(), random: () => 0 },
    ...options,
  });
  open.push(made);
  return made;
}

/** @param {Tidings} tidings */
export const live = (tidings) => until(() => tidings.state.snapshot().connection === "live");

/** @param {Tidings} tidings @param {string} [chat] */
export const texts = (tidings, chat = "c") =>
  tidings
    .chat(chat)
    .snapshot()
    .rows.map((row) => row.content ?? row.gone);

export function twoMessages() {
  const server = new FakeServer();
  server.append("c", { content: "one" });
  server.append("c", { content: "two" });
  return server;
}
