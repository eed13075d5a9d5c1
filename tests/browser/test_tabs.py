# SPDX-License-Identifier: Apache-2.0
"""All tabs of a browser share one socket, which another tab takes over when the leader ends."""

import pytest

from tests.browser.visitors import Tab, Visitors
from tests.support.people import Person
from tests.support.waiting import until


async def leader_of(tabs: list[Tab]) -> Tab:
    """The tab that has the socket, when there is exactly one."""

    async def only_one() -> Tab | None:
        found = [tab for tab in tabs if await tab.leads()]
        return found[0] if len(found) == 1 else None

    return await until(only_one)


@pytest.mark.parametrize(
    ("count", "kills"),
    [(4, 3), pytest.param(25, 20, marks=pytest.mark.soak)],
)
async def test_tabs_share_one_socket_and_hand_over(
    visitors: Visitors, people: list[Person], count: int, kills: int
) -> None:
    alice, bob = people
    chat = await alice.create_direct(bob)
    visitor = await visitors.visitor(alice)
    other = await (await visitors.visitor(bob)).tab(chat)
    tabs = [await visitor.tab(chat) for _ in range(count)]
    assert visitor.sockets == 1

    sent = []
    for number in range(kills):
        leader = await leader_of(tabs)
        tabs.remove(leader)
        sent += [f"of the leader {number}", f"of a follower {number}"]
        await leader.send(sent[-2])
        await other.shows(*sent[:-1])
        await tabs[number % len(tabs)].send(sent[-1])
        await leader.page.close()
        tabs.append(await visitor.tab(chat))
        await other.shows(*sent)

    for tab in [*tabs, other]:
        await tab.shows(*sent)
    await leader_of(tabs)
    assert visitor.sockets == 1
