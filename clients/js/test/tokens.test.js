// SPDX-License-Identifier: Apache-2.0
/** When the application is asked for a token, and what becomes of it if it does not answer. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { SignedOut, tokenFrom, Unavailable } from "../src/index.js";
import { Rest } from "../src/rest.js";
import { Tokens } from "../src/tokens.js";
import { until } from "./fake_server.js";

/** @param {number} iat @param {number} exp */
const tokenOf = (iat, exp) => `x.${btoa(JSON.stringify({ iat, exp }))}.x`;

test("a token with a short life is renewed in its second half, not every second", async () => {
  let wall = 0;
  let asked = 0;
  const provider = () => {
    asked += 1;
    return tokenOf(wall / 1_000, wall / 1_000 + 20);
  };
  const tokens = new Tokens(provider, () => wall);
  await tokens.current();
  for (wall = 0; wall < 100_000; wall += 500) if (tokens.isOld) await tokens.current();
  assert(asked <= 11, `asked ${asked} times`);
});

test("a clock that is wrong by a day does not change when a token is renewed", async () => {
  const DAY_MS = 86_400_000;
  for (const start of [DAY_MS, -DAY_MS]) {
    let wall = start;
    const tokens = new Tokens(
      () => tokenOf(0, 3_600),
      () => wall,
    );
    await tokens.current();
    wall += 3_500_000;
    assert(!tokens.isOld);
    wall += 50_000;
    assert(tokens.isOld);
  }
});

test("a token that cannot be read is kept until it is refused", async () => {
  let wall = 0;
  const tokens = new Tokens(
    () => "t",
    () => wall,
  );
  await tokens.current();
  wall = 1e12;
  assert(!tokens.isOld);
});

test("requests that are refused together ask for one new token", async () => {
  let asked = 0;
  const tokens = new Tokens(
    () => `t${(asked += 1)}`,
    () => 0,
  );
  /** @type {any} */
  const fetcher = async (/** @type {string} */ _url, /** @type {any} */ { headers }) => {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
    const ok = headers.authorization !== "Bearer t1";
    return { ok, status: ok ? 200 : 401, json: async () => ({}), headers: new Map() };
  };
  const rest = new Rest("http://test", tokens, fetcher);
  await Promise.all([1, 2, 3, 4].map(() => rest.request("GET", "/v1/me")));
  assert.equal(asked, 2);
});

test("a request that is never answered is made again", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  let silent = 0;
  const never = () => new Promise(() => (silent += 1));
  const answers = [never, async () => ({ ok: true, json: never })];
  const here = async () => ({ ok: true, json: async () => "here" });
  /** @type {any} */
  const fetcher = () => (answers.shift() ?? here)();
  const tokens = new Tokens(
    () => "t",
    () => 0,
  );
  const answer = new Rest("http://test", tokens, fetcher).request("GET", "/v1/me");
  for (const times of [1, 2]) {
    await until(() => silent === times);
    context.mock.timers.tick(30_000);
  }
  assert.equal(await answer, "here");
});

test("what is deleted while the page ends is deleted all the same", async () => {
  const kept = /** @type {Record<string, boolean>} */ ({});
  /** @type {any} */
  const fetcher = async (/** @type {string} */ _url, /** @type {any} */ init) => {
    kept[init.method] = init.keepalive;
    return { ok: true, status: 204 };
  };
  const tokens = new Tokens(
    () => "t",
    () => 0,
  );
  const rest = new Rest("http://test", tokens, fetcher);
  for (const method of ["DELETE", "PUT"]) await rest.request(method, "/v1/chats/c/messages/1");
  assert.deepEqual(kept, { DELETE: true, PUT: false });
});

test("an application that never answers is asked again", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  let asked = 0;
  const provider = () => ((asked += 1) === 1 ? new Promise(() => {}) : "t");
  const tokens = new Tokens(provider, () => 0);
  const first = tokens.current();
  context.mock.timers.tick(30_000);
  await assert.rejects(first, Unavailable);
  assert.equal(await tokens.current(), "t");
});

test("a token that could not be renewed is asked for again on the open connection", async () => {
  let wall = 0;
  const answers = [tokenOf(0, 100), new Error("not now"), tokenOf(95, 1_000)];
  const provider = () => {
    const answer = answers.shift();
    if (typeof answer !== "string") throw answer;
    return answer;
  };
  const tokens = new Tokens(provider, () => wall);
  await tokens.current();
  wall = 60_000;
  assert(tokens.isOld);
  await assert.rejects(tokens.current(), /not now/);
  assert(!tokens.isOld, "not at once");
  wall = 95_000;
  assert(tokens.isOld);
  assert.equal(await tokens.current(), tokenOf(95, 1_000));
  assert(!tokens.isOld);
});

test("a backend answers with a token, or says that nobody is signed in", async (context) => {
  const answers = [new Response("t"), new Response("", { status: 401 }), Response.error()];
  context.mock.method(globalThis, "fetch", async () => answers.shift());
  const token = tokenFrom("/token");
  assert.equal(await token(), "t");
  await assert.rejects(token, SignedOut);
  await assert.rejects(token, Unavailable);
});
