// SPDX-License-Identifier: Apache-2.0
/** Push notices: how a browser registers, and what its service worker shows. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { turnOffPush, turnOnPush } from "../src/push.js";

// The page.

/** A client that answers requests, and keeps them. */
const clientOf = (key) => {
  const requests = [];
  const request = async (...asked) => {
    requests.push(asked);
    return { providers: key ? ["webpush"] : [], vapid_public_key: key };
  };
  return { request, requests };
};

/** A browser that has a subscription with this key already, or none. */
const browserOf = (old) => {
  const log = [];
  const subscription = (key) => ({
    toJSON: () => ({ endpoint: `https://push.test/${key}` }),
    unsubscribe: async () => void (log.push(`end ${key}`), (current = null)),
  });
  let current = old ? subscription(old) : null;
  const pushManager = {
    getSubscription: async () => current,
    subscribe: async ({ userVisibleOnly, applicationServerKey: key }) => {
      assert(userVisibleOnly);
      if (current && key !== old) throw new Error("another key");
      log.push(`subscribe ${key}`);
      return (current = subscription(key));
    },
  };
  return { log, pushManager };
};

test("a browser subscribes with the key of the tenant, and registers", async () => {
  const client = clientOf("k1");
  const browser = browserOf();
  assert.equal(await turnOnPush(client, browser, "web 1"), true);
  assert.deepEqual(browser.log, ["subscribe k1"]);
  assert.deepEqual(client.requests, [
    ["GET", "/v1/push"],
    [
      "PUT",
      "/v1/me/devices/web%201/push",
      { provider: "webpush", subscription: { endpoint: "https://push.test/k1" } },
    ],
  ]);
});

test("a subscription with another key is replaced", async () => {
  const browser = browserOf("old");
  await turnOnPush(clientOf("new"), browser, "web");
  assert.deepEqual(browser.log, ["end old", "subscribe new"]);
});

test("a browser that cannot subscribe says so", async () => {
  const pushManager = {
    getSubscription: async () => null,
    subscribe: async () => assert.fail("not allowed"),
  };
  await assert.rejects(turnOnPush(clientOf("k1"), { pushManager }, "web"), /not allowed/);
});

test("without Web Push nothing is subscribed", async () => {
  const client = clientOf(null);
  const browser = browserOf();
  assert.equal(await turnOnPush(client, browser, "web"), false);
  assert.deepEqual([browser.log, client.requests.length], [[], 1]);
});

test("turning it off ends both the subscription and the registration", async () => {
  const client = clientOf("k1");
  const browser = browserOf("k1");
  assert.equal(await turnOffPush(client, browser, "web"), true);
  assert.deepEqual(browser.log, ["end k1"]);
  assert.deepEqual(client.requests, [["DELETE", "/v1/me/devices/web/push"]]);
});

// The service worker.

const listeners = {};
const shown = new Map();
const badges = [];
let windows = /** @type {any[]} */ ([]);
let opened = /** @type {string[]} */ ([]);
let words = /** @type {any} */ (null);
Object.assign(globalThis, {
  addEventListener: (name, listener) => (listeners[name] = listener),
  caches: { match: async () => words && { json: async () => words } },
  clients: {
    matchAll: async () => windows,
    openWindow: async (url) => void opened.push(url),
  },
  location: { origin: "https://test" },
  registration: {
    getNotifications: async () => [...shown.values()],
    showNotification: async (title, options) => {
      shown.set(options.tag, {
        title,
        ...options,
        close: () => shown.delete(options.tag),
      });
    },
  },
});
Object.defineProperty(globalThis, "navigator", {
  value: { setAppBadge: async (badge) => void badges.push(badge) },
  configurable: true,
});
await import("../app/sw.js");

/** Let the worker handle an event to its end. */
const handle = (name, event) =>
  new Promise((resolve, reject) => {
    listeners[name]({ ...event, waitUntil: (work) => work.then(resolve, reject) });
  });
const push = (notice) => handle("push", { data: notice && { json: () => notice } });
const notice = (chat, more) => ({
  kind: "message",
  collapse_key: `chat:${chat}`,
  data: { chat_id: chat, sequence: "7" },
  ...more,
});
const windowAt = (url, more) => {
  const log = /** @type {any[]} */ ([]);
  const focus = async () => void log.push("focus");
  return { url, log, focus, focused: false, postMessage: (data) => log.push(data), ...more };
};

beforeEach(() => {
  shown.clear();
  [windows, opened, words, badges.length] = [[], [], null, 0];
});

test("a notice with content shows it, and one notice per chat", async () => {
  await push(notice("c1", { title: "Ann", body: "one", badge: 2 }));
  await push(notice("c1", { title: "Ann", body: "two", badge: 3 }));
  await push(notice("c2", { title: "Bob", body: "three", badge: 4 }));
  assert.deepEqual([...shown.keys()], ["c1", "c2"]);
  const { title, body, data, icon } = shown.get("c1");
  assert.deepEqual([title, body, data], ["Ann", "two", { chat_id: "c1", sequence: "7" }]);
  assert.match(icon, /icon\.svg$/);
  assert.deepEqual(badges, [2, 3, 4]);
});

test("a notice without content says it in the words of the page", async () => {
  words = { message: "Neue Nachricht", notification: "Neue Mitteilung" };
  await push(notice("c1"));
  assert.deepEqual([shown.get("c1").title, shown.get("c1").body], ["Tidings", "Neue Nachricht"]);
  await push({ kind: "notification", collapse_key: "inbox:news", data: { inbox: "news" } });
  assert.equal(shown.get("inbox:news").body, "Neue Mitteilung");
});

test("even a push without data shows something, as browsers demand", async () => {
  await push(null);
  assert.equal(shown.size, 1);
});

test("what was read elsewhere is closed when a single message is unread", async () => {
  await push(notice("c1", { badge: 2 }));
  await push(notice("c2", { badge: 2 }));
  assert.deepEqual([...shown.keys()], ["c1", "c2"]);
  await push(notice("c3", { badge: 1 }));
  assert.deepEqual([...shown.keys()], ["c3"]);
});

test("whoever looks at the app gets no notice", async () => {
  windows = [windowAt("https://test/#c9", { focused: true })];
  await push(notice("c1"));
  assert.equal(shown.size, 0);
  windows = [windowAt("https://test/console", { focused: true }), windowAt("https://test/")];
  await push(notice("c1"));
  assert.equal(shown.size, 1);
});

test("a click opens the chat, in the window of the app or in a new one", async () => {
  await push(notice("c1"));
  await handle("notificationclick", { notification: shown.get("c1") });
  assert.deepEqual([opened, shown.size], [["/#c1"], 0]);
  const [other, app] = (windows = [windowAt("https://test/console"), windowAt("https://test/")]);
  await push(notice("c2"));
  await handle("notificationclick", { notification: shown.get("c2") });
  assert.deepEqual(app.log, [{ chat: "c2" }, "focus"]);
  assert.deepEqual([opened.length, other.log.length], [1, 0]);
});
