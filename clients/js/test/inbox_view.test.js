// SPDX-License-Identifier: Apache-2.0
/** The live view of an inbox follows what arrives, what goes, and what other devices do. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, live, twoMessages } from "./clients.js";
import { until } from "./fake_server.js";

const PATH = "/v1/inboxes/news";

/** Return a notification; they are listed in the order of their ids. @param {string} id */
const note = (id, more = {}) => ({
  id,
  message: { title: id },
  received_at: `2026-11-16T10:00:${122 - id.charCodeAt(0)}.000Z`,
  ...more,
});

/**
 * Show an inbox.
 *
 * @param {any[]} data - What the server lists now; a test may change it.
 */
async function shown(data) {
  const server = twoMessages();
  server.routes[`${PATH}/notifications`] = () => ({ data, next_cursor: null });
  server.routes[`${PATH}/unread`] = () => ({
    total: data.filter((one) => !one.read_at).length,
    categories: {},
  });
  const tidings = client(server);
  await tidings.start();
  await live(tidings);
  const inbox = tidings.inbox("news");
  inbox.subscribe(() => {});
  await until(() => inbox.snapshot().isLoaded);
  await settled();
  const ids = () => {
    const { notifications } = inbox.snapshot();
    return notifications.map((one) => (one.read_at ? `${one.id} read` : one.id)).join();
  };
  return { server, inbox, ids };
}

/** @param {import("./fake_server.js").FakeServer} server */
const loads = (server) => server.requests.filter((one) => one.includes("/notifications?")).length;

/** Wait until all that can happen without a timer has happened. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/**
 * Let time pass in a moment.
 *
 * @param {import("node:test").TestContext} context
 * @param {number} ms
 */
async function passes(context, ms) {
  await settled();
  context.mock.timers.tick(ms);
  await settled();
}

test("a notification that comes or goes while the inbox is loaded is shown or not", async () => {
  const server = twoMessages();
  let data = [note("old")];
  server.routes[`${PATH}/notifications`] = async () => {
    const answer = { data, next_cursor: null };
    if (data.length === 1 && data[0]?.id === "old") {
      data = [note("new")];
      server.say({ op: "notification", inbox: "news", ...note("new") });
      server.say({ op: "retracted", inbox: "news", id: "old" });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return answer;
  };
  const tidings = client(server);
  await tidings.start();
  await live(tidings);
  const inbox = tidings.inbox("news");
  inbox.subscribe(() => {});
  await until(() => inbox.snapshot().isLoaded);
  await until(
    () =>
      inbox
        .snapshot()
        .notifications.map((one) => one.id)
        .join() === "new",
  );
});

test("what another device does with notifications is shown, with one reload for all of it", async (context) => {
  const data = [note("a"), note("b"), note("c")];
  const { server, ids } = await shown(data);
  const before = loads(server);
  context.mock.timers.enable({ apis: ["setTimeout"] });
  data.splice(0, 2, note("b", { read_at: "2026-11-16T11:00:00.000Z" }));
  server.say({ op: "marked", inbox: "news", ids: ["a"], archived: true });
  server.say({ op: "marked", inbox: "news", ids: ["b"], read: true });
  await passes(context, 300);
  assert.equal(ids(), "b read,c");
  await passes(context, 10_000);
  context.mock.timers.reset(); // the client stops its own timers
  assert.equal(loads(server), before + 1);
});

test("what was read on another device is noticed by the count alone", async () => {
  const data = [note("a"), note("b")];
  const { server, ids } = await shown(data);
  data[0] = note("a", { read_at: "2026-11-16T11:00:00.000Z" });
  server.say({ op: "unread", inbox: "news", total: 1, categories: {} });
  await until(() => ids() === "a read,b");
});

test("what changes nothing in the list loads nothing", async (context) => {
  const { server, inbox } = await shown([note("a")]);
  const before = loads(server);
  context.mock.timers.enable({ apis: ["setTimeout"] });
  server.say({ op: "marked", inbox: "news", before: "2026-11-16T11:00:00.000Z", seen: true });
  server.say({ op: "unread", inbox: "news", total: 1, categories: { offers: 1 } });
  await passes(context, 10_000);
  context.mock.timers.reset(); // the client stops its own timers
  assert.equal(inbox.snapshot().categories.offers, 1);
  assert.equal(loads(server), before);
});

test("a change that comes during a reload causes another one, and callers share it", async () => {
  const data = [note("a")];
  const { server, inbox, ids } = await shown(data);
  const before = loads(server);
  const first = inbox.reload();
  data.push(note("b"));
  await Promise.all([first, inbox.reload(), inbox.reload()]);
  assert.equal(ids(), "a,b");
  assert.equal(loads(server), before + 2);
});

test("whoever looks again sees what has changed meanwhile", async () => {
  const data = [note("a")];
  const server = twoMessages();
  server.routes[`${PATH}/notifications`] = () => ({ data, next_cursor: null });
  const tidings = client(server);
  await tidings.start();
  const inbox = tidings.inbox("news");
  const end = inbox.subscribe(() => {});
  await until(() => inbox.snapshot().notifications.length === 1);
  end();
  data.pop();
  inbox.subscribe(() => {});
  await until(() => inbox.snapshot().notifications.length === 0);
});
