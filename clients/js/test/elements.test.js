// SPDX-License-Identifier: Apache-2.0
/** What the elements decide without a page: texts, links, the window of a long list. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Dialogs } from "../elements/dialogs.js";
import { marked, mentionsIn } from "../elements/mentions.js";
import { messageRow } from "../elements/message_row.js";
import { highlighted } from "../elements/search.js";
import { english } from "../elements/strings.js";
import { inboxEnglish } from "../elements/strings_inbox.js";
import { moreEnglish } from "../elements/strings_more.js";
import { arabic } from "../elements/strings_ar.js";
import { german } from "../elements/strings_de.js";
import { brief, day, duration, filled, isEmojiOnly, linked, said } from "../elements/text.js";
import { found, Heights, slide, WINDOW_ROWS, WINDOW_ROWS_MAX } from "../elements/window.js";

const inEnglish = { ...english, locale: "en" };

// Texts.

test("every language has the texts of English, with the same values in them", () => {
  const values = (text) => [...text.matchAll(/\{\w+\}/g)].map(String).sort();
  for (const strings of [german, arabic]) {
    const all = { ...english, ...moreEnglish, ...inboxEnglish };
    assert.deepEqual(Object.keys(strings).sort(), Object.keys(all).sort());
    for (const [name, text] of Object.entries(all)) {
      assert.deepEqual(values(strings[name]), values(text), name);
    }
  }
});

test("the files of a message are listed with their sizes, until its content is gone", () => {
  const attachments = [{ attachment_id: "a", name: "plan.pdf", content_type: "x/y", size: 1_200 }];
  const row = {
    chat: "c",
    sequence: 2,
    kind: "message",
    sender: "bob",
    at: 0,
    asOf: 2,
    attachments,
  };
  let asked = 0;
  const shown = (/** @type {object} */ more) =>
    JSON.stringify(
      messageRow(
        /** @type {any} */ ({ files: { value: null }, showFiles: () => (asked += 1) }),
        /** @type {any} */ ({ row: { ...row, ...more }, strings: inEnglish, status: "sent" }),
      ),
    );
  assert.match(shown({ content: "" }), /plan\.pdf.*2 kB/);
  assert.equal(asked, 1, "what shows them is loaded");
  assert.doesNotMatch(shown({ gone: "redacted", attachments: undefined }), /plan\.pdf/);
});

test("values are put where a text wants them", () => {
  assert.deepEqual(filled("{who} added {users}", { who: "A", users: "B" }), [
    "",
    "A",
    " added ",
    "B",
    "",
  ]);
  assert.equal(said("Unread: {n}", { n: 3 }), "Unread: 3");
});

const hrefs = (text) => linked(text).flatMap((part) => part.props?.href ?? []);

test("only https is a link, without the point after it", () => {
  assert.deepEqual(hrefs("See https://example.com/a?b=1#c."), ["https://example.com/a?b=1#c"]);
  assert.deepEqual(hrefs("http://example.com javascript:alert(1) ftp://x data:text/html,x"), []);
  assert.deepEqual(hrefs('<a href="https://example.com">'), ["https://example.com"]);
});

test("all of a text is shown, with its links", () => {
  const text = "a https://example.com/x, b https://example.org c";
  const shown = linked(text).map((part) => (typeof part === "string" ? part : part.children[0]));
  assert.equal(shown.join(""), text);
});

test("a link whose host is not what it looks like shows the host", () => {
  const [, host] = linked("https://еxample.com/");
  assert.match(String(host.children), /xn--/);
  const { props, children } = linked("https://example.com@evil.example/x").at(-1);
  assert.deepEqual([props.dir, children], ["ltr", [" (evil.example)"]]);
});

test("signs that turn text around end a link", () => {
  assert.deepEqual(hrefs("https://example.com/\u202egpj.exe"), ["https://example.com/"]);
});

test("a few emoji alone are shown big", () => {
  for (const text of ["👍", "👍🏽 🎉", "👨‍👩‍👧", "❤️", "🇩🇪"]) assert.ok(isEmojiOnly(text), text);
  for (const text of ["", " ", "a👍", "1", undefined]) assert.ok(!isEmojiOnly(text), text);
});

test("days and times are as short as they can be", () => {
  const now = new Date(2026, 10, 16, 12).getTime();
  const before = (days) => new Date(2026, 10, 16 - days, 9, 5).getTime();
  assert.equal(day(before(0), now, inEnglish), "Today");
  assert.equal(day(before(1), now, inEnglish), "Yesterday");
  assert.match(day(before(9), now, inEnglish), /November 7, 2026/);
  assert.match(brief(before(0), now, inEnglish), /09:05/);
  assert.equal(brief(before(2), now, inEnglish), "Sat");
  assert.equal(duration(299, inEnglish), "4 min");
  assert.equal(duration(30, inEnglish, "long"), "30 seconds");
  assert.equal(duration(-3, inEnglish), "0 sec");
});

// Mentions.

const PEOPLE = /** @type {const} */ ([
  ["bob", "Bob"],
  ["bobby", "Bob Miller"],
  ["ana", "Ana"],
  ["ana2", "Ana"],
  ["*", "everyone"],
]);

test("a text mentions whose names it has, the longest that fits, and not inside of words", () => {
  const none = new Map();
  assert.deepEqual(mentionsIn("@Bob, and (@Bob Miller)!", PEOPLE, none), ["bob", "bobby"]);
  assert.deepEqual(mentionsIn("me@Bob @Bobo @bob Bob", PEOPLE, none), []);
  assert.deepEqual(mentionsIn("@Bob and @everyone", PEOPLE, none), ["*"]);
});

