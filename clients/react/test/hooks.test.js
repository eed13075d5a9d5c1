// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { Window } from "happy-dom";
import { act, createElement, StrictMode, useState } from "react";
import { createRoot, hydrateRoot } from "react-dom/client";
import { renderToString } from "react-dom/server";

import { memory, Tidings } from "../../js/src/index.js";
import { FakeServer, until } from "../../js/test/fake_server.js";
import {
  TidingsProvider,
  useChat,
  useChats,
  useConnection,
  useInbox,
  useTidings,
  useUnread,
} from "../src/index.js";

const page = new Window();
const { document } = page;
Object.assign(globalThis, { document, window: page, IS_REACT_ACT_ENVIRONMENT: true });
after(() => page.close());

function world() {
  const server = new FakeServer();
  server.append("lunch", { content: "Hello" });
  const client = new Tidings("http://test", {
    token: () => "t",
    storage: memory(),
    tabs: "each",
    WebSocket: server.WebSocket,
    fetch: server.fetch,
  });
  const place = /** @type {any} */ (document.createElement("div"));
  return { server, client, place };
}

/** @param {{chat?: string}} props */
function App({ chat = "lunch" }) {
  const { rows, isLoaded } = useChat(chat);
  const { chats } = useChats();
  const { total } = useUnread();
  const { notifications } = useInbox("news");
  const { connection } = useConnection();
  const texts = rows.map((row) => row.content).join();
  return `${connection} ${isLoaded} [${texts}] ${chats.length} ${total} ${notifications.length}`;
}

/**
 * @param {Tidings} client
 * @param {import("react").ReactNode} [child]
 */
const tree = (client, child = createElement(App)) =>
  createElement(StrictMode, null, createElement(TidingsProvider, { client }, child));

/** @param {any} place @param {string} text */
const shows = (place, text) => act(() => until(() => place.textContent === text));

test("components show the views, and follow them", async () => {
  const { server, client, place } = world();
  const root = createRoot(place);
  await act(() => root.render(tree(client)));
  await shows(place, "live true [Hello] 1 0 0");

  server.append("lunch", { content: "Again" });
  server.say({ op: "unread_total", chats: 1, messages: 2, inboxes: {}, total: 2, exact: true });
  await shows(place, "live true [Hello,Again] 1 2 0");

  await act(() => root.unmount());
  await until(() => client.state.snapshot().connection === "stopped");
  assert.equal(server.sockets.size, 0);
});

test("components may look before the client is started", async () => {
  const { client, place } = world();
  const root = createRoot(place);
  await act(() => root.render(createElement(TidingsProvider, { client }, createElement(App))));
  await shows(place, "live true [Hello] 1 0 0");
  await act(() => root.unmount());
});

test("the double mount of StrictMode leaves one socket", async () => {
  const { server, client, place } = world();
  const root = createRoot(place);
  await act(() => root.render(tree(client)));
  await shows(place, "live true [Hello] 1 0 0");
  assert.equal(server.sockets.size, 1);
  await act(() => root.unmount());
});

test("a component that changes its chat shows the other one", async () => {
  const { server, client, place } = world();
  server.append("work", { content: "Later" });
  /** @type {(chat: string) => void} */
  let go = () => {};
  const Two = () => {
    const [chat, setChat] = useState("lunch");
    go = setChat;
    return createElement(App, { chat });
  };
  const root = createRoot(place);
  await act(() => root.render(tree(client, createElement(Two))));
  await shows(place, "live true [Hello] 2 0 0");
  await act(() => go("work"));
  await shows(place, "live true [Later] 2 0 0");
  await act(() => root.unmount());
});

test("a component renders again only when its own view has changed", async () => {
  const { server, client, place } = world();
  let renders = 0;
  const Badge = () => {
    renders += 1;
    return `${useUnread().total}`;
  };
  const root = createRoot(place);
  const child = createElement("div", null, createElement(App), " ", createElement(Badge));
  await act(() => root.render(tree(client, child)));
  await shows(place, "live true [Hello] 1 0 0 0");
  const before = renders;
  server.append("lunch", { content: "Again" });
  await shows(place, "live true [Hello,Again] 1 0 0 0");
  assert.equal(renders, before);
  await act(() => root.unmount());
});

test("a server renders what there is before the first connection, and the page begins with it", async () => {
  const { server, client, place } = world();
  const html = renderToString(tree(client));
  assert.equal(html, "stopped false [] 0 0 0");
  assert.equal(server.opened, 0, "rendering connects nobody");

  await client.start(); // before the page is hydrated
  await until(() => client.state.snapshot().connection === "live");
  place.innerHTML = html;
  /** @type {unknown[]} */
  const errors = [];
  const root = await act(() =>
    hydrateRoot(place, tree(client), { onRecoverableError: (error) => errors.push(error) }),
  );
  await shows(place, "live true [Hello] 1 0 0");
  assert.deepEqual(errors, []);
  await act(() => root.unmount());
});

test("messages are sent through the client", async () => {
  const { server, client, place } = world();
  /** @type {() => Promise<unknown>} */
  let send = async () => {};
  const Sender = () => {
    const tidings = useTidings();
    send = () => tidings.chat("lunch").send("One?").done;
    return createElement(App);
  };
  const root = createRoot(place);
  await act(() => root.render(tree(client, createElement(Sender))));
  await shows(place, "live true [Hello] 1 0 0");
  await act(() => send());
  await shows(place, "live true [Hello,One?] 1 0 0");
  assert.equal(server.logs.get("lunch")?.length, 2);
  await act(() => root.unmount());
});

test("hooks need a provider", () => {
  assert.throws(() => renderToString(createElement(App)), /TidingsProvider/);
});
