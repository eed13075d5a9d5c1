// SPDX-License-Identifier: Apache-2.0
/** What the sign-in of the web app does with a server that is silent. */

import assert from "node:assert/strict";
import { test } from "node:test";

Object.assign(globalThis, {
  localStorage: { getItem: () => "web-1", setItem: () => {} },
  fetch: () => new Promise(() => {}),
});
const { requestCode, signInWithCode, signInWithToken, ways } = await import("../app/session.js");

test("a server that is silent is given up, without a text of its own", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const attempts = [
    requestCode("acme", "+41"),
    signInWithCode("acme", "+41", "123456"),
    signInWithToken("token"),
  ].map((attempt) => assert.rejects(attempt, { name: "Unavailable", message: "" }));
  const found = ways();
  context.mock.timers.tick(30_000);
  await Promise.all(attempts);
  assert.deepEqual(await found, { phone: false, demo: [] });
});
