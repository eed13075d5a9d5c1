// SPDX-License-Identifier: Apache-2.0
/** What the console shows when answers come late, twice, or after something else was chosen. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { h, render } from "../elements/view.js";
import { FakeElement, install } from "./dom.js";

install();
const { DeadLettersScreen } = await import("../console/dead_letters.js");
const { keyed, table } = await import("../console/parts.js");
const { Pages } = await import("../console/screen.js");
const { Refused } = await import("../console/server.js");
const { TracedScreen } = await import("../console/trace.js");

/** A page around a screen, whose server answers when the test says so. */
function desk() {
  const asked = /** @type {any[]} */ ([]);
  const get = (path, query) =>
    new Promise((resolve, reject) => asked.push({ path, query, resolve, reject }));
  const made = {
    asked,
    updates: 0,
    server: { get, ask: get },
    update: () => void (made.updates += 1),
    say: () => {},
    shows: () => true,
  };
  return /** @type {any} */ (made);
}

/** Pages of which the first is there. */
async function opened(at) {
  const pages = new Pages(at, "/v1/tenants/acme/users");
  const loaded = pages.load();
  at.asked.shift().resolve({ data: ["0"], next_cursor: "1" });
  await loaded;
  return pages;
}

/** The texts of everything below a description, in order. */
const texts = (node) =>
  typeof node === "string" ? [node] : [node].flat(Infinity).flatMap(inside).filter(Boolean);
const inside = (node) =>
  typeof node === "string" ? [node] : node ? texts(node.children ?? node) : [];

/** The description of a button with this text. */
function button(node, text) {
  if (!node || typeof node === "string") return null;
  if (Array.isArray(node)) {
    for (const one of node) {
      const found = button(one, text);
      if (found) return found;
    }
    return null;
  }
  if (node.tag === "button" && texts(node).join("") === text) return node;
  return button(node.children, text);
}

test("a click on More that comes twice shows the next page once", async () => {
  const at = desk();
  const pages = await opened(at);
  const both = [pages.more(), pages.more()];
  assert.equal(at.updates, 1); // the button is gone meanwhile
  assert.equal(at.asked.length, 1);
  at.asked[0].resolve({ data: ["1"], next_cursor: null });
  await Promise.all(both);
  assert.deepEqual([pages.rows, pages.hasMore], [["0", "1"], false]);
});

test("a late page does not land under another choice, nor under a list that has moved", async () => {
  const at = desk();
  const pages = await opened(at);
  const late = pages.more();
  const [asked] = at.asked.splice(0);
  pages.choose({ prefix: "b" });
  const loaded = pages.load();
  at.asked.shift().resolve({ data: ["b0"], next_cursor: "b1" });
  await loaded;
  asked.resolve({ data: ["1"], next_cursor: "2" });
  await late;
  assert.deepEqual(pages.rows, ["b0"]);

  const moved = pages.more();
  const again = pages.load();
  const [next, first] = at.asked.splice(0);
  first.resolve({ data: ["new"], next_cursor: "b0" });
  await again;
  next.resolve({ data: ["b1"], next_cursor: null });
  for (const data of [["new"], ["b0"]]) {
    await new Promise((resolve) => setImmediate(resolve));
    at.asked.shift().resolve({ data, next_cursor: "more" });
  }
  await moved;
  assert.deepEqual(pages.rows, ["new", "b0"]);
});

test("what went wrong with a page of another choice is not said", async () => {
  const at = desk();
  const pages = await opened(at);
  const late = pages.more();
  pages.choose({ prefix: "b" });
  at.asked[0].reject(new Error("no"));
  await late;
  assert.deepEqual(texts(pages.foot()), ["More"]);
});

test("steps of a trace that are asked for twice are shown once", async () => {
  const at = desk();
  const screen = new TracedScreen(at, { tenant: "acme", what: "ann" });
  const both = [screen.load(), screen.load()];
  const step = { at: "2026-01-01T00:00:00.000Z", what: "sent", where: "server 1" };
  for (const { resolve } of at.asked) resolve({ data: [step], next_cursor: "1", complete: true });
  await Promise.all(both);
  assert.equal(texts(screen.render()).filter((text) => text === "sent").length, 1);
});

test("a row stays its own when another one comes before it", () => {
  const body = new FakeElement("body");
  const rows = (...names) =>
    table(
      "Rows",
      ["Name"],
      names.map((name) => keyed(name, [name])),
    );
  const element = () => body.childNodes[0].childNodes[1].childNodes.at(-1);
  render(body, rows("a"));
  const row = element();
  render(body, rows("b", "a"));
  assert.equal(element(), row);
  render(body, h("p"));
});

/** The dead letters, of these reasons. */
async function deadLetters(at, ...reasons) {
  const screen = new DeadLettersScreen(at, {});
  await reloaded(at, screen, ...reasons);
  return screen;
}

async function reloaded(at, screen, ...reasons) {
  const data = reasons.map((reason, number) => ({
    id: `job ${number}`,
    tenant: "acme",
    inbox: "news",
    users: ["ann"],
    reason,
    set_aside_at: "2026-01-01T00:00:00Z",
  }));
  const loaded = screen.load();
  at.asked.shift().resolve({ data, next_cursor: null });
  await loaded;
}

test("a reason of dead letters is forgotten with the last of them", async () => {
  const at = desk();
  const screen = await deadLetters(at, "slow", "broken");
  button(screen.render(), "broken").props.onclick();
  assert(!texts(screen.render()).includes("job 0"));
  await reloaded(at, screen, "slow", "slow");
  assert(texts(screen.render()).includes("job 0"));
});

test("many dead letters are replayed from where it failed, and where it was stopped is said", async () => {
  const at = desk();
  const screen = await deadLetters(at, "slow", "slow", "slow");
  const questions = /** @type {any[]} */ ([]);
  at.ask = async (question) => (questions.push(question), false);
  button(screen.render(), "Replay 3").props.onclick();
  const [{ act, title }] = questions;
  assert.equal(title, "Replay 3 jobs");
  const left = new AbortController();

  const failed = assert.rejects(act({}, left.signal), { message: "Busy. 1 of 3 jobs done." });
  const answer = async (settle) => {
    settle(at.asked.shift());
    await new Promise((resolve) => setImmediate(resolve));
  };
  await answer(({ resolve }) => resolve(null));
  await answer(({ reject }) => reject(new Refused(503, { detail: "Busy." })));
  await failed;

  const stopped = assert.rejects(act({}, left.signal), { message: "Stopped. 1 of 3 jobs done." });
  // Somebody else has replayed the job, or the last answer was lost.
  left.abort();
  await answer(({ reject }) => reject(new Refused(404, {})));
  await stopped;
  assert.deepEqual(at.asked, []);

  const ended = act({}, new AbortController().signal);
  await answer(({ resolve }) => resolve(null));
  assert.equal(await ended, "2 of 3 jobs done. The others were not there any more.");
});
