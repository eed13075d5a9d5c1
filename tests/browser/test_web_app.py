# SPDX-License-Identifier: Apache-2.0
"""People talk in the web app, which is used by the names of what it shows alone."""

import os
import re
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

import httpx
from playwright.async_api import Locator, expect

from tests.browser.visitors import Visitors
from tests.browser.web_app import KEEP_TIMERS, TICKS, WebApp, sign_in
from tests.support.server import WELCOME_FILE, ServerProcess
from tests.support.waiting import WAIT_SECONDS, until

FIRST_TALK_SECONDS_MAX: Final = 60.0
TABS_MAX: Final = 60
HOSTILE: Final = (
    "<img src=x onerror='harmed = 1'>",
    "<script>harmed = 1</script>",
    "</bdi></div><iframe src='javascript:harmed=1'></iframe>",
    'javascript:harmed=1 data:text/html,<script>harmed=1</script> https://example.com/"onclick=x',
    "\u202etxet sdrawkcab\u2067 \u202d",
    "${harmed = 1} {{harmed = 1}} &lt;b&gt;",
    "W" * 4_096,
    "after everything",
)

HARM: Final = """() => {
  const all = (root) => [...root.querySelectorAll("*")];
  const roots = all(document).flatMap((element) => element.shadowRoot ?? []);
  const bad = (element) => element.matches("script, iframe, [onerror], [src='x']");
  const found = roots.flatMap(all).filter(bad);
  const isWide = document.documentElement.scrollWidth > innerWidth;
  return [window.harmed ?? null, found.length, isWide];
}"""
"""What hostile text has done."""
IS_KEPT: Final = """async (text) => {
  const done = (request) =>
    new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const [{ name }] = await indexedDB.databases();
  const database = await done(indexedDB.open(name));
  const rows = await done(database.transaction("rows").objectStore("rows").getAll());
  database.close();
  const shell = (await caches.match("/")) && navigator.serviceWorker.controller;
  const isKept = rows.some(({ content }) => content === text);
  return Boolean(isKept && shell && localStorage.getItem("tidings chats bob"));
}"""
"""Whether the page, the list of chats and a message are there without a network."""
IS_QUEUED: Final = """async (text) => {
  const done = (request) =>
    new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const [{ name }] = await indexedDB.databases();
  const database = await done(indexedDB.open(name));
  const all = await done(database.transaction("outbox").objectStore("outbox").getAll());
  database.close();
  return all.some(({ content }) => content === text);
}"""
"""Whether a message that waits to be sent is stored."""
CONNECTION: Final = """document.querySelector("tidings-chat").tidings.state.snapshot().connection"""
APP_BYTES_MAX: Final = 60 * 1_024


async def test_two_people_talk_within_a_minute(visitors: Visitors, tmp_path: Path) -> None:
    fresh = ServerProcess(tmp_path / "data", options=["--demo"])
    began, busy = monotonic(), how_busy()
    async with fresh:
        printed = re.search(r"http://\S+", (fresh.data / WELCOME_FILE).read_text())
        assert printed is not None
        alice = await sign_in(visitors, printed[0], "Alice")
        bob = await sign_in(visitors, printed[0], "Bob")
        await alice.open("Bob")
        await bob.open("Alice")
        await alice.send("Hello Bob")
        await expect(bob.message("Hello Bob")).to_be_visible()
        await bob.send("Hello Alice")
        await expect(alice.message("Hello Alice")).to_be_visible()
        for person in (alice, bob):
            await person.button("Sign out").click()
            await expect(person.button("Carol")).to_be_visible()
            await until(partial(person.page.evaluate, "indexedDB.databases()"), equals=[])
    # A machine that does other things as well takes as much longer.
    assert monotonic() - began <= FIRST_TALK_SECONDS_MAX * max(busy, how_busy())


