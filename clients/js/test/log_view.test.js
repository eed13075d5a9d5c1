// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";

import { LogView } from "../src/log_view.js";
import { message, randomFrom } from "./support.js";

/** @param {import("../src/log_view.js").Step[]} steps */
const applied = (steps) =>
  steps.map((step) => (step.step === "apply" ? step.entry.sequence : step.step));

test("entries are applied in order, and each one once", () => {
  const view = new LogView([["c", 4]]);
  assert.deepEqual(applied(view.take(message(5))), [5]);
  assert.deepEqual(applied(view.take(message(5))), []);
  assert.deepEqual(applied(view.take(message(4))), []);
  assert.deepEqual(view.have(), { c: 5 });
});

test("what is missing before an entry is fetched, and the entry is kept", () => {
  const view = new LogView([["c", 4]]);
  assert.deepEqual(applied(view.take(message(7))), []);
  assert.deepEqual([...view.wants()], [{ chat: "c", after: 4 }]);
  assert.deepEqual([...view.wants()], [], "a want is yielded once");
  const steps = view.page({ chat: "c", after: 4 }, [message(5), message(6)], 7);
  assert.deepEqual(applied(steps), [5, 6, 7]);
  assert.deepEqual([...view.wants()], []);
});

test("a chat without entries begins with the first one that arrives", () => {
  const view = new LogView([]);
  assert.deepEqual(applied(view.take(message(12))), [12]);
  assert.deepEqual(view.have(), { c: 12 });
});

test("an own message waits for the entries before it, which are requested when it settles", () => {
  const view = new LogView([["c", 4]]);
  assert.deepEqual(applied(view.takeOwn(message(6))), []);
  assert.deepEqual([...view.wants()], []);
  view.settle();
  assert.deepEqual([...view.wants()], [{ chat: "c", after: 4 }]);
  assert.deepEqual(applied(view.take(message(5))), [5, 6]);
});

test("resync loads the newest page, and the log begins again there", () => {
  const view = new LogView([["c", 4]]);
  view.resync("c", 900);
  assert.deepEqual([...view.wants()], [{ chat: "c", before: 901 }]);
  const steps = view.page({ chat: "c", before: 901 }, [message(899), message(900)], 900);
  assert.deepEqual(applied(steps), ["restart", 899, 900]);
  assert.equal(view.at("c"), 900);
});

test("in a new epoch nothing is valid, and a chat that is not named is gone", () => {
  const view = new LogView([
    ["c", 4],
    ["d", 9],
  ]);
  view.restarted();
  assert.deepEqual(view.have(), {});
  assert.deepEqual(applied(view.named("c", 3)), ["restart"]);
  assert.equal(view.at("c"), 3);
  assert.deepEqual(view.live(), [{ step: "forget", chat: "d" }]);
});

test("a page without entries is asked for again only after a while", () => {
  const view = new LogView([["c", 4]]);
  view.take(message(9));
  const [want] = view.wants();
  assert.ok(want);
  assert.deepEqual(view.page(want, [], 9), []);
  assert.deepEqual([...view.wants()], []);
  view.settle();
  assert.deepEqual([...view.wants()], [{ chat: "c", after: 4 }]);
});

test("any order of frames, pages, losses and repeats gives the whole log once", () => {
  for (let seed = 1; seed <= 300; seed += 1) {
    const random = randomFrom(seed);
    const head = 40;
    const view = new LogView([["c", 0]]);
    /** @type {number[]} */
    const seen = [];
    /** @param {import("../src/log_view.js").Step[]} steps */
    const note = (steps) =>
      seen.push(...steps.flatMap((step) => (step.step === "apply" ? [step.entry.sequence] : [])));
    for (let turn = 0; turn < 200 && seen.length < head; turn += 1) {
      const choice = random();
      if (choice < 0.6) note(view.take(message(1 + Math.floor(random() * head))));
      else if (choice < 0.7) note(view.takeOwn(message(1 + Math.floor(random() * head))));
      else if (choice < 0.75) view.lost();
      else if (choice < 0.8) view.settle();
      else {
        for (const want of view.wants()) {
          if (random() < 0.2) view.unanswered(want);
          else {
            const from = (want.after ?? 0) + 1;
            const page = Array.from({ length: Math.floor(random() * 6) }, (_, i) =>
              message(from + i),
            );
            note(
              view.page(
                want,
                page.filter((entry) => entry.sequence <= head),
                head,
              ),
            );
          }
        }
      }
    }
    assert.deepEqual(
      seen,
      seen.map((_, index) => index + 1),
      `seed ${seed}`,
    );
  }
});
