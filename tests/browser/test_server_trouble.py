# SPDX-License-Identifier: Apache-2.0
"""The server is killed, drains, and comes back from a backup, while people talk."""

import secrets
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Page, Route, expect

from tests.browser.visitors import Tab, Visitors
from tests.browser.web_app import WebApp
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

_numbers = count()
REFUSE_A_PAGE: Final = """
window.refused = 0;
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (text) {
  const isFirst = !window.refused && text.includes('"op":"fetch"');
  if (isFirst) window.refused += 1;
  return send.call(this, isFirst ? text.replace(/"chat":"[^"]*"/, '"chat":"nowhere"') : text);
};
const hurried = window.setInterval;
window.setInterval = (work, ms) => hurried(work, ms === 60_000 ? 600_000 : ms);"""
"""Lets the server refuse the first page of the first chat that is opened, and puts off what the
client does every minute, because that loads the list of chats again."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def mortal(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """A server that these tests stop."""
    async with ServerProcess(tmp_path_factory.mktemp("mortal") / "data") as running:
        yield running


@dataclass(frozen=True)
class Talk:
    """Two people who talk."""

    alice: Tab
    bob: Tab


@pytest_asyncio.fixture(loop_scope="session")
async def talk(mortal: ServerProcess, visitors: Visitors) -> AsyncIterator[Talk]:
    number = next(_numbers)
    async with Town(mortal.url, mortal.root_key) as town:
        alice, bob = [await town.user(f"{name}-{number}") for name in ("alice", "bob")]
        chat = await alice.create_direct(bob)
        tabs = [await (await visitors.visitor(one)).tab(chat) for one in (alice, bob)]
        yield Talk(*tabs)


async def test_a_killed_server_loses_nothing(mortal: ServerProcess, talk: Talk) -> None:
    await talk.alice.send("before")
    await mortal.kill()
    await talk.alice.send("meanwhile")
    await talk.bob.send("also meanwhile")
    await mortal.start()

    await until(lambda: same(talk, {"before", "meanwhile", "also meanwhile"}))


async def same(talk: Talk, wanted: set[str]) -> bool:
    """Whether both see these messages, in the same order."""
    seen = [await tab.texts() for tab in (talk.alice, talk.bob)]
    return seen[0] == seen[1] and len(seen[0]) == len(wanted) and set(seen[0]) == wanted


async def test_a_server_that_drains_is_come_back_to(mortal: ServerProcess, talk: Talk) -> None:
    await talk.alice.send("before")
    await talk.bob.shows("before")
    assert await mortal.terminate() == 0
    await talk.alice.send("meanwhile")
    await mortal.start()

    await talk.bob.shows("before", "meanwhile")
    await talk.alice.shows("before", "meanwhile")


async def test_a_restored_backup_replaces_what_was_kept(
    mortal: ServerProcess, talk: Talk, tmp_path: Path
) -> None:
    await talk.alice.send("in the backup")
    await talk.bob.shows("in the backup")
    database, backup = mortal.data / "tidings.db", tmp_path / "backup.db"
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    await talk.alice.send("after the backup")
    await talk.bob.shows("in the backup", "after the backup")
    await mortal.terminate()
    restore(backup, database)
    await mortal.start()

    # What came after the backup is no more; its sequence is used again.
    await talk.bob.shows("in the backup")
    await talk.bob.send("of the new epoch")
    for tab in (talk.alice, talk.bob):
        await tab.shows("in the backup", "of the new epoch")
    await talk.alice.reload()
    await talk.alice.shows("in the backup", "of the new epoch")


def restore(backup: Path, database: Path) -> None:
    """Put a backup in place of the database, with a new epoch."""
    for file in database.parent.glob("tidings.db*"):
        file.unlink()
    shutil.copy(backup, database)
    with closing(sqlite3.connect(database)) as connection, connection:
        epoch = (secrets.token_hex(8),)
        connection.execute("UPDATE deployment SET value = ? WHERE name = 'epoch'", epoch)


async def refuse(page: Page, path: str) -> None:
    """Let the server refuse some requests of a page, until this is undone."""

    async def refused(route: Route) -> None:
        await route.fulfill(status=400, body="{}", content_type="application/json")

    await page.route(path, refused)


async def test_what_could_not_be_loaded_is_loaded_later_on_the_same_connection(
    visitors: Visitors, demo: ServerProcess
) -> None:
    profile = await visitors.profile()
    await profile.add_init_script(REFUSE_A_PAGE)
    page = await profile.new_page()
    chats, inbox = "**/v1/chats?*", "**/v1/inboxes/news/notifications?limit=*"
    for path in (chats, inbox):
        await refuse(page, path)
    app = WebApp(page)
    await page.goto(demo.url)
    await app.button("Alice").click()

    await app.button("Notifications").click()
    news = page.get_by_role("region", name="Notifications", exact=True)
    await expect(news.get_by_text("Loading")).to_be_visible()
    await page.unroute(inbox)
    await expect(news.get_by_text("Welcome to Tidings")).to_be_visible()
    await page.keyboard.press("Escape")

    await page.unroute(chats)
    await expect(app.chat("Bob")).to_be_visible()

    await app.open("Bob")
    await expect(app.messages).to_have_attribute("aria-busy", "false")
    assert await page.evaluate("window.refused") == 1
