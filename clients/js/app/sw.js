// SPDX-License-Identifier: Apache-2.0
/**
 * The service worker: the app opens without a network, from the files that the page has kept, and
 * notices are shown while the app is closed.
 */

const CACHE = "tidings shell";
const WORDS = "tidings words";
const ICON = "/assets/app/icon.svg";
const PATIENCE_MS = 4_000;

/** @type {any} */
const worker = globalThis;

worker.addEventListener("install", () => worker.skipWaiting());
worker.addEventListener("activate", (/** @type {any} */ event) => {
  event.waitUntil(worker.clients.claim());
});

worker.addEventListener("fetch", (/** @type {any} */ event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== "GET" || origin !== location.origin) return;
  const isPage = request.mode === "navigate" && pathname === "/";
  if (isPage) event.respondWith(page(request));
  else if (/^\/(assets\/|manifest)/.test(pathname)) event.respondWith(file(request));
});

/**
 * Answer with the newest page; without a network, with the one that is kept.
 *
 * @param {Request} request
 */
async function page(request) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match("/", { ignoreVary: true });
  try {
    const signal = kept ? AbortSignal.timeout(PATIENCE_MS) : null;
    const fresh = await fetch(request, { signal });
    // A proxy may want the user to sign in, and what was removed must not come back.
    const isBusy = fresh.status === 429 || fresh.status >= 500;
    return kept && isBusy ? kept : fresh;
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}

/**
 * Answer with the file that is kept: the name of a file changes with its content.
 *
 * @param {Request} request
 */
async function file(request) {
  const cache = await caches.open(CACHE);
  return (await cache.match(request, { ignoreVary: true })) ?? fetch(request);
}

worker.addEventListener("push", (/** @type {any} */ event) => {
  event.waitUntil(show(event.data?.json() ?? {}));
});

worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.chat_id ?? ""));
});

/** Return the windows of the app. */
async function windows() {
  const found = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  return found.filter((/** @type {any} */ { url }) => new URL(url).pathname === "/");
}

/**
 * Show a notice. Whoever looks at the app needs none.
 *
 * @param {{kind?: string, title?: string, body?: string, badge?: number,
 *   collapse_key?: string, data?: Record<string, string>}} notice
 */
async function show({ kind = "message", title, body, badge, collapse_key, data = {} }) {
  if (badge !== undefined) void worker.navigator.setAppBadge?.(badge).catch(() => {});
  const { registration } = worker;
  const tag = data.chat_id ?? collapse_key ?? kind;
  // If a single message is unread, it is this one: the others were read on another device.
  if (badge === 1) {
    for (const old of await registration.getNotifications()) if (old.tag !== tag) old.close();
  }
  if ((await windows()).some((/** @type {any} */ { focused }) => focused)) return;
  const words = await (await caches.match("/words", { cacheName: WORDS }))?.json();
  const text = body ?? words?.[kind] ?? "";
  await registration.showNotification(title ?? "Tidings", { body: text, tag, icon: ICON, data });
}

/**
 * Go to the window of the app, or to a new one, and open a chat there.
 *
 * @param {string} chat
 */
async function open(chat) {
  const [first] = await windows();
  if (!first) return worker.clients.openWindow(chat ? `/#${chat}` : "/");
  first.postMessage({ chat });
  return first.focus();
}
