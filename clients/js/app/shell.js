// SPDX-License-Identifier: Apache-2.0
/** Keep the files of the app, so that it opens without a network. */

const CACHE = "tidings shell";

/**
 * Start the service worker, and give it the files that this page was made of. It cannot gather
 * them by itself, because it is not there yet when the page loads for the first time.
 */
export async function keepShell() {
  const workers = navigator.serviceWorker;
  if (!workers) return;
  const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("tidings", {
    createScriptURL: (/** @type {string} */ url) => {
      if (url !== "/sw.js") throw new TypeError(url);
      return url;
    },
  });
  const url = /** @type {string} */ (/** @type {unknown} */ (policy?.createScriptURL("/sw.js")));
  await workers.register(url ?? "/sw.js", { type: "module" }).catch(() => {});
  await fill().catch(() => {}); // storage may be full, or forbidden
}

async function fill() {
  const files = performance
    .getEntriesByType("resource")
    .map(({ name }) => new URL(name))
    .filter(({ origin, pathname }) => origin === location.origin && isShell(pathname))
    .map(({ href }) => href);
  const cache = await caches.open(CACHE);
  const kept = new Set((await cache.keys()).map(({ url }) => url));
  const page = new URL("/", location.href).href;
  const wanted = [page, ...new Set(files)];
  // The page changes under the same name; the others never do.
  const missing = wanted.filter((file) => file === page || !kept.has(file));
  await cache.addAll(missing.map((file) => new Request(file, { cache: "force-cache" })));
  for (const old of kept) {
    if (!wanted.includes(old)) await cache.delete(old);
  }
}

/** @param {string} path */
const isShell = (path) => !/^\/(v1|demo|stack|readyz|healthz|app\.json|sw\.js)\b/.test(path);
