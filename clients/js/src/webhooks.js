// SPDX-License-Identifier: Apache-2.0
/**
 * Verifies webhooks of Tidings in the service that receives them; no page needs it, and `index.js`
 * does not contain it.
 *
 * The signatures are those of the Standard Webhooks specification. The header `webhook-signature`
 * has one or more signatures, separated by spaces; each is the HMAC-SHA256 of id, time and body, in
 * base64 after `v1,`. A webhook is genuine if one signature was made with one of the secrets.
 */

/** How far the time of a webhook may be from now, so that nobody can replay an old one. */
export const TOLERANCE_SECONDS = 300;

const PREFIX = "whsec_";
const VERSION = "v1,";
const MAC_BYTES = 32;
const HMAC = { name: "HMAC", hash: "SHA-256" };

/** The request is not a genuine webhook, or it is too old; answer with the status 400. */
export class WebhookRefused extends Error {
  name = "WebhookRefused";
}

/**
 * What a genuine webhook reports. `id` is the same for every attempt to deliver it: whoever stores
 * it recognises repeats.
 *
 * @typedef {{id: string, type: string, timestamp: string, data: Record<string, any>}} WebhookEvent
 */

/**
 * Return what a webhook reports; throw `WebhookRefused` if it is not genuine, or if its time is more
 * than five minutes away.
 *
 * @param {string | readonly string[]} secrets - As the server shows them. While a secret is replaced,
 *   the new and the old one.
 * @param {Headers | Record<string, string | string[] | undefined>} headers - Of `fetch`, or of Node.
 * @param {string | Uint8Array} body - As it arrived, byte by byte.
 * @param {number} [now] - The time in milliseconds since 1970.
 * @returns {Promise<WebhookEvent>}
 */
export async function verifyWebhook(secrets, headers, body, now = Date.now()) {
  const given = reader(headers);
  const [id, at] = [given("webhook-id"), given("webhook-timestamp")];
  if (!id) throw new WebhookRefused("the header webhook-id is missing");
  if (!/^\d{1,12}$/.test(at))
    throw new WebhookRefused("the header webhook-timestamp is missing or not a number");
  if (Math.abs(now / 1_000 - Number(at)) > TOLERANCE_SECONDS)
    throw new WebhookRefused("the webhook is too old, or one of the clocks is wrong");
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signed = joined(new TextEncoder().encode(`${id}.${at}.`), bytes);
  const keys = await Promise.all([secrets].flat().map(key));
  if (!keys.length) throw new TypeError("a receiver needs a secret");
  if (!(await isSigned(keys, signed, given("webhook-signature"))))
    throw new WebhookRefused("no signature is right");
  return event(id, bytes);
}

/**
 * All signatures are compared, so that the time does not show which of them is right.
 *
 * @param {CryptoKey[]} keys
 * @param {Uint8Array<ArrayBuffer>} signed
 * @param {string} header
 */
async function isSigned(keys, signed, header) {
  const macs = header
    .split(" ")
    .filter((one) => one.startsWith(VERSION))
    .map((one) => decoded(one.slice(VERSION.length)))
    .filter((mac) => mac.length === MAC_BYTES);
  const right = await Promise.all(keys.map((one) => crypto.subtle.sign("HMAC", one, signed)));
  const found = right.flatMap((mac) => macs.map((one) => isSame(new Uint8Array(mac), one)));
  return found.includes(true);
}

/**
 * Compare all bytes, so that the time does not show where they differ.
 *
 * @param {Uint8Array} first
 * @param {Uint8Array} second
 */
const isSame = (first, second) =>
  first.reduce(
    (differs, byte, index) => differs | (byte ^ /** @type {number} */ (second[index])),
    0,
  ) === 0;

/** @param {string} secret */
function key(secret) {
  const bytes = decoded(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret);
  if (!bytes.length) throw new TypeError("the secret of a webhook is empty or not base64");
  return crypto.subtle.importKey("raw", bytes, HMAC, false, ["sign"]);
}

/**
 * @param {string} id
 * @param {Uint8Array} body
 * @returns {WebhookEvent}
 */
function event(id, body) {
  try {
    const { type, timestamp, data } = JSON.parse(new TextDecoder().decode(body));
    if (typeof type === "string" && typeof timestamp === "string" && isObject(data))
      return { id, type, timestamp, data };
  } catch {
    // as if it had another form
  }
  throw new WebhookRefused("the body is not an event");
}

/** @param {unknown} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * A function that returns a header, or an empty text.
 *
 * @param {Headers | Record<string, string | string[] | undefined>} headers
 */
function reader(headers) {
  if (headers instanceof Headers) return (/** @type {string} */ name) => headers.get(name) ?? "";
  const lower = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value ?? "")]),
  );
  return (/** @type {string} */ name) => lower[name] ?? "";
}

/** The bytes of a text in base64; none if it is something else. @param {string} text */
function decoded(text) {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

/**
 * @param {Uint8Array} first
 * @param {Uint8Array} second
 */
function joined(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