def how_busy() -> float:
    """Return how many programs want a core, on average over the last minute; at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


async def test_ticks_typing_unread_and_titles(visitors: Visitors, demo: ServerProcess) -> None:
    alice = await sign_in(visitors, demo.url, "Alice")
    bob = await sign_in(visitors, demo.url, "Bob")
    await alice.open("Bob")
    text = "Do you see the ticks?"
    await alice.send(text)

    row = alice.row(text)
    await expect(row.get_by_role("img", name="Delivered", exact=True)).to_be_visible()
    await expect(bob.chat("Alice").get_by_role("img", name=re.compile("Unread"))).to_be_visible()
    await expect(bob.page).to_have_title(re.compile(r"^\(\d+\) "))
    await bob.open("Alice")
    await expect(row.get_by_role("img", name="Read", exact=True)).to_be_visible()
    await expect(bob.chat("Alice").get_by_role("img", name=re.compile("Unread"))).to_have_count(0)
    await expect(bob.page).to_have_title(re.compile("Alice"))
    await alice.page.evaluate(KEEP_TIMERS, 6_000)  # for so long somebody is shown as typing
    await bob.box.press_sequentially("I am wri")
    await expect(alice.page.get_by_text("Bob is typing").first).to_be_visible()


async def test_notifications_arrive_and_are_read(visitors: Visitors, demo: ServerProcess) -> None:
    alice = await sign_in(visitors, demo.url, "Alice")
    inbox = alice.page.get_by_role("list", name="Notifications", exact=True)
    await alice.button("Notifications").click()
    await expect(inbox.get_by_text("Your report is ready")).to_be_visible()

    posted = await post_notification(demo, "Something new", "It came while you looked.")
    note = inbox.get_by_role("button").filter(has_text="Something new")
    await expect(note).to_be_visible()
    await expect(note.get_by_role("img", name="Unread: 1", exact=True)).to_be_visible()
    await note.click()
    await expect(note.get_by_role("img", name="Unread: 1", exact=True)).to_have_count(0)
    await call(demo, "DELETE", f"/v1/tenants/demo/inboxes/news/notifications/{posted}")
    await expect(note).to_have_count(0)
    await alice.button("Mark all as read").click()
    await expect(inbox.get_by_role("img")).to_have_count(0)


async def post_notification(server: ServerProcess, title: str, body: str) -> str:
    """Post to Alice; the id."""
    wish = {
        "audience": {"kind": "users", "uids": ["alice"]},
        "message": {"title": title, "body": body},
    }
    made = await call(server, "POST", "/v1/tenants/demo/inboxes/news/notifications", wish)
    return str(made["id"])


async def call(
    server: ServerProcess, method: str, path: str, body: object = None, key: str | None = None
) -> Any:
    """A request that has to succeed, by default with the root key; its JSON."""
    headers = {"Authorization": f"Bearer {key or server.root_key}"}
    async with httpx.AsyncClient(
        base_url=server.url, trust_env=False, headers=headers, timeout=WAIT_SECONDS
    ) as http:
        answer = await http.request(method, path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None


async def test_hostile_text_is_shown_as_text(visitors: Visitors, demo: ServerProcess) -> None:
    bob = await sign_in(visitors, demo.url, "Bob", viewport={"width": 390, "height": 700})
    wish = {"user_id": "alice", "expires_in": 3_600}
    token = (await call(demo, "POST", "/v1/tenants/demo/tokens", wish))["token"]
    group = {"type": "group", "name": HOSTILE[0], "members": ["bob"]}
    chat = (await call(demo, "POST", "/v1/chats", group, token))["chat_id"]
    for number, text in enumerate(HOSTILE):
        message = {"client_message_id": str(number), "content": text}
        await call(demo, "POST", f"/v1/chats/{chat}/messages", message, token)

    await bob.open(HOSTILE[0])
    for text in HOSTILE:
        await expect(bob.messages.get_by_text(text, exact=True).first).to_be_attached()
    assert await bob.page.evaluate(HARM) == [None, 0, False]
    links = bob.messages.get_by_role("link")
    for link in await links.all():
        assert (await link.get_attribute("href") or "").startswith("https://")
        assert "noopener" in (await link.get_attribute("rel") or "")
    # Text that changes the direction of writing does so for itself only.
    await expect(bob.message("after everything")).to_be_visible()


async def test_the_keyboard_is_enough(visitors: Visitors, demo: ServerProcess) -> None:
    profile = await visitors.profile()
    page = await profile.new_page()
    await page.goto(demo.url)
    app = WebApp(page)
    await expect(app.button("Carol")).to_be_visible()
    await tab_to(app, app.button("Carol"))
    await page.keyboard.press("Enter")
    await expect(app.chat("Lunch")).to_be_visible()
    await tab_to(app, app.chat("Lunch"))
    await page.keyboard.press("Enter")
    await expect(app.box).to_be_focused()
    await page.keyboard.type("Without a mause")
    await page.keyboard.press("Enter")
    await expect(app.row("Without a mause").get_by_role("img", name=TICKS)).to_be_visible()
    await page.keyboard.press("ArrowUp")
    await expect(app.box).to_have_value("Without a mause")
    await page.keyboard.press("Control+A")
    await page.keyboard.type("Without a mouse")
    await page.keyboard.press("Enter")
    await expect(app.message("Without a mouse")).to_be_visible()
    await tab_to(app, app.button("New group"), back=True)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await tab_to(app, app.button("Sign out"), back=True)
    await page.keyboard.press("Enter")
    await expect(app.button("Carol")).to_be_visible()


async def tab_to(app: WebApp, wanted: Locator, *, back: bool = False) -> None:
    """Press Tab until something has the focus."""
    for _ in range(TABS_MAX):
        if await wanted.evaluate("(one) => one.matches(':focus')"):
            return
        await app.page.keyboard.press("Shift+Tab" if back else "Tab")
    raise AssertionError(f"no way with the keyboard to {wanted}")


async def test_the_app_opens_without_a_network(visitors: Visitors, demo: ServerProcess) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.open("Lunch")
    await bob.send("Written above ground")
    await expect(bob.row("Written above ground").get_by_role("img", name=TICKS)).to_be_visible()
    await until(lambda: bob.page.evaluate(IS_KEPT, "Written above ground"))
    await bob.page.context.set_offline(True)
    await bob.send("Written on the stairs")
    await expect(bob.page.get_by_text("Messages waiting to be sent: 1")).to_be_visible()
    assert await bob.page.evaluate(CONNECTION) == "live", "the socket has not noticed yet"
    await until(lambda: bob.page.evaluate(IS_QUEUED, "Written on the stairs"))
    await bob.page.reload()
    await expect(bob.message("Written above ground")).to_be_visible()
    await bob.send("Written under ground")
    await expect(bob.page.get_by_text("Messages waiting to be sent: 2")).to_be_visible()
    await bob.page.context.set_offline(False)
    row = bob.row("Written under ground")
    await expect(row.get_by_role("img", name=TICKS)).to_be_visible()


async def test_the_app_is_small(visitors: Visitors, demo: ServerProcess) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.open("Lunch")
    loaded = await bob.page.evaluate("""["navigation", "resource"]
      .flatMap((kind) => performance.getEntriesByType(kind))
      .filter(({ name }) => !name.includes("/v1/"))
      .map(({ name, encodedBodySize }) => [new URL(name).pathname, encodedBodySize])""")
    # What the page puts into the cache of its service worker, it takes from that of the browser.
    sizes = dict(loaded)

    assert sum(sizes.values()) <= APP_BYTES_MAX
    assert sum(path.endswith(".js") for path in sizes) >= 1
