// SPDX-License-Identifier: Apache-2.0
/** The service worker: the app opens without a network, from the files that the page has kept. */

const CACHE = "tidings shell";
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
