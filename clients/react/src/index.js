// SPDX-License-Identifier: Apache-2.0
/** React hooks for a Tidings client: each returns the snapshot of a live view. */

import { createContext, createElement, useContext, useEffect, useSyncExternalStore } from "react";

/** @import { Tidings } from "@tidings/client" */
/** @typedef {import("@tidings/client").ChatSnapshot} ChatSnapshot */
/** @typedef {import("@tidings/client").ChatsSnapshot} ChatsSnapshot */
/** @typedef {import("@tidings/client").InboxSnapshot} InboxSnapshot */
/** @typedef {import("@tidings/client").StateSnapshot} StateSnapshot */
/** @typedef {import("@tidings/client").UnreadTotal} UnreadTotal */

/**
 * @template T
 * @typedef {{snapshot: () => T, subscribe: (listener: () => void) => () => void}} View
 */

const Context = createContext(/** @type {Tidings | null} */ (null));
/** Clients that were never started; their empty views are what a server renders. */
const pristine = /** @type {WeakMap<object, Tidings>} */ (new WeakMap());

/**
 * Provide a client to all hooks below; it runs as long as this component is mounted.
 *
 * @param {{client: Tidings, children?: import("react").ReactNode}} props
 */
export function TidingsProvider({ client, children }) {
  useEffect(() => {
    void client.start();
    return () => void client.stop();
  }, [client]);
  return createElement(Context.Provider, { value: client }, children);
}

/** Return the client, to call its methods: `useTidings().chat(id).send("Hi")`. */
export function useTidings() {
  const client = useContext(Context);
  if (!client) throw new Error("there is no <TidingsProvider>");
  return client;
}

/**
 * Return the current snapshot of a view of the client, and render again when it changes.
 *
 * @template T
 * @param {(client: Tidings) => View<T>} viewOf - Returns the same view each time.
 * @returns {T}
 */
export function useView(viewOf) {
  const client = useTidings();
  const { subscribe, snapshot } = viewOf(client);
  // A page from a server has empty views, and the first render in the browser must be the same.
  return useSyncExternalStore(subscribe, snapshot, () => viewOf(emptyTwin(client)).snapshot());
}

/** @param {Tidings} client */
function emptyTwin(client) {
  const Client = /** @type {typeof Tidings} */ (client.constructor);
  const twin = pristine.get(client) ?? new Client("", { token: () => "" });
  pristine.set(client, twin);
  return twin;
}

/**
 * The chat list: `chats`, newest activity first, `isLoaded`, `hasMore`.
 *
 * @returns {ChatsSnapshot}
 */
export const useChats = () => useView((client) => client.chats);

/**
 * One chat: its `rows`, `record`, who is `typing`, `draft`, …
 *
 * @param {string} id
 * @returns {ChatSnapshot}
 */
export const useChat = (id) => useView((client) => client.chat(id));

/**
 * An inbox: its `notifications`, `unread`, `categories`, …
 *
 * @param {string} name
 * @returns {InboxSnapshot}
 */
export const useInbox = (name) => useView((client) => client.inbox(name));

/**
 * How much is unread, for a badge: `total`, `messages`, `chats`, `inboxes`.
 *
 * @returns {UnreadTotal}
 */
export const useUnread = () => useView((client) => client.unread);

/**
 * The client itself: its `connection`, `user`, `queued`, `error`.
 *
 * @returns {StateSnapshot}
 */
export const useConnection = () => useView((client) => client.state);
