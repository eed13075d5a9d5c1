// SPDX-License-Identifier: Apache-2.0
/** When the service worker answers with the page that is kept. */

import assert from "node:assert/strict";
import { test } from "node:test";

const KEPT = { status: 200, from: "the cache" };

/** @type {(request: any) => Promise<any>} */
let answer;
/** @type {Record<string, (event: any) => void>} */
const listeners = {};
Object.assign(globalThis, {
  addEventListener: (name, listener) => (listeners[name] = listener),
  caches: { open: async () => ({ match: async () => KEPT }) },
  fetch: (request) => answer(request),
  location: { origin: "https://test" },
});
await import("../app/sw.js");

/** Return what somebody who opens the page gets, if the server answers this. */
async function opened(fresh) {
  answer = async () => {
    if (fresh instanceof Error) throw fresh;
    return fresh;
  };
  const request = { url: "https://test/", method: "GET", mode: "navigate" };
  return new Promise((respondWith) => listeners.fetch({ request, respondWith }));
}

test("the page that is kept is for a server that does not answer or is busy", async () => {
  for (const trouble of [new TypeError("no network"), { status: 502 }, { status: 429 }]) {
    assert.equal(await opened(trouble), KEPT);
  }
});

test("the page that is kept does not stand before a newer one, a login or an end", async () => {
  // A redirect has the status 0 here, such as the one of a proxy to its login.
  for (const status of [200, 0, 401, 404, 410]) {
    const fresh = { status, ok: status === 200 };
    assert.equal(await opened(fresh), fresh);
  }
});
