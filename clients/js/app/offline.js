// SPDX-License-Identifier: Apache-2.0
/**
 * Keep the list of chats, so that it is there without a network. What was written in them is not
 * kept here: the client keeps that, and deletes it when it must.
 */

/** @typedef {import("../src/tidings.js").Tidings} Tidings */

const SAVE_MS = 1_000;

/**
 * @param {Tidings} tidings
 * @param {string} name - The name of what the browser keeps of the user.
 */
export function keepChats(tidings, name) {
  const key = `tidings chats ${name}`;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let saving;
  const save = () => {
    clearTimeout(saving);
    saving = undefined;
    const kept = tidings.chats.records.map((record) => ({ ...record, last_message: null }));
    try {
      localStorage.setItem(key, JSON.stringify(kept));
    } catch {
      localStorage.removeItem(key); // no room
    }
  };
  tidings.chats.subscribe(() => {
    if (tidings.user && tidings.chats.snapshot().isLoaded) saving ??= setTimeout(save, SAVE_MS);
  });
  addEventListener("pagehide", () => void (saving && save()));
  tidings.on(({ type }) => {
    if (type !== "signed-out") return;
    clearTimeout(saving);
    saving = undefined;
    localStorage.removeItem(key);
  });
}

/**
 * Show the list that was kept, until the server has sent a newer one.
 *
 * @param {Tidings} tidings
 * @param {string} name - The name of what the browser keeps of the user.
 */
export function showKept(tidings, name) {
  const kept = localStorage.getItem(`tidings chats ${name}`);
  if (kept && !tidings.chats.snapshot().isLoaded) tidings.chats.keep(JSON.parse(kept));
}
