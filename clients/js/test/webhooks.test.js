// SPDX-License-Identifier: Apache-2.0
/** Webhooks are accepted and refused as the public library of the specification does it. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { mock, test } from "node:test";

import { verifyWebhook, WebhookRefused } from "../src/webhooks.js";

const CASES = JSON.parse(
  readFileSync(new URL("../../spec/webhooks.json", import.meta.url), "utf8"),
);
const [GENUINE] = CASES;
/** The packages may be in a folder of their own, beside the programs in PATH. */
const tools = (process.env["PATH"] ?? "").split(":").map((one) => join(one, "..", "x.js"));

/** @returns {any} */
function publicLibrary() {
  for (const place of [import.meta.url, ...tools]) {
    try {
      return createRequire(place)("standardwebhooks");
    } catch {
      // perhaps elsewhere
    }
  }
  throw new Error("standardwebhooks is not installed: npm ci");
}

for (const { about, now, secrets, headers, body, genuine } of CASES) {
  test(`webhook: ${about}`, async () => {
    const asked = verifyWebhook(secrets, headers, body, now * 1_000);
    if (!genuine) return assert.rejects(asked, WebhookRefused);
    const { id, type } = await asked;
    assert.deepEqual([id, type], [headers["webhook-id"] ?? id, "message.created"]);
  });
}

test("the public library agrees", () => {
  const { Webhook } = publicLibrary();
  for (const { about, now, secrets, headers, body, genuine } of CASES) {
    mock.timers.enable({ apis: ["Date"], now: now * 1_000 });
    const accepts = (/** @type {string} */ secret) => {
      try {
        return new Webhook(secret).verify(body, headers) !== undefined;
      } catch {
        return false;
      }
    };
    assert.equal(secrets.some(accepts), genuine, about);
    mock.timers.reset();
  }
});

test("headers and bodies may have the forms of fetch and of Node", async () => {
  const { now, secrets, headers, body } = GENUINE;
  const bytes = new TextEncoder().encode(body);
  const first = await verifyWebhook(secrets[0], new Headers(headers), bytes, now * 1_000);
  const second = await verifyWebhook(secrets, headers, Buffer.from(bytes), now * 1_000);
  assert.deepEqual(first, second);
  assert.equal(first.data["content"], "Grüße ⛵");
});

test("a wrong secret is a mistake of the receiver", async () => {
  const { headers, body, now } = GENUINE;
  for (const secrets of [[], "", "whsec_", "whsec_###"])
    await assert.rejects(verifyWebhook(secrets, headers, body, now * 1_000), TypeError);
});

test("a time is a whole number of seconds", async () => {
  const { secrets, headers, body, now } = GENUINE;
  for (const time of [`${now}x`, ` ${now}`, "1e9", "-1", "1.5"]) {
    const changed = { ...headers, "webhook-timestamp": time };
    await assert.rejects(verifyWebhook(secrets, changed, body, now * 1_000), /not a number/);
  }
});

test("a signed body that is no event is refused", async () => {
  const secret = "whsec_c2VjcmV0";
  const key = await crypto.subtle.importKey(
    "raw",
    new TextEncoder().encode("secret"),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );
  for (const body of ["", "[]", "null", '{"type":"x"}', '{"type":"x","timestamp":"t","data":[]}']) {
    const mac = await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(`m.1.${body}`));
    const headers = {
      "webhook-id": "m",
      "webhook-timestamp": "1",
      "webhook-signature": `v1,${Buffer.from(mac).toString("base64")}`,
    };
    await assert.rejects(verifyWebhook(secret, headers, body, 1_000), /not an event/);
  }
});
