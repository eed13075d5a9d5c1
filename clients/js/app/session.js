// SPDX-License-Identifier: Apache-2.0
/**
 * Who is signed in: one of the demo people, somebody with a phone number, or somebody with a token.
 *
 * A demo person is signed in for one tab, so that two tabs can be two people. Others are signed in
 * for the browser.
 */

import { SignedOut } from "../src/index.js";

/**
 * @typedef {{kind: "demo", user: string}
 *   | {kind: "phone", user: string, access: string, refresh: string}
 *   | {kind: "token", user: string, token: string}} Session
 */

const KEY = "tidings session";
const DEVICE_KEY = "tidings device";

/** Return who is signed in; null for nobody. @returns {Session | null} */
export function session() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? "null");
  } catch {
    return null;
  }
}

/** @param {Session} session */
function keep(session) {
  (session.kind === "demo" ? sessionStorage : localStorage).setItem(KEY, JSON.stringify(session));
  return session;
}

/** Sign out in this tab; what the client has kept is deleted by the client. */
export async function forget() {
  const old = session();
  for (const storage of [sessionStorage, localStorage]) {
    for (const key of [KEY, DEVICE_KEY]) storage.removeItem(key);
  }
  if (old?.kind === "phone") await endSession(old.access).catch(() => {});
}

/**
 * Return a function that gets the token for each connection.
 *
 * @param {Session} session
 */
export function tokenOf({ kind }) {
  if (kind === "demo") return async () => (await demoToken(current().user)).token;
  if (kind === "phone") return refreshed;
  let isFirst = true;
  return () => {
    const now = current();
    // A token that was refused once is refused again, and there is nobody to ask for another one.
    if (!isFirst || now.kind !== "token") throw new SignedOut();
    isFirst = false;
    return now.token;
  };
}

function current() {
  const now = session();
  if (!now) throw new SignedOut();
  return now;
}

// Demo people.

/**
 * How people can sign in: as one of the demo, if the server has one, and by phone or not.
 *
 * @typedef {{phone: boolean, demo: {user_id: string, display_name: string}[]}} Ways
 */

/** @returns {Promise<Ways>} */
export async function ways() {
  const answer = await fetch("/app.json").catch(() => null);
  return answer?.ok ? answer.json() : { phone: false, demo: [] };
}

/**
 * @param {string} user
 * @returns {Promise<{token: string}>}
 */
const demoToken = (user) => post("/demo/tokens", { user_id: user });

/** @param {string} user */
export const signInAsDemo = (user) => keep({ kind: "demo", user });

// A token.

/** @param {string} token */
export async function signInWithToken(token) {
  const answer = await fetch("/v1/me", { headers: { authorization: `Bearer ${token}` } });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail);
  return keep({ kind: "token", user: (await answer.json()).user_id, token });
}

// A phone number.

/**
 * Have a code sent to a phone.
 *
 * @param {string} tenant
 * @param {string} phone
 */
export const requestCode = (tenant, phone) =>
  post("/v1/auth/codes", { tenant, phone_number: phone });

/**
 * @param {string} tenant
 * @param {string} phone
 * @param {string} code
 */
export async function signInWithCode(tenant, phone, code) {
  const device = localStorage.getItem(DEVICE_KEY) ?? `web-${crypto.randomUUID().slice(0, 8)}`;
  localStorage.setItem(DEVICE_KEY, device);
  const made = await post("/v1/auth/sessions", { tenant, phone_number: phone, code, device });
  return keep(phoneSession(made));
}

/** @param {any} made @returns {Session} */
const phoneSession = ({ user_id, access_token, refresh_token }) => ({
  kind: "phone",
  user: user_id,
  access: access_token,
  refresh: refresh_token,
});

/** Return a new access token. A refresh token works once, so tabs use it one after the other. */
async function refreshed() {
  const before = current();
  return navigator.locks.request(KEY, async () => {
    const now = current();
    if (now.kind !== "phone") throw new SignedOut();
    // Another tab was faster.
    if (before.kind === "phone" && now.refresh !== before.refresh) return now.access;
    const made = await post("/v1/auth/refresh", { refresh_token: now.refresh });
    keep(phoneSession(made));
    return made.access_token;
  });
}

/** @param {string} access */
const endSession = async (access) => {
  const headers = { authorization: `Bearer ${access}` };
  const { data } = await (await fetch("/v1/sessions", { headers })).json();
  const mine = data.find((/** @type {any} */ one) => one.current);
  if (mine) await fetch(`/v1/sessions/${mine.session_id}`, { method: "DELETE", headers });
};

/**
 * @param {string} path
 * @param {object} body
 * @returns {Promise<any>}
 */
async function post(path, body) {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const made = await answer.json().catch(() => ({}));
  if (answer.status === 401 || answer.status === 404) throw new SignedOut(made.detail);
  if (!answer.ok) throw new Error(made.detail);
  return made;
}
