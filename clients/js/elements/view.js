// SPDX-License-Identifier: Apache-2.0
/**
 * Describe what a part of a page should look like, and change the page to look like it. `h`
 * describes an element, `render` makes the children of a node what they are described to be. Nodes
 * that are still wanted stay, with focus, selection and scrolling. Text is set as text, never parsed.
 */

import { flat } from "./describe.js";

export { h, once } from "./describe.js";

/** @typedef {import("./describe.js").Child} Child */
/** @typedef {import("./describe.js").Element_} Element_ */
/** @typedef {import("./describe.js").Node_} Node_ */

/** The description that a node was last made from. */
const DESCRIPTION = new WeakMap();
const SVG = new Set(["svg", "path", "circle"]);
/** What is an attribute although elements have a property of this name. */
const ATTRIBUTES = new Set("role class part list hidden popover dir slot alt".split(" "));

/**
 * Make the children of a node what they are described to be.
 *
 * @param {ParentNode & Node} parent
 * @param {...Child} children
 */
export function render(parent, ...children) {
  const wanted = flat(children);
  const keyed = leave(parent, wanted);
  let next = parent.firstChild;
  // If something was left out, it goes, and what comes after it stays.
  let spare = parent.childNodes.length - wanted.length;
  for (const child of wanted) {
    const key = typeof child === "string" ? undefined : child.key;
    for (; spare > 0 && key === undefined && next && !keyOf(next) && !fits(next, child); spare--) {
      const { nextSibling } = next;
      parent.removeChild(next);
      next = nextSibling;
    }
    const old = key === undefined ? next : (keyed.get(key) ?? null);
    if (key !== undefined) keyed.delete(key);
    if (!fits(old, child)) parent.insertBefore(make(child), next);
    else {
      const node = update(/** @type {Node} */ (old), child);
      if (node === next) next = next?.nextSibling ?? null;
      else move(parent, node, next);
    }
  }
  for (const node of [...parent.childNodes].slice(wanted.length)) parent.removeChild(node);
}

const keyOf = (/** @type {Node} */ node) => DESCRIPTION.get(node)?.key;

/**
 * Remove the nodes whose key is not wanted any more; return the others by key. It comes first, so
 * that the rest of a list does not have to move past them.
 *
 * @param {ParentNode & Node} parent
 * @param {Node_[]} wanted
 * @returns {Map<string, Node>}
 */
function leave(parent, wanted) {
  const keyed = new Map();
  const keys = new Set(wanted.map((child) => (typeof child === "string" ? undefined : child.key)));
  for (const node of [...parent.childNodes]) {
    const key = keyOf(node);
    if (key === undefined) continue;
    if (keys.has(key)) keyed.set(key, node);
    else parent.removeChild(node);
  }
  return keyed;
}

/**
 * Move a node among its siblings. Where the browser can, it keeps focus and scrolling.
 *
 * @param {any} parent
 * @param {Node} node
 * @param {Node | null} next
 */
function move(parent, node, next) {
  if (parent.moveBefore && parent.isConnected) parent.moveBefore(node, next);
  else parent.insertBefore(node, next);
}

/**
 * Return whether a node can become what is described.
 *
 * @param {Node | null} node
 * @param {Node_} child
 */
function fits(node, child) {
  if (!node) return false;
  if (typeof child === "string") return node.nodeType === Node.TEXT_NODE;
  const old = DESCRIPTION.get(node);
  return old?.tag === child.tag && old.key === child.key;
}

/**
 * @param {Node_} child
 * @returns {Node}
 */
function make(child) {
  if (typeof child === "string") return document.createTextNode(child);
  const element = SVG.has(child.tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", child.tag)
    : document.createElement(child.tag);
  update(element, child, true);
  const { ref } = child.props;
  if (typeof ref === "function") ref(element);
  return element;
}

/**
 * @param {Node} node
 * @param {Node_} child
 * @param {boolean} [isNew]
 * @returns {Node}
 */
function update(node, child, isNew = false) {
  if (typeof child === "string") {
    if (node.nodeValue !== child) node.nodeValue = child;
    return node;
  }
  const element = /** @type {HTMLElement} */ (node);
  if (DESCRIPTION.get(element) === child) return element;
  const old = isNew ? {} : DESCRIPTION.get(element).props;
  DESCRIPTION.set(element, child);
  for (const name of Object.keys(old)) if (!(name in child.props)) set(element, name, null);
  for (const [name, value] of Object.entries(child.props)) {
    if (value !== old[name] || name === "value" || name === "checked") set(element, name, value);
  }
  render(element, ...child.children);
  return element;
}

/**
 * @param {any} element
 * @param {string} name
 * @param {unknown} value
 */
function set(element, name, value) {
  const isProperty =
    name in element && !/-/.test(name) && !SVG.has(element.localName) && !ATTRIBUTES.has(name);
  if (name === "ref") return;
  if (name.startsWith("on")) element[name] = value ?? null;
  else if (isProperty) {
    const wanted = value ?? (typeof element[name] === "object" ? null : "");
    // A field that somebody types into must not lose its cursor.
    if (element[name] !== wanted) element[name] = wanted;
  } else if (value === null || value === undefined || value === false)
    element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

/**
 * Return a function that asks for an update, which is made once before the next frame.
 *
 * @param {() => void} update
 */
export function gathered(update) {
  const asked = new Set();
  return () => {
    // A hidden page has no frames, but its title and badge are still seen. A frame that was asked
    // for before the page was hidden does not come, either.
    const later = globalThis.document?.hidden ? queueMicrotask : requestAnimationFrame;
    if (asked.has(later)) return;
    asked.add(later);
    later(() => {
      asked.delete(later);
      update();
    });
  };
}
