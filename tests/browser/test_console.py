# SPDX-License-Identifier: Apache-2.0
"""The console: every screen for everybody, the key in one tab only, changes and sealed content."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, ViewportSize, expect

from tests.browser.test_looks import PHONE, axe, examined
from tests.browser.test_looks import SMALL as SMALL_WINDOW
from tests.browser.visitors import FOR_AXE, Visitors
from tests.support.server import ServerProcess
from tests.support.waiting import WAIT_SECONDS

__all__ = ["axe"]

DESKTOP: Final[ViewportSize] = {"width": 1280, "height": 860}
SMALL: Final = cast(ViewportSize, SMALL_WINDOW)
TENANT: Final = "harbour"
COLOURFUL: Final = ("sign-in", "audit", "chat", "reports", "missing", "suspend")
"""Screens that together have all colours."""
PICTURES: Final = ("overview-desktop-light", "chat-desktop-dark", "suspend-phone-light")
SECRET: Final = "Meet me at the harbour"


class Harbour:
    """A tenant with two people, who have a chat, and with an inbox."""

    def __init__(self, server: ServerProcess, tenant: str = TENANT) -> None:
        self.server = server
        self.tenant = tenant
        self.http = httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=WAIT_SECONDS)
        self.key = ""
        self.chat = ""
        self.notification = ""

    async def ask(self, method: str, path: str, body: object = None, key: str = "") -> Any:
        """The answer to a request, with the root key unless another is given."""
        headers = {"Authorization": f"Bearer {key or self.server.root_key}"}
        answer = await self.http.request(method, f"/v1{path}", json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def settle(self) -> None:
        """Make all of it."""
        at = f"/tenants/{self.tenant}"
        await self.ask("PUT", at, {"name": "Harbour Inc.", "quotas": {"users": 500}})
        self.key = (await self.ask("POST", f"{at}/keys"))["key"]
        tokens = [
            (await self.ask("POST", f"{at}/tokens", {"user_id": name}))["token"]
            for name in ("ann", "bob")
        ]
        await self.ask("PUT", f"{at}/users/ann", {"display_name": "Ann"})
        group = {"type": "group", "name": "Boats", "members": ["bob"]}
        self.chat = (await self.ask("POST", "/chats", group, tokens[0]))["chat_id"]
        for number, text in enumerate((SECRET, "Which boat?", "The red one.")):
            message = {"client_message_id": f"m{number}", "content": text}
            await self.ask("POST", f"/chats/{self.chat}/messages", message, tokens[number % 2])
        report = {"reason": "abuse", "comment": "Rude."}
        await self.ask("POST", f"/chats/{self.chat}/messages/3/report", report, tokens[0])
        await self.ask("DELETE", f"/chats/{self.chat}/messages/4", None, tokens[0])
        hook = {"url": "https://example.com/hook", "events": ["message.created"], "enabled": False}
        await self.ask("PUT", f"{at}/webhooks/shop", hook)
        await self.ask("PUT", f"{at}/inboxes/news", {"title": "News", "categories": ["tide"]})
        post = {
            "audience": {"kind": "users", "uids": ["ann", "bob"]},
            "message": {"title": "High tide", "body": "At noon."},
            "category": "tide",
        }
        posted = await self.ask("POST", f"{at}/inboxes/news/notifications", post)
        self.notification = posted["id"]


@asynccontextmanager
async def a_harbour(server: ServerProcess, tenant: str = TENANT) -> AsyncIterator[Harbour]:
    """A tenant that is there."""
    made = Harbour(server, tenant)
    await made.settle()
    yield made
    await made.http.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def harbour(server: ServerProcess) -> AsyncIterator[Harbour]:
    async with a_harbour(server) as made:
        yield made


async def open_console(page: Page, server: ServerProcess, key: str, tenant: str = "") -> None:
    await page.goto(f"{server.url}/console")
    await page.get_by_label("Key", exact=True).fill(key)
    if tenant:
        await page.get_by_label("Tenant of the key", exact=True).fill(tenant)
    await page.get_by_role("button", name="Open", exact=True).click()
    await expect(page.locator("nav")).to_be_attached()


async def go(page: Page, address: str, seen: str) -> Locator:
    """Open a screen, and wait until it shows something."""
    await page.goto(f"{page.url.split('#')[0]}#/{address}")
    main = page.get_by_role("main")
    await expect(main.get_by_text(seen).first).to_be_visible()
    await expect(main).not_to_have_attribute("aria-busy", "true")
    return main


async def screens(page: Page, harbour: Harbour) -> AsyncIterator[str]:
    """Walk through the console; the name of each screen while it is shown."""
    await page.goto(f"{harbour.server.url}/console")
    await expect(page.get_by_role("heading", name="Operator’s console", exact=True)).to_be_visible()
    yield "sign-in"
    await open_console(page, harbour.server, harbour.server.root_key)
    at = f"tenants/{TENANT}"
    for name, address, seen in (
        ("overview", "overview", "Newest backup"),
        ("settings", "settings", "Set by"),
        ("tenants", "tenants", "Harbour Inc."),
        ("jobs", "jobs", "There are no dead letters."),
        ("capacity", "capacity", "Routes"),
        ("audit", "audit", "put inbox"),
        ("tenant", at, "Messages a day"),
        ("users", f"{at}/users", "Ann"),
        ("user", f"{at}/users/ann", "Unread in news"),
        ("reports", f"{at}/reports", "Message of bob"),
        ("explain", f"{at}/explain/{harbour.chat}.2/bob", "accepted"),
        ("trace", f"{at}/trace/ann", "What is delivered now?"),
        ("chats", f"{at}/chats", "Boats"),
        ("chat", f"{at}/chats/{harbour.chat}", "redacted"),
        ("inboxes", f"{at}/inboxes", "tide"),
        ("notifications", f"{at}/inboxes/news", "High tide"),
        ("notification", f"{at}/inboxes/news/{harbour.notification}", "Delivered"),
        ("webhooks", f"{at}/webhooks", "https://example.com/hook"),
        ("webhook", f"{at}/webhooks/shop", "Nothing failed, and nothing waits."),
        ("push", f"{at}/push", "Browsers (Web Push)"),
        ("keys", f"{at}/keys", "Signs"),
        ("missing", f"{at}/users/nobody", "no such user"),
    ):
        await go(page, address, seen)
        yield name
    await go(page, at, "Messages a day")
    await page.get_by_role("button", name="Suspend", exact=True).click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    yield "suspend"
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_nothing_keeps_anybody_out(
    visitors: Visitors, harbour: Harbour, request: pytest.FixtureRequest
) -> None:
    script = request.getfixturevalue("axe")
    page = await (await visitors.profile(viewport=DESKTOP, **FOR_AXE)).new_page()
    found: list[str] = []
    async for screen in screens(page, harbour):
        colours = ("light", "dark") if screen in COLOURFUL else ("light",)
        found += await examined(page, script, screen, *colours)
        await page.set_viewport_size(SMALL)
        is_wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        found += [f"{screen} is wider than a small window"] if is_wide else []
        await page.set_viewport_size(DESKTOP)
    assert "\n".join(found) == ""


async def test_the_key_stays_in_the_tab(visitors: Visitors, harbour: Harbour) -> None:
    profile = await visitors.profile(viewport=PHONE)
    page = await profile.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    key = harbour.key
    await open_console(page, harbour.server, key, TENANT)
    await page.reload()
    await expect(page.get_by_role("heading", name="Harbour Inc.", exact=True)).to_be_visible()
    assert key not in page.url and not any(key in url for url in asked)
    assert await page.evaluate("localStorage.length") == 0
    assert await page.evaluate("document.cookie") == ""
    another = await profile.new_page()
    await another.goto(page.url)
    await expect(another.get_by_label("Key", exact=True)).to_be_visible()
    await another.get_by_label("Key", exact=True).fill("not the key")
    await another.get_by_role("button", name="Open", exact=True).click()
    await expect(another.get_by_role("alert")).to_have_text("This key is not accepted here.")
    await page.get_by_role("button", name="Menu", exact=True).click()
    await expect(page.get_by_role("link", name="Users", exact=True)).to_be_visible()
    await expect(page.get_by_role("link", name="Tenants", exact=True)).to_have_count(0)
    await page.get_by_role("button", name="Forget the key", exact=True).click()
    await expect(page.get_by_label("Key", exact=True)).to_be_visible()


async def test_a_change_needs_the_name(visitors: Visitors, harbour: Harbour) -> None:
    page = await (await visitors.profile(viewport=DESKTOP)).new_page()
    await open_console(page, harbour.server, harbour.server.root_key)
    main = await go(page, f"tenants/{TENANT}/users/bob", "Sessions")
    await main.get_by_role("button", name="Deactivate", exact=True).press("Enter")
    dialog = page.get_by_role("dialog")
    confirm = dialog.get_by_role("button", name="Deactivate", exact=True)
    await expect(confirm).to_be_disabled()
    await dialog.get_by_label("Type bob to confirm", exact=True).fill("bo")
    await expect(confirm).to_be_disabled()
    await dialog.get_by_label("Type bob to confirm", exact=True).fill("bob")
    await expect(confirm).to_be_enabled()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_have_text("The user is deactivated.")
    await expect(main.get_by_text("Deactivated", exact=True)).to_be_visible()
    (act,) = (await harbour.ask("GET", f"/tenants/{TENANT}/audit?limit=1"))["data"]
    assert (act["action"], act["target"], act["actor"]) == ("put_user", "bob", "root")
    await harbour.ask("PUT", f"/tenants/{TENANT}/users/bob", {"deactivated": False})


async def test_content_is_sealed_until_there_is_a_reason(
    visitors: Visitors, harbour: Harbour
) -> None:
    page = await (await visitors.profile(viewport=DESKTOP)).new_page()
    await open_console(page, harbour.server, harbour.key, TENANT)
    await page.get_by_role("searchbox").fill(f"{harbour.chat}.2")
    await page.get_by_role("searchbox").press("Enter")
    main = page.get_by_role("main")
    row = main.get_by_role("row").filter(has=page.get_by_role("cell", name="2", exact=True))
    await row.get_by_role("button", name="Sealed", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason", exact=True).fill("Ticket 4711")
    await dialog.get_by_label(f"Type {harbour.chat} to confirm", exact=True).fill(harbour.chat)
    await dialog.get_by_role("button", name="Unseal", exact=True).click()
    await expect(row.get_by_text(SECRET)).to_be_visible()
    await go(page, f"tenants/{TENANT}/audit", "reason=Ticket 4711")


async def test_a_deletion_ends_in_a_receipt(visitors: Visitors, harbour: Harbour) -> None:
    await harbour.ask("PUT", f"/tenants/{TENANT}/users/gone", {})
    page = await (await visitors.profile(viewport=DESKTOP)).new_page()
    await open_console(page, harbour.server, harbour.key, TENANT)
    main = await go(page, f"tenants/{TENANT}/users/gone", "Sessions")
    await main.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Type gone to confirm", exact=True).fill("gone")
    await dialog.get_by_role("button", name="Delete for good", exact=True).click()
    await expect(main.get_by_role("heading", name="Deletion of a user", exact=True)).to_be_visible()
    await expect(main.get_by_role("heading", name="Receipt", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(DESKTOP, "light", id="desktop-light", marks=pytest.mark.soak),
        pytest.param(DESKTOP, "dark", id="desktop-dark", marks=pytest.mark.soak),
        pytest.param(PHONE, "light", id="phone-light", marks=pytest.mark.soak),
    ],
)
async def test_pictures_are_made(
    visitors: Visitors,
    harbour: Harbour,
    tmp_path: Path,
    size: Any,
    scheme: Any,
    request: pytest.FixtureRequest,
) -> None:
    # With PICTURES=docs/images, those of the documentation are replaced.
    folder = Path(os.environ.get("PICTURES", tmp_path))
    profile = await visitors.profile(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = await profile.new_page()
    kind = request.node.callspec.id
    async for screen in screens(page, harbour):
        if f"{screen}-{kind}" in PICTURES:
            made = await page.screenshot(path=folder / f"console-{screen}-{kind}.png")
            assert len(made) > 3_000
