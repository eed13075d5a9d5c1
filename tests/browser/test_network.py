# SPDX-License-Identifier: Apache-2.0
"""The network is cut in the middle of what a person does, and comes back."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.browser.visitors import Tab, Visitors
from tests.support.breakable_proxy import BreakableProxy, a_proxy
from tests.support.people import Person
from tests.support.server import ServerProcess
from tests.support.waiting import until


@pytest_asyncio.fixture(loop_scope="session")
async def way(server: ServerProcess) -> AsyncIterator[BreakableProxy]:
    """The network between a browser and the server."""
    async with a_proxy("127.0.0.1", server.port) as opened:
        yield opened


def url_of(way: BreakableProxy) -> str:
    return f"http://127.0.0.1:{way.port}"


async def cut(way: BreakableProxy, tab: Tab) -> None:
    """Cut the network, and wait until the client knows."""
    way.cut()

    async def is_cut_off() -> bool:
        return await tab.connection() != "live"

    await until(is_cut_off)


@pytest.mark.parametrize("cuts", [5, pytest.param(50, marks=pytest.mark.soak)])
async def test_nothing_is_lost_or_repeated_when_the_network_is_cut(
    visitors: Visitors, way: BreakableProxy, people: list[Person], cuts: int
) -> None:
    alice, bob = people
    chat = await alice.create_direct(bob)
    other = await (await visitors.visitor(bob)).tab(chat)
    tab = await (await visitors.visitor(alice, url_of(way))).tab(chat)

    sent: list[str] = []
    for number in range(cuts):
        before = [f"{number}: first", f"{number}: second"]
        await tab.send(*before)
        if number % 2:
            # The server has these, but the client perhaps not the answers.
            await other.shows(*sent, *before)
        await cut(way, tab)
        await tab.send(f"{number}: third")
        sent += [*before, f"{number}: third"]
        way.mend()
        await tab.is_live()

    await other.shows(*sent)
    await tab.shows(*sent)
    assert [message["content"] for message in reversed(await history_of(alice, chat))] == sent


async def history_of(person: Person, chat: str) -> list[dict[str, str]]:
    """The messages that the server has, newest first."""
    entries = await person.log(chat)
    return [entry for entry in reversed(entries) if entry["kind"] == "message"]


async def test_a_reload_keeps_the_outbox_and_drafts(
    visitors: Visitors, way: BreakableProxy, people: list[Person]
) -> None:
    alice, bob = people
    chat = await alice.create_direct(bob)
    other = await (await visitors.visitor(bob)).tab(chat)
    tab = await (await visitors.visitor(alice, url_of(way))).tab(chat)
    await tab.send("before")
    await other.shows("before")

    await cut(way, tab)
    unsent = [f"unsent {number}" for number in range(8)]
    await tab.send(*unsent)
    await tab.run("view.draft('half a sent')")

    async def is_stored() -> bool:
        stored = await tab.stored()
        return all(text in stored for text in [*unsent, "half a sent"])

    await until(is_stored)
    await tab.reload(live=False)

    await tab.shows("before", *unsent)
    states = [row.get("state") for row in await tab.messages()]
    assert states[1:] == ["pending"] * len(unsent)
    await until(lambda: tab.run("view.snapshot().draft"), equals="half a sent")
    await until(lambda: tab.run("tidings.state.snapshot().queued"), equals=len(unsent))

    way.mend()
    await other.shows("before", *unsent)
    await tab.shows("before", *unsent)
