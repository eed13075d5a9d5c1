// SPDX-License-Identifier: Apache-2.0
/** The view helper: what is described is what the page looks like, with as little change as can be. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { gathered, h, render } from "../elements/view.js";
import { FakeElement, install, moves, shown } from "./dom.js";

install();
let root = new FakeElement("root");

beforeEach(() => {
  root = new FakeElement("root");
});

const show = (...children) => {
  moves.length = 0;
  render(root, ...children);
  return root.childNodes.map(shown).join("");
};

test("text is text, whatever it looks like", () => {
  assert.equal(show(h("p", null, "<b>&amp;")), "<p><b>&amp;</p>");
  assert.equal(root.childNodes[0].childNodes.length, 1);
});

test("what is not there is left out", () => {
  assert.equal(show(h("p", null, null, false, undefined, ["a", [0]])), "<p>a0</p>");
});

test("an element is kept, and its text, attributes and listeners change", () => {
  show(h("p", { class: "a", "aria-label": "x", title_: "y" }, "one"));
  const [kept] = root.childNodes;
  assert.equal(show(h("p", { class: "b" }, "two")), '<p class="b">two</p>');
  assert.equal(root.childNodes[0], kept);
  assert.deepEqual(moves, []);
});

test("an element of another kind is made anew", () => {
  show(h("p", null, "one"));
  const [old] = root.childNodes;
  assert.equal(show(h("div", null, "one")), "<div>one</div>");
  assert.notEqual(root.childNodes[0], old);
});

test("what is left out goes, and what comes after it stays", () => {
  const page = (isOffline, isBusy) => [
    isOffline && h("p", null, "offline"),
    h("div", null, "frame"),
    h("p", null, "notice"),
    isBusy ? h("i", null, "busy") : null,
    h("ul", { key: "list" }),
    h("section", null, "panel"),
  ];
  show(page(true, true));
  const [, frame, notice, , list, panel] = root.childNodes;
  assert.equal(
    show(page(false, false)),
    "<div>frame</div><p>notice</p><ul></ul><section>panel</section>",
  );
  assert.deepEqual([...root.childNodes], [frame, notice, list, panel]);
  show(page(true, false));
  assert.deepEqual([...root.childNodes].slice(1), [frame, notice, list, panel]);
});

test("a row that goes does not move the others", () => {
  const list = (...keys) => keys.map((key) => h("li", { key }, key));
  show(list("a", "b", "c", "d"));
  const [, b] = root.childNodes;
  assert.equal(show(list("b", "c", "d")), "<li>b</li><li>c</li><li>d</li>");
  assert.equal(root.childNodes[0], b);
  assert.deepEqual(moves, []);
});

test("a row that comes to the front moves alone", () => {
  const list = (...keys) => keys.map((key) => h("li", { key }, key));
  show(list("a", "b", "c"));
  const [, , c] = root.childNodes;
  assert.equal(show(list("c", "a", "b")), "<li>c</li><li>a</li><li>b</li>");
  assert.deepEqual(moves, [c]);
});

test("the same key twice makes two rows", () => {
  const twice = [h("li", { key: "a" }, "1"), h("li", { key: "a" }, "2")];
  assert.equal(show(twice), "<li>1</li><li>2</li>");
  assert.equal(show([...twice]), "<li>1</li><li>2</li>");
});

test("rows with keys and without live beside each other", () => {
  show(h("p", null, "x"), h("li", { key: "a" }));
  assert.equal(show(h("li", { key: "a" }), h("p", null, "x")), "<li></li><p>x</p>");
});

test("an element that is described by the same object is not looked at again", () => {
  const same = h("p", null, "one");
  show(same);
  const [node] = root.childNodes;
  node.childNodes[0].nodeValue = "changed";
  assert.equal(show(same), "<p>changed</p>");
});

test("a field keeps what was typed until another value is wanted", () => {
  const set = [];
  const field = (value) => h("input", { value });
  show(field("a"));
  const [node] = root.childNodes;
  Object.defineProperty(node, "value", { get: () => "a", set: (value) => set.push(value) });
  show(field("a"));
  assert.deepEqual(set, []);
  show(field("b"));
  assert.deepEqual(set, ["b"]);
});

test("ref is called once, with the element", () => {
  const seen = [];
  const ref = (node) => seen.push(node);
  show(h("p", { ref }));
  show(h("p", { ref }));
  assert.deepEqual(seen, [root.childNodes[0]]);
});

test("drawings are set by attributes", () => {
  assert.equal(show(h("svg", { viewBox: "0 0 1 1" })), '<svg viewBox="0 0 1 1"></svg>');
});

test("many changes make one update, in the next frame or at once in a hidden page", async () => {
  const frames = [];
  globalThis.requestAnimationFrame = (next) => frames.push(next);
  let count = 0;
  const update = gathered(() => (count += 1));
  update();
  update();
  assert.equal(frames.length, 1);
  frames[0]();
  assert.equal(count, 1);
  update();
  document.hidden = true;
  update();
  update();
  await Promise.resolve();
  document.hidden = false;
  assert.equal(count, 2, "what waits for a frame does not hold up a hidden page");
});
