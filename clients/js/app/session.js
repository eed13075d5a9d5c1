// SPDX-License-Identifier: Apache-2.0
/**
 * Who is signed in: one of the demo people, somebody with a phone number, or somebody with a token.
 *
 * A demo person is signed in for one tab, so that two tabs can be two people. Others are signed in
 * for the browser.
 */

import { inTime } from "../src/in_time.js";
import { SignedOut, Unavailable } from "../src/index.js";

/**
 * Each sign-in has a name for what the browser keeps, because users of two tenants can have the same
 * id. A demo person has the same name in all tabs.
 *
 * @typedef {{kind: "demo", user: string, name: string}
 *   | {kind: "phone", user: string, name: string, access: string, refresh: string, until: number}
 *   | {kind: "token", user: string, name: string, token: string}} Session
 */

const KEY = "tidings session";
const DEVICE_KEY = "tidings device";
const RENEW_MS_BEFORE = 60_000;

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

/**
 * Sign out; what the client has kept is deleted by the client. Somebody else who has signed in in
 * this browser meanwhile stays signed in.
 *
 * @param {Session} who
 */
export async function forget(who) {
  const old = session();
  if (old?.name !== who.name) return;
  const storage = who.kind === "demo" ? sessionStorage : localStorage;
  for (const key of [KEY, DEVICE_KEY]) storage.removeItem(key);
  if (old.kind === "phone") await inTime(endSession(old.access)).catch(() => {});
}

/**
 * Return the name of this browser as a device of the user, until the user signs out.
 *
 * @param {Session} who
 */
export function deviceOf({ kind }) {
  const storage = kind === "demo" ? sessionStorage : localStorage;
  const device = storage.getItem(DEVICE_KEY) ?? newDevice();
  storage.setItem(DEVICE_KEY, device);
  return device;
}

const newDevice = () => `web-${crypto.randomUUID().slice(0, 8)}`;

/** @param {string} user */
const nameFor = (user) => `${user} ${crypto.randomUUID()}`;

/**
 * Return a function that gets the token for each connection.
 *
 * @param {Session} who
 */
export function tokenOf(who) {
  const { kind } = who;
  if (kind === "demo") return async () => (await demoToken(current(who).user)).token;
  if (kind === "phone") return refreshing(who);
  let isFirst = true;
  return () => {
    const now = current(who);
    // A token that was refused once is refused again, and there is nobody to ask for another one.
    if (!isFirst || now.kind !== "token") throw new SignedOut();
    isFirst = false;
    return now.token;
  };
}

/** @param {Session} who */
function current(who) {
  const now = session();
  if (now?.name !== who.name) throw new SignedOut();
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
  const answer = await inTime(fetch("/app.json")).catch(() => null);
  return answer?.ok ? answer.json() : { phone: false, demo: [] };
}

/**
 * @param {string} user
 * @returns {Promise<{token: string}>}
 */
const demoToken = (user) => post("/demo/tokens", { user_id: user });

/** @param {string} user */
export const signInAsDemo = (user) => keep({ kind: "demo", user, name: user });

// A token.

/** @param {string} token */
export async function signInWithToken(token) {
  const headers = { authorization: `Bearer ${token}` };
  const answer = await answered(fetch("/v1/me", { headers }));
  if (!answer.ok) throw new Error((await answered(answer.json()).catch(() => ({}))).detail);
  const { user_id: user } = await answered(answer.json());
  return keep({ kind: "token", user, name: nameFor(user), token });
}

// A phone number.

/**
 * Have a code sent to a phone.
 *
 * @param {string} tenant
 * @param {string} phone
 */
export const requestCode = (tenant, phone) =>
  answered(post("/v1/auth/codes", { tenant, phone_number: phone }));

/**
 * @param {string} tenant
 * @param {string} phone
 * @param {string} code
 */
export async function signInWithCode(tenant, phone, code) {
  const device = localStorage.getItem(DEVICE_KEY) ?? newDevice();
  localStorage.setItem(DEVICE_KEY, device);
  const login = { tenant, phone_number: phone, code, device };
  const made = await answered(post("/v1/auth/sessions", login));
  return keep(phoneSession(made, nameFor(made.user_id)));
}

/**
 * @param {any} made
 * @param {string} name
 * @returns {Session}
 */
const phoneSession = ({ user_id, access_token, refresh_token, expires_at }, name) => ({
  kind: "phone",
  user: user_id,
  name,
  access: access_token,
  refresh: refresh_token,
  until: Date.parse(expires_at),
});

/**
 * Return a function that returns an access token: the one that is kept, and a new one when that is
 * old or refused. A refresh token works once, so tabs use it one after the other, and a page that
 * is closed while it loads must not lose the next one.
 *
 * @param {Session} who
 */
function refreshing(who) {
  let last = "";
  return async () =>
    navigator.locks.request(KEY, async () => {
      const now = current(who);
      if (now.kind !== "phone") throw new SignedOut();
      if (now.access === last || !(Date.now() < now.until - RENEW_MS_BEFORE)) {
        const made = await post("/v1/auth/refresh", { refresh_token: now.refresh });
        current(who); // nobody else has signed in meanwhile
        keep(phoneSession(made, now.name));
        return (last = made.access_token);
      }
      return (last = now.access);
    });
}

/** @param {string} access */
const endSession = async (access) => {
  const headers = { authorization: `Bearer ${access}` };
  // The page may be closed or loaded again before the answer.
  const init = { method: "DELETE", headers, keepalive: true };
  const { data } = await (await fetch("/v1/sessions", { headers })).json();
  const mine = data.find((/** @type {any} */ one) => one.current);
  if (mine) await fetch(`/v1/sessions/${mine.session_id}`, init);
};

/** The server wants a pause before the same request is made again. */
export class TooSoon extends Error {
  /**
   * @param {string} detail
   * @param {number} seconds
   */
  constructor(detail, seconds) {
    super(detail);
    this.seconds = seconds;
  }
}

/**
 * Wait for an answer at the sign-in. Silence has no text of its own, so the page shows its own. A
 * renewal waits longer: a token that comes late is still the next one.
 *
 * @template T
 * @param {Promise<T>} answer
 */
const answered = (answer) =>
  inTime(answer).catch((error) => {
    throw error instanceof Unavailable ? new Unavailable() : error;
  });

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
  const seconds = Number(answer.headers.get("retry-after"));
  if (answer.status === 429) throw new TooSoon(made.detail, seconds);
  if (!answer.ok) throw new Error(made.detail);
  return made;
}
