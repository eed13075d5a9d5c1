// SPDX-License-Identifier: Apache-2.0
/**
 * Describe what a part of a page should look like, and change the page to look like it.
 *
 * `h` describes an element, `render` makes the children of a node what they are described to be.
 * It keeps the nodes that are still wanted, so that focus, selection and scrolling survive. Text is
 * always set as text, never parsed.
 */

/**
 * @typedef {{tag: string, key: string | undefined, props: Record<string, unknown>,
 *   children: Node_[]}} Element_ - A described element.
 * @typedef {Element_ | string} Node_ - A described element or text.
 * @typedef {Node_ | number | boolean | null | undefined | readonly unknown[]} Child
 */

/** The description that a node was last made from. */
const DESCRIPTION = new WeakMap();

/**
 * Describe an element. Among the props, `key` names it among its siblings, `onclick` and the like
 * are listeners, `ref` is called with the element when it is made, names with a dash are
 * attributes, and so is `class`, `role` and whatever is no property of the element. False and null
 * leave an attribute out.
 *
 * @param {string} tag
 * @param {Record<string, unknown> | null} [props]
 * @param {...Child} children
 * @returns {Element_}
 */
export function h(tag, props, ...children) {
  const { key, ...rest } = props ?? {};
  return {
    tag,
    key: key === undefined ? undefined : String(key),
    props: rest,
    children: flat(children),
  };
}

/**
 * @param {Child[]} children
 * @returns {Node_[]}
 */
const flat = (children) =>
  /** @type {any[]} */ (children)
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && typeof child !== "boolean")
    .map((child) => (typeof child === "object" ? child : String(child)));

/**
 * Make the children of a node what they are described to be.
 *
 * @param {ParentNode & Node} parent
 * @param {...Child} children
 */
export function render(parent, ...children) {
  const wanted = flat(children);
  const keyed = new Map();
  for (const node of parent.childNodes) {
    const key = DESCRIPTION.get(node)?.key;
    if (key !== undefined) keyed.set(key, node);
  }
  let next = parent.firstChild;
  for (const child of wanted) {
    const key = typeof child === "string" ? undefined : child.key;
    const old = key === undefined ? next : (keyed.get(key) ?? null);
    const node = fits(old, child) ? update(/** @type {Node} */ (old), child) : make(child);
    if (node === next) next = next?.nextSibling ?? null;
    else parent.insertBefore(node, next);
  }
  while (next) {
    const after = next.nextSibling;
    parent.removeChild(next);
    next = after;
  }
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
  const element = document.createElement(child.tag);
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
  if (name === "ref") return;
  if (name.startsWith("on")) element[name] = value ?? null;
  else if (isProperty(element, name)) {
    // A field that somebody types into must not lose its cursor.
    if (element[name] !== (value ?? "")) element[name] = value ?? "";
  } else if (value === null || value === undefined || value === false)
    element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

/**
 * @param {any} element
 * @param {string} name
 */
const isProperty = (element, name) =>
  name in element &&
  !name.includes("-") &&
  !["role", "class", "part", "list", "hidden"].includes(name);

/**
 * Return a function that asks for an update, which is made once before the next frame.
 *
 * @param {() => void} update
 */
export function gathered(update) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    // A hidden page has no frames, but its title and badge are still seen.
    const later = globalThis.document?.hidden ? queueMicrotask : requestAnimationFrame;
    later(() => {
      isAsked = false;
      update();
    });
  };
}
