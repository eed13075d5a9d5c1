# SPDX-License-Identifier: Apache-2.0
"""All tabs of a browser share one socket, which another tab takes over when the leader ends."""

import asyncio
from typing import Final

import pytest

from tests.browser.visitors import Tab, Visitors
from tests.support.people import Person
from tests.support.waiting import until

CAN_HIDE: Final = """
let isHidden = false;
Object.defineProperty(document, "hidden", { get: () => isHidden });
window.hide = (hidden) => {
  isHidden = hidden;
  document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
};"""
"""Playwright keeps every page visible, so a page has to be told that it is hidden."""


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
    await until(lambda: visitor.sockets, equals=1)

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
    await until(lambda: visitor.sockets, equals=1)


async def test_a_hidden_tab_lets_a_visible_one_lead(
    visitors: Visitors, people: list[Person]
) -> None:
    alice, bob = people
    chat = await alice.create_direct(bob)
    visitor = await visitors.visitor(alice)
    await visitor.context.add_init_script(CAN_HIDE)
    first, second, third = [await visitor.tab(chat) for _ in range(3)]
    await until(first.leads)
    await second.run("hide(true)")
    await first.run("hide(true)")
    await until(third.leads)
    # Nobody is in front, so the leader stays; whoever comes to the front leads.
    await third.run("hide(true)")
    await second.run("hide(false)")
    await until(second.leads)
    await bob.send(chat, "still one socket?")
    for tab in (first, second, third):
        await tab.shows("still one socket?")
    await until(lambda: visitor.sockets, equals=1)


async def test_a_leader_that_crashes_is_replaced(visitors: Visitors, people: list[Person]) -> None:
    alice, bob = people
    chat = await alice.create_direct(bob)
    visitor = await visitors.visitor(alice)
    leader, follower = [await visitor.tab(chat) for _ in range(2)]
    await leader.send("before the crash")
    await follower.shows("before the crash")
    devtools = await visitor.context.new_cdp_session(leader.page)
    async with leader.page.expect_event("crash"):
        crash = asyncio.ensure_future(devtools.send("Page.crash"))
    await until(follower.leads)
    crash.cancel()  # the page was gone before it could answer
    await follower.send("after the crash")
    other = await (await visitors.visitor(bob)).tab(chat)
    await other.shows("before the crash", "after the crash")
