# SPDX-License-Identifier: Apache-2.0
"""Frames without a sequence from gateway to gateway: receipts, unread, typing, presence."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.gateways import Gateway, Gateways, some_gateways
from tests.support.services import RedisServer
from tests.support.users import ANN, BOB, CAT
from tests.support.waiting import until
from tests.unit.fake_connection import FakeConnection
from tidings.delivery.remote_notices import RemoteNotices
from tidings.gateway.notices import OwnFrames
from tidings.gateway.presence import OnlineUsers, PresenceTracker, ProfileFrames
from tidings.model import limits
from tidings.model.ids import UserKey, user_key
from tidings.ports.bus import (
    BroadcastPosted,
    CopiesMade,
    InboxRead,
    Invited,
    PresenceSwitched,
    ProfileChanged,
    Retracted,
    Typing,
)


@pytest.fixture
async def gateways(tmp_path: Path, redis_url: str) -> AsyncIterator[Gateways]:
    async with some_gateways(tmp_path / "data", redis_url) as opened:
        yield opened


@asynccontextmanager
async def neighbours(gateways: Gateways, gateway: Gateway) -> AsyncIterator[RemoteNotices]:
    core = gateways.bench.core
    made = RemoteNotices(
        core.bus,
        gateway.remote_gateways,
        core.appender.state_nowait,
        core.appender.state,
        core.verbs.count_unread,
        core.blocks,
    )
    try:
        yield made
    finally:
        await made.close()


def told(line: FakeConnection, op: str) -> list[dict[str, Any]]:
    return [{**frame} for frame in line.of(op)]


async def test_nothing_is_read_for_what_happens_after_the_end(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = await gateways.open("g1")
    chat = await gateways.bench.group(ANN, BOB)
    async with neighbours(gateways, here) as notices:
        pass
    begun: list[object] = []
    monkeypatch.setattr(notices, "_begin", begun.append)
    gateways.bench.core.bus.publish(Typing(chat, ANN))
    assert begun == []


async def test_typing_reaches_members_on_other_gateways_only(gateways: Gateways) -> None:
    here, there = await gateways.open("g1"), await gateways.open("g2")
    chat = await gateways.bench.group(ANN, BOB, CAT)
    ann = await there.line().live(ANN)
    bob, cat = await there.line().live(BOB), await here.line().live(CAT)
    async with neighbours(gateways, here):
        gateways.bench.core.bus.publish(Typing(chat, ANN))
        await bob.until(lambda: bob.of("typing"))

    assert told(bob, "typing") == [{"op": "typing", "chat": chat, "user": "ann"}]
    assert not ann.of("typing")
    assert not cat.of("typing"), "those here are told here"


async def test_who_is_asked_into_a_group_is_told_everywhere(gateways: Gateways) -> None:
    here, there = await gateways.open("g1"), await gateways.open("g2")
    chat = await gateways.bench.group(ANN)
    bob, also_bob = await there.line().live(BOB), await here.line().live(BOB)
    cat = await there.line().live(CAT)
    OwnFrames(gateways.bench.core.bus, here.hub)
    async with neighbours(gateways, here):
        gateways.bench.core.bus.publish(Invited(BOB, chat, ANN))
        await bob.until(lambda: bob.of("invited"))

    asked = [{"op": "invited", "chat": chat, "user": "ann"}]
    assert told(bob, "invited") == told(also_bob, "invited") == asked
    assert not cat.of("invited")


async def test_a_changed_profile_and_who_hides_reach_peers_on_other_gateways(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PROFILE_FRAME_MS", 1)
    here, there = await gateways.open("g1"), await gateways.open("g2")
    await gateways.bench.group(ANN, BOB)
    bob, cat = await there.line().live(BOB), await there.line().live(CAT)
    ann = await there.line().live(ANN)
    core = gateways.bench.core
    frames = ProfileFrames(core.bus, here.hub, core.store.users, core.blocks, here.remote_gateways)
    try:
        core.bus.publish(ProfileChanged(ANN, "Ann", None))
        await bob.until(lambda: bob.of("profile"))
        await ann.until(lambda: ann.of("profile"))
        core.bus.publish(PresenceSwitched(ANN, True))
        await bob.until(lambda: bob.of("presence"))
        core.bus.publish(PresenceSwitched(ANN, False))
        await bob.until(lambda: len(bob.of("presence")) == 2)
    finally:
        await frames.close()
    changed = {"op": "profile", "user": "ann", "display_name": "Ann", "avatar_url": None}
    assert told(bob, "profile") == told(ann, "profile") == [changed]
    assert [frame["online"] for frame in bob.of("presence")] == [False, True]
    assert not cat.of("profile") and not cat.of("presence")
    online = OnlineUsers(here.hub, here.remote_gateways)
    assert await online([ANN, user_key("acme", "nobody")]) == {ANN}


@pytest.mark.parametrize(("blocker", "blocked"), [(ANN, BOB), (BOB, ANN)])
async def test_who_hides_or_shows_is_not_told_across_a_block_on_other_gateways(
    gateways: Gateways, blocker: UserKey, blocked: UserKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PRESENCE_TICK_MS", 1)
    here, there = await gateways.open("g1"), await gateways.open("g2")
    await gateways.bench.group(ANN, BOB, CAT)
    core = gateways.bench.core
    await core.verbs.block(blocker, blocked)
    ann, bob, cat = [await there.line().live(user) for user in (ANN, BOB, CAT)]
    frames = ProfileFrames(core.bus, here.hub, core.store.users, core.blocks, here.remote_gateways)
    try:
        core.bus.publish(PresenceSwitched(ANN, True))
        await cat.until(lambda: len(cat.of("presence")) == 1)
        core.bus.publish(PresenceSwitched(ANN, False))
        await cat.until(lambda: len(cat.of("presence")) == 2)
        here.remote_gateways.send(b'{"op":"pong"}', {"g2": [BOB]})
        await bob.until(lambda: bob.of("pong"))
    finally:
        await frames.close()
    assert [frame["online"] for frame in cat.of("presence")] == [False, True]
    assert not bob.of("presence") and not ann.of("presence")


async def test_a_receipt_reaches_others_and_the_readers_own_devices(gateways: Gateways) -> None:
    bench = gateways.bench
    here, there = await gateways.open("g1"), await gateways.open("g2")
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 2)
    await bench.core.receipts.settle(ANN, chat)  # so that nobody hears of it later
    ann, bob = await there.line().live(ANN), await there.line().live(BOB)
    async with neighbours(gateways, here):
        await bench.core.verbs.mark(BOB, chat, 3, 2)
        await bob.until(lambda: bob.of("unread") and bob.of("receipt"))
        await ann.until(lambda: ann.of("receipt"))

    (receipt,) = told(ann, "receipt")
    assert receipt == told(bob, "receipt")[0]
    assert (receipt["user"], receipt["delivered"], receipt["read"]) == ("bob", 3, 2)
    assert [(one["chat"], one["unread"]) for one in bob.of("unread")] == [(chat, 1)]
    assert not ann.of("unread")


async def test_in_a_large_chat_only_the_readers_own_devices_are_told(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SMALL_CHAT_MEMBERS_MAX", 2)
    bench = gateways.bench
    here, there = await gateways.open("g1"), await gateways.open("g2")
    chat = await bench.group(ANN, BOB, CAT)
    await bench.post(ANN, chat)
    ann, bob = await there.line().live(ANN), await there.line().live(BOB)
    async with neighbours(gateways, here):
        bench.core.bus.publish(Typing(chat, ANN))
        await bench.core.verbs.mark(BOB, chat, 2, 2)
        await bob.until(lambda: bob.of("unread"))

    assert not [*ann.of("receipt"), *ann.of("typing"), *bob.of("receipt"), *bob.of("typing")]


@pytest.mark.attack("D02")
async def test_who_has_left_the_chat_is_not_told_by_a_gateway_that_has_not_heard(
    gateways: Gateways,
) -> None:
    bench = gateways.bench
    here, there = await gateways.open("g1"), await gateways.open("g2")
    chat = await bench.group(ANN, BOB, CAT)
    bob, cat = await there.line().live(BOB), await there.line().live(CAT)
    bob.progress.leave(chat)  # the last entry has come

    async with neighbours(gateways, here):
        bench.core.bus.publish(Typing(chat, ANN))
        await cat.until(lambda: cat.of("typing"))

    assert not bob.of("typing")


async def test_gateways_are_hinted_at_what_happened_to_inboxes(gateways: Gateways) -> None:
    here, there = await gateways.open("g1"), await gateways.open("g2")
    await gateways.open("g3")
    await gateways.bench.group(ANN, BOB, CAT)
    await there.line().live(ANN)
    await here.line().live(BOB)
    await there.line().live(CAT)
    bus = gateways.bench.core.bus
    made = CopiesMade("acme", "news", "0" * 26, 7, (ANN, BOB))
    async with neighbours(gateways, here):
        bus.publish(made)
        bus.publish(InboxRead(BOB, "news"))
        bus.publish(InboxRead(CAT, "news"))
        await until(lambda: len(there.hints) == 2)
        bus.publish(BroadcastPosted("acme", "news", 1))
        bus.publish(Retracted("acme", "news", "b1"))
        await until(lambda: len(there.hints) == 4)

    assert {type(event) for event in there.hints[:2]} == {CopiesMade, InboxRead}
    assert msgspec.structs.replace(made, users=(ANN,)) in there.hints
    assert InboxRead(CAT, "news") in there.hints
    assert there.hints[2:] == [BroadcastPosted("acme", "news", 1), Retracted("acme", "news", "b1")]
    assert here.hints == [], "those here are told here"


async def test_without_redis_nobody_is_told_and_nothing_breaks(
    tmp_path: Path, own_redis: RedisServer
) -> None:
    async with some_gateways(tmp_path / "data", own_redis.address) as gateways:
        here = await gateways.open("g1")
        chat = await gateways.bench.group(ANN, BOB)
        await asyncio.to_thread(own_redis.stop)
        async with neighbours(gateways, here) as made:
            gateways.bench.core.bus.publish(Typing(chat, ANN))
            await until(lambda: not made._under_way)
        assert made.dropped == 0


async def test_beyond_a_bound_nobody_is_told(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.delivery.remote_notices.UNDER_WAY_MAX", 1)
    here = await gateways.open("g1")
    chat = await gateways.bench.group(ANN, BOB)
    async with neighbours(gateways, here) as made:
        for _ in range(3):
            gateways.bench.core.bus.publish(Typing(chat, ANN))
        assert made.dropped == 2


# Presence.


@asynccontextmanager
async def presence(gateways: Gateways, *places: Gateway) -> AsyncIterator[list[PresenceTracker]]:
    core = gateways.bench.core
    desks = [
        PresenceTracker(place.hub, core.store.users, core.clock, core.blocks, place.remote_gateways)
        for place in places
    ]
    try:
        yield desks
    finally:
        for context in desks:
            await context.close()


@pytest.fixture
def quick_presence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRESENCE_TICK_MS", 20)


def of_user(line: FakeConnection, user: str) -> Callable[[], list[bool]]:
    return lambda: [told["online"] for told in line.of("presence") if told["user"] == user]


@pytest.mark.usefixtures("quick_presence")
async def test_coming_and_going_is_told_on_other_gateways(gateways: Gateways) -> None:
    here, there = await gateways.open("g1"), await gateways.open("g2")
    await gateways.bench.group(ANN, BOB)
    async with presence(gateways, here, there):
        bob = await there.line().live(BOB)
        ann = await here.line().live(ANN)
        heard = of_user(bob, "ann")
        await bob.until(lambda: heard() == [True])

        await ann.hang_up()
        await bob.until(lambda: heard() == [True, False])


@pytest.mark.usefixtures("quick_presence")
async def test_who_is_connected_elsewhere_has_not_gone(gateways: Gateways) -> None:
    # A refresh that is under way keeps a connection that has left registered for a moment.
    here, there = [await gateways.open(name, beat_seconds=600) for name in ("g1", "g2")]
    await gateways.bench.group(ANN, BOB)
    async with presence(gateways, here, there) as (context, other):
        bob = await there.line().live(BOB)
        heard = of_user(bob, "ann")
        first = await here.line().live(ANN)
        await bob.until(lambda: heard() == [True])
        second = await there.line().live(ANN)
        await until(lambda: ANN in other._announced)

        await first.hang_up()
        await until(lambda: ANN not in context._announced)
        await second.hang_up()
        await bob.until(lambda: heard()[-1] is False)

    assert heard() == [True, False]


async def test_a_device_that_comes_is_told_who_is_connected_elsewhere(gateways: Gateways) -> None:
    here, there = await gateways.open("g1"), await gateways.open("g2")
    await gateways.bench.group(ANN, BOB, CAT)
    async with presence(gateways, here, there) as (context, _):
        await there.line().live(BOB)
        watcher = here.line()
        await context.greet(ANN, watcher)
    assert watcher.frames == [{"op": "presence", "user": "bob", "online": True}]
