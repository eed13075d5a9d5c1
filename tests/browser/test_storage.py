# SPDX-License-Identifier: Apache-2.0
"""What the browser keeps: the client does without it, and nothing stays that must not."""

from typing import Final

import pytest
import pytest_asyncio

from tests.browser.visitors import Tab, Visitor, Visitors
from tests.support.people import Person, Town
from tests.support.waiting import until

NO_DATABASE: Final = """
IDBFactory.prototype.open = () => { throw new DOMException("not here", "SecurityError"); };
"""
FULL_DISK: Final = """
const put = IDBObjectStore.prototype.put;
IDBObjectStore.prototype.put = function (...all) {
  if (window.isFull) throw new DOMException("no room", "QuotaExceededError");
  return put.apply(this, all);
};
"""
NEWER_VERSION: Final = """
const open = IDBFactory.prototype.open;
IDBFactory.prototype.open = function (name) { return open.call(this, name, 2); };
"""
DATABASES: Final = "indexedDB.databases().then((all) => all.map(({ name }) => name))"


class Pair:
    """Alice, whose storage has trouble, and Bob, who has none."""

    def __init__(self, alice: Visitor, bob: Tab, chat: str) -> None:
        self.alice = alice
        self.bob = bob
        self.chat = chat

    async def talk(self, tab: Tab, *before: str) -> None:
        """Send both ways; whatever the storage does, both see both messages."""
        await tab.send("from Alice")
        await self.bob.shows(*before, "from Alice")
        await self.bob.send("from Bob")
        await tab.shows(*before, "from Alice", "from Bob")


@pytest_asyncio.fixture(loop_scope="session")
async def pair(visitors: Visitors, people: list[Person]) -> Pair:
    alice, bob = people
    chat = await alice.create_direct(bob)
    tab = await (await visitors.visitor(bob)).tab(chat)
    return Pair(await visitors.visitor(alice), tab, chat)


async def kind_of(tab: Tab) -> str:
    return str((await tab.state())["storage"])


async def test_without_a_database_the_client_goes_on_in_memory(pair: Pair) -> None:
    await pair.alice.context.add_init_script(NO_DATABASE)
    tab = await pair.alice.tab(pair.chat)

    await until(lambda: kind_of(tab), equals="memory")
    await pair.talk(tab)


async def test_a_full_disk_loses_nothing(pair: Pair) -> None:
    await pair.alice.context.add_init_script(FULL_DISK)
    tab = await pair.alice.tab(pair.chat)
    await until(lambda: kind_of(tab), equals="indexeddb")

    await tab.run("window.isFull = true")
    await pair.talk(tab)

    await until(lambda: kind_of(tab), equals="memory")


async def test_a_database_that_is_deleted_is_done_without(pair: Pair) -> None:
    tab = await pair.alice.tab(pair.chat)
    await tab.send("kept")
    await pair.bob.shows("kept")
    control = await pair.alice.context.new_cdp_session(tab.page)
    origin = await tab.run("location.origin")
    wish = {"origin": origin, "storageTypes": "indexeddb"}
    await control.send("Storage.clearDataForOrigin", wish)

    await pair.talk(tab, "kept")
    await until(lambda: kind_of(tab), equals="memory")
    await tab.reload()
    await tab.shows("kept", "from Alice", "from Bob")
    await until(lambda: kind_of(tab), equals="indexeddb")


async def test_a_newer_version_of_the_client_is_not_blocked(pair: Pair) -> None:
    older = await pair.alice.tab(pair.chat)
    await until(lambda: kind_of(older), equals="indexeddb")
    newer = """new Promise((resolve) => {
      const request = indexedDB.open(`tidings ${location.origin}`, 2);
      request.onsuccess = () => resolve("open");
      request.onblocked = () => resolve("blocked");
    })"""

    assert await older.run(newer) == "open"
    await pair.talk(older)
    await until(lambda: kind_of(older), equals="memory")
    again = await pair.alice.tab(pair.chat)
    await again.shows("from Alice", "from Bob")
    await until(lambda: kind_of(again), equals="memory")


async def test_a_tab_with_an_older_version_does_not_block_the_client(pair: Pair) -> None:
    older = await pair.alice.tab()
    await older.run("tidings.stop()")
    hold = """new Promise((resolve) => {
      const request = indexedDB.open(`tidings ${location.origin}`, 1);
      request.onsuccess = () => resolve(!!(window.held = request.result));
    })"""
    assert await older.run(hold)
    await pair.alice.context.add_init_script(NEWER_VERSION)
    tab = await pair.alice.tab(pair.chat)

    await until(lambda: kind_of(tab), equals="memory")
    await pair.talk(tab)


async def test_signing_out_leaves_nothing(pair: Pair) -> None:
    tabs = [await pair.alice.tab(pair.chat) for _ in range(2)]
    await pair.talk(tabs[0])
    await tabs[1].run("view.draft('a secret thought')")
    await until(lambda: tabs[0].run(f"{DATABASES}.then((all) => all.length)"), equals=1)

    await tabs[1].run("tidings.signOut()")

    for tab in tabs:
        await until(tab.connection, equals="stopped")
        await has_nothing(tab)
    await until(lambda: pair.alice.sockets, equals=0)


async def has_nothing(tab: Tab) -> None:
    """Wait until neither the page nor the browser has anything of the user."""
    kept = """Promise.all([indexedDB.databases(), caches.keys()]).then((lists) => [
      ...lists.map((list) => list.length), localStorage.length, sessionStorage.length,
      document.cookie.length, tidings.user?.length ?? 0, tidings.chats.snapshot().chats.length,
    ])"""
    await until(lambda: tab.run(kept), equals=[0] * 7)


@pytest.mark.parametrize("is_away", [False, True])
async def test_the_text_of_an_erased_author_is_gone_from_the_cache(
    pair: Pair, people: list[Person], town: Town, is_away: bool
) -> None:
    tab = await pair.alice.tab(pair.chat)
    await pair.talk(tab)

    async def is_stored(text: str) -> bool:
        return text in await tab.stored()

    await until(lambda: is_stored("from Bob"))
    if is_away:
        await tab.run("tidings.stop()")
    erased = await town.http.delete(
        f"/v1/tenants/{town.tenant}/users/{people[1].user_id}/content",
        headers={"Authorization": f"Bearer {await town.tenant_key()}"},
    )
    erased.raise_for_status()
    if is_away:
        assert await is_stored("from Bob")
        await tab.run("tidings.start()")

    await tab.shows("from Alice", None)
    await until(lambda: is_stored("from Bob"), equals=False)
    assert await is_stored("from Alice")