test("of two people with one name, the one is meant who was chosen, or both", () => {
  assert.deepEqual(mentionsIn("@Ana", PEOPLE, new Map()), ["ana", "ana2"]);
  assert.deepEqual(mentionsIn("@Ana", PEOPLE, new Map([["Ana", "ana2"]])), ["ana2"]);
  assert.deepEqual(mentionsIn("@Ana", PEOPLE, new Map([["Ana", "gone"]])), ["ana", "ana2"]);
});

test("mentions are marked, and the text around them stays", () => {
  const parts = marked(linked("Hi @Bob, https://a.example/@Bob"), ["Bob"]);
  const tags = parts.map((part) => (typeof part === "string" ? part : part.tag));
  assert.deepEqual(tags, ["Hi ", "mark", ", ", "a"]);
  assert.deepEqual(marked(["Hi @Bob"], []), ["Hi @Bob"]);
});

test("hits are marked by their place in code points, and a long way before them is left out", () => {
  const shown = (parts) => parts.map((part) => (part.tag ? `[${part.children.join("")}]` : part));
  assert.deepEqual(
    shown(
      highlighted("🍜 at one", [
        [0, 1],
        [5, 8],
      ]),
    ).join(""),
    "[🍜] at [one]",
  );
  const [dots, lead] = shown(highlighted(`${"a".repeat(100)}b`, [[100, 101]]));
  assert.deepEqual([dots, lead], ["…", "a".repeat(30)]);
});

// The window.

test("a short list is in the page as a whole", () => {
  assert.deepEqual(slide(120, null, 0, 10), { from: 0, to: 120 });
});

test("the window does not move while what is seen is far from its edges", () => {
  const old = { from: 100, to: 300 };
  assert.equal(slide(1_000, old, 180, 195), old);
  assert.deepEqual(slide(1_000, old, 140, 155), { from: 47, to: 247 });
});

test("a list that grows while its end is seen grows in the page, up to the limit", () => {
  let range = slide(200, null, 185, 199);
  for (let count = 201; count <= 1_000; count += 1) {
    range = slide(count, range, count - 15, count - 1);
    assert.equal(range.to, count);
    assert.ok(range.to - range.from <= WINDOW_ROWS_MAX);
    assert.ok(range.to - range.from >= WINDOW_ROWS);
  }
});

test("wherever somebody looks in a long list, the page has it, and never too much", () => {
  let range = null;
  for (const at of [0, 99_999, 50_000, 3, 60_000, 59_950, 60_040]) {
    range = slide(100_000, range, at, Math.min(99_999, at + 15));
    assert.ok(range.from <= at && at < range.to);
    assert.ok(range.to - range.from <= WINDOW_ROWS_MAX);
  }
});

test("a window is found again after rows were added before it, and lost with its rows", () => {
  assert.deepEqual(found(["x", "y", "a", "b", "c"], "a", "b"), { from: 2, to: 4 });
  assert.equal(found(["x", "y"], "a", "b"), null);
  assert.equal(found([], undefined, undefined), null);
});

test("rows that are not in the page take the room that they took, or the average", () => {
  const heights = new Heights();
  assert.equal(heights.of(["a"]), 56);
  heights.set("a", 100);
  heights.set("b", 50);
  heights.set("b", 60);
  assert.equal(heights.of(["a", "b", "c"]), 240);
  for (let row = 0; row < 1_000; row += 1) heights.set(`r${row}`, 10);
  heights.keep(["a"]);
  assert.equal(heights.of(["a", "b"]), 200);
});

// Dialogs.

test("a dialog shows the members of its own chat, and the readers of its own message", async () => {
  /** @type {Record<string, (answer: any) => void>} */
  const answers = {};
  const request = (_, path) => new Promise((resolve) => (answers[path] = resolve));
  const record = () => ({ role: "owner", name: "" });
  const people = { nameOf: (/** @type {string} */ user) => user };
  const tidings = { request, user: "me", chats: { record } };
  const element = { tidings, people, view: null, strings: inEnglish, update: () => {} };
  const dialogs = new Dialogs(/** @type {any} */ (element));
  const shown = () => JSON.stringify(dialogs.describe());

  for (const chat of ["a", "b"]) dialogs.show({ kind: "members", chat });
  for (const chat of ["b", "a"]) {
    answers[`/v1/chats/${chat}/members`]({ data: [{ user_id: `of-${chat}`, role: "member" }] });
    await new Promise((resolve) => setTimeout(resolve));
  }
  assert.match(shown(), /of-b/);
  assert.doesNotMatch(shown(), /of-a/);

  const rows = [1, 2].map((sequence) => /** @type {any} */ ({ chat: "a", sequence }));
  for (const row of rows) dialogs.show({ kind: "info", row });
  for (const { sequence } of rows.reverse()) {
    const path = `/v1/chats/a/messages/${sequence}`;
    answers[`${path}/receipts?limit=100`]({
      data: [{ user_id: `reader-${sequence}`, read: true }],
    });
    answers[`${path}/reactions`]({ data: [] });
    await new Promise((resolve) => setTimeout(resolve));
  }
  assert.match(shown(), /reader-2/);
  assert.doesNotMatch(shown(), /reader-1/);
});
