// SPDX-License-Identifier: Apache-2.0
/**
 * Describe what a part of a page should look like. `view.js` makes the page look like it, and exports
 * this too. Parts of an element that are loaded later need only the description.
 */

/**
 * @typedef {{tag: string, key: string | undefined, props: Record<string, unknown>,
 *   children: Node_[]}} Element_ - A described element.
 * @typedef {Element_ | string} Node_ - A described element or text.
 * @typedef {Node_ | number | boolean | null | undefined | readonly unknown[]} Child
 */

/**
 * Describe an element. Among the props, `key` names it among its siblings, `onclick` and the like
 * are listeners, `ref` is called with the element when it is made, names with a dash are
 * attributes, and so is `class`, `role` and whatever is no property of the element. False and null
 * leave an attribute out. An element that is described by the same object again is left alone.
 *
 * @param {string} tag
 * @param {Record<string, unknown> | null} [props]
 * @param {...Child} children
 * @returns {Element_}
 */
export function h(tag, props, ...children) {
  const { key: name, ...rest } = props ?? {};
  const key = name === undefined ? undefined : String(name);
  return { tag, key, props: rest, children: flat(children) };
}

/**
 * Return a listener for clicks that leaves out the second one of a double click: the next entry of a
 * list may be under the pointer by then.
 *
 * @param {() => void} work
 */
export const once = (work) => (/** @type {any} */ event) => {
  if (event.detail < 2) work();
};

/**
 * @param {Child[]} children
 * @returns {Node_[]}
 */
export const flat = (children) =>
  /** @type {any[]} */ (children)
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && typeof child !== "boolean")
    .map((child) => (typeof child === "object" ? child : String(child)));
