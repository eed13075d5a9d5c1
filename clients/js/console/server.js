// SPDX-License-Identifier: Apache-2.0
/**
 * The server, asked with a root or tenant key. The key is kept in this tab only: never in a URL, and
 * in no storage that outlives the tab.
 */

const KEPT = "tidings console";

/**
 * @typedef {"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} Method
 * @typedef {{key: string, tenant: string | null}} Credentials - Without a tenant, the key is the root key.
 */

/** The server declined a request. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {any} problem
   */
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered with status ${status}.`);
    this.status = status;
    this.code = problem.code ?? "";
  }
}

export class Server {
  #key;

  /** @param {Credentials} credentials */
  constructor({ key, tenant }) {
    this.#key = key;
    /** The tenant of the key; null for the root key. */
    this.tenant = tenant;
  }

  get isRoot() {
    return this.tenant === null;
  }

  /**
   * @param {Method} method
   * @param {string} path
   * @param {object} [body]
   * @returns {Promise<any>}
   */
  async ask(method, path, body) {
    const answer = await this.#fetch(method, path, body);
    return answer.status === 204 ? null : answer.json();
  }

  /**
   * @param {string} path
   * @param {Record<string, string | number | null | undefined>} [query]
   * @returns {Promise<any>}
   */
  get(path, query = {}) {
    const given = Object.entries(query).filter(([, value]) => value || value === 0);
    const text = new URLSearchParams(
      given.map(([name, value]) => [name, String(value)]),
    ).toString();
    return this.ask("GET", text ? `${path}?${text}` : path);
  }

  /** @param {string} path */
  async text(path) {
    return (await this.#fetch("GET", path)).text();
  }

  /** @param {string} path */
  async blob(path) {
    return (await this.#fetch("GET", path)).blob();
  }

  /**
   * @param {Method} method
   * @param {string} path
   * @param {object} [body]
   */
  async #fetch(method, path, body) {
    /** @type {Record<string, string>} */
    const headers = { authorization: `Bearer ${this.#key}` };
    if (body) headers["content-type"] = "application/json";
    const answer = await fetch(path, {
      method,
      headers,
      cache: "no-store",
      ...(body ? { body: JSON.stringify(body) } : {}),
    }).catch(() => {
      throw new Refused(0, { detail: "The server does not answer." });
    });
    if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
    return answer;
  }
}

/** Return the server with the key of this tab; null if there is none. */
export function kept() {
  try {
    const credentials = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
    return credentials ? new Server(credentials) : null;
  } catch {
    return null;
  }
}

/**
 * Try a key, and keep it for this tab.
 *
 * @param {string} key
 * @param {string} tenant
 */
export async function signIn(key, tenant) {
  const credentials = { key, tenant: isTenantKey(key) ? tenant : null };
  const server = new Server(credentials);
  if (server.isRoot) await server.get("/v1/tenants", { limit: 1 });
  else await server.get(`/v1/tenants/${encodeURIComponent(tenant)}`);
  sessionStorage.setItem(KEPT, JSON.stringify(credentials));
  return server;
}

/** @param {string} key */
export const isTenantKey = (key) => key.startsWith("sk_");

export const signOut = () => sessionStorage.removeItem(KEPT);
