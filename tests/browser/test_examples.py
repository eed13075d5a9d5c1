# SPDX-License-Identifier: Apache-2.0
"""The examples, as somebody would run them: a backend, pages that embed chat, a notification."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from scripts.services import node_tools
from scripts.services.obtaining import Unavailable
from scripts.services.ports import free_port
from tests.browser.visitors import Visitors
from tests.support.inbox import Inbox
from tests.support.node import run_in
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.services import do_without
from tests.support.waiting import WAIT_SECONDS, until

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
TIDINGS: Final = "http://127.0.0.1:8080"


class Shop:
    """The backend of the examples, and the environment of their programs."""

    def __init__(self, folder: Path, port: int, environment: Mapping[str, str], town: Town) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {**os.environ, **environment, "PORT": str(port)}
        self.town = town

    async def is_open(self) -> bool:
        """Whether it answers."""
        async with httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as http:
            try:
                return (await http.get(f"{self.url}/token")).status_code == 401
            except httpx.TransportError:
                return False

    async def page(self, visitors: Visitors, user: str, path: str) -> Page:
        """A page, in a browser where this user is signed in."""
        page = await (await visitors.profile()).new_page()
        await page.goto(f"{self.url}/sign-in?as={user}")
        await page.goto(f"{self.url}/{path}")
        return page


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    """The backend, in front of a server of its own."""
    folder, port = tmp_path_factory.mktemp("examples"), free_port()
    origin = {"TIDINGS_ALLOWED_ORIGINS": f"http://127.0.0.1:{port}"}
    async with (
        ServerProcess(folder / "data", environment=origin) as server,
        Town(server.url, server.root_key, "acme") as town,
    ):
        pages = shutil.copytree(EXAMPLES, folder / "examples")
        for path in (*pages.rglob("*.html"), *pages.rglob("*.js*")):
            path.write_text(path.read_text().replace(TIDINGS, server.url))
        settings = {"SERVER_URL": server.url, "TIDINGS_TENANT_KEY": await town.tenant_key()}
        opened = Shop(pages, port, settings, town)
        command = [sys.executable, str(pages / "sign_in" / "backend.py"), str(pages)]
        with subprocess.Popen(
            command, env=opened.environment, stderr=subprocess.DEVNULL
        ) as backend:
            try:
                await until(opened.is_open)
                yield opened
            finally:
                backend.terminate()


@pytest.fixture(scope="module")
def tools(request: pytest.FixtureRequest) -> Path:
    """The folder with the programs that the examples are built with."""
    try:
        return node_tools.obtain(EXAMPLES)
    except Unavailable as error:
        do_without(request.config, node_tools.NAME, str(error))


async def talk(shop: Shop, visitors: Visitors, path: str) -> None:
    """Let two people talk on this page."""
    alice, bob = [await shop.town.user(name) for name in ("alice", "bob")]
    await alice.create_direct(bob)
    pages = [await shop.page(visitors, user, path) for user in ("alice", "bob")]
    for page, other in zip(pages, ("bob", "alice"), strict=True):
        await page.get_by_role("list", name="Chats", exact=True).get_by_text(other).first.click()
    box = pages[0].get_by_role("textbox", name="Message", exact=True)
    await box.fill(f"Hello from {path}")
    await box.press("Enter")
    await expect(pages[1].get_by_role("log").get_by_text(f"Hello from {path}")).to_be_visible()


async def test_chat_in_a_plain_page(shop: Shop, visitors: Visitors) -> None:
    page = (EXAMPLES / "embed_chat" / "index.html").read_text()
    assert len(page.splitlines()) == 10
    assert page in (EXAMPLES / "embed_chat" / "README.md").read_text()
    await talk(shop, visitors, "embed_chat/")


async def test_chat_in_react_and_in_vue(shop: Shop, visitors: Visitors, tools: Path) -> None:
    command = json.loads((EXAMPLES / "package.json").read_text())["scripts"]["build"]
    command = command.replace("../clients/js", str(node_tools.CLIENT))
    packages = {"NODE_PATH": str(tools.parent)}
    await run_in(shop.folder, tools, "sh", "-c", command, environment=packages)
    for page in ("react", "vue"):
        await talk(shop, visitors, f"embed_chat/{page}.html")


async def test_a_first_notification(shop: Shop, visitors: Visitors) -> None:
    command = [sys.executable, str(shop.folder / "first_notification" / "notify.py")]
    said = subprocess.run(
        [*command, "carol", "Your order has left"],
        env=shop.environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert [line[:3] for line in said.stdout.splitlines()] == ["201", "202"]
    page = await shop.page(visitors, "carol", "first_notification/")
    await page.get_by_role("button", name="Notifications", exact=True).click()
    await expect(page.get_by_text("Your order has left")).to_be_visible()


async def test_a_notification_is_answered_snoozed_and_archived(
    shop: Shop, visitors: Visitors
) -> None:
    inbox = await Inbox(shop.town, "orders").make()
    dora = await shop.town.user("dora")
    buttons = [{"id": "yes", "label": "Yes, please"}, {"id": "no", "label": "No"}]
    asked = await inbox.post(["dora"], "Gift wrap?", actions=buttons)
    later = await inbox.post(["dora"], "Read this tomorrow")
    for posted in (asked, later):
        await inbox.done(posted["id"])
    page = await shop.page(visitors, "dora", "first_notification/")
    await page.get_by_role("button", name="Notifications", exact=True).click()
    yes = page.get_by_role("button", name="Yes, please", exact=True)
    await yes.click()
    await expect(yes).to_be_disabled()
    await expect(yes).to_have_attribute("aria-pressed", "true")

    async def answers() -> dict[str, str | None]:
        return {one["id"]: one.get("action") for one in await inbox.listed(dora)}

    await until(answers, equals={asked["id"]: "yes", later["id"]: None})

    for text, name in (("Gift wrap?", "Archive"), ("Read this", "Snooze")):
        row = page.get_by_role("listitem").filter(has_text=text)
        await row.get_by_role("button", name=name, exact=True).click()
        if name == "Snooze":
            await page.get_by_role("menuitem", name=re.compile("^For an hour")).click()
        await expect(page.get_by_text(text)).to_have_count(0)

    async def ids(**which: str) -> list[str]:
        return [one["id"] for one in await inbox.listed(dora, **which)]

    await until(lambda: ids(archived="true"), equals=[asked["id"]])
    await until(lambda: ids(snoozed="true"), equals=[later["id"]])
    await until(ids, equals=[])
