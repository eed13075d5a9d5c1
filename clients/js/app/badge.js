// SPDX-License-Identifier: Apache-2.0
/** Show how much is unread outside of the page: in its title, its icon and the app's badge. */

/** @typedef {import("../src/tidings.js").Tidings} Tidings */

/**
 * @param {Tidings} tidings
 * @param {() => string | undefined} title - Returns what is open.
 */
export function showUnread(tidings, title) {
  const show = () => {
    const { total } = tidings.unread.snapshot();
    const open = title();
    const page = open ? `${open} · Tidings` : "Tidings";
    document.title = total ? `(${total}) ${page}` : page;
    const link = /** @type {HTMLLinkElement | null} */ (document.querySelector('link[rel="icon"]'));
    const icon = total ? "./icon-unread.svg" : "./icon.svg";
    if (link) link.href = new URL(icon, import.meta.url).href;
    // Only an installed app has a badge; elsewhere this is refused.
    void navigator.setAppBadge?.(total).catch(() => {});
  };
  tidings.unread.subscribe(show);
  tidings.chats.subscribe(show);
  addEventListener("tidings-open", () => setTimeout(show));
  show();
}
