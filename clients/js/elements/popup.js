// SPDX-License-Identifier: Apache-2.0
/** Where a menu or a small form is shown, and how the arrow keys move through it. */

const GAP_PX = 8;

let count = 0;

/**
 * Return the menu that is to be open, with a key of its own: a popover that was closed stays so. A
 * click on what opened the last menu only closes it.
 *
 * @template {{anchor: HTMLElement}} M
 * @param {M | null} menu
 * @param {M | null} last - The menu that was open until now.
 * @returns {(M & {key: string}) | null}
 */
export function opening(menu, last) {
  if (!menu || menu.anchor === last?.anchor) return null;
  count += 1;
  return { ...menu, key: `menu ${count}` };
}

/**
 * Show a menu beside what it belongs to, inside the window.
 *
 * @param {HTMLElement} menu
 * @param {HTMLElement} anchor
 */
export function show(menu, anchor) {
  if (!menu.isConnected) return;
  const at = anchor.getBoundingClientRect();
  menu.showPopover();
  const { width, height } = menu.getBoundingClientRect();
  const isRight = at.left + at.width / 2 > innerWidth / 2;
  const left = isRight ? at.right - width : at.left;
  const below = at.bottom + GAP_PX / 2;
  const top = below + height > innerHeight ? at.top - height - GAP_PX / 2 : below;
  menu.style.left = `${Math.max(GAP_PX, Math.min(innerWidth - width - GAP_PX, left))}px`;
  menu.style.top = `${Math.max(GAP_PX, Math.min(innerHeight - height - GAP_PX, top))}px`;
  /** @type {HTMLElement | null} */ (menu.querySelector("input, button"))?.focus();
}

/** Move through the menu with the arrow keys. @param {any} event */
export function step(event) {
  const items = [...event.currentTarget.querySelectorAll("button")];
  const at = items.indexOf(event.target);
  const forward = ["ArrowDown", "ArrowRight"].includes(event.key);
  const to = forward ? at + 1 : ["ArrowUp", "ArrowLeft"].includes(event.key) ? at - 1 : null;
  if (to === null) return;
  event.preventDefault();
  items.at(to % items.length)?.focus();
}
