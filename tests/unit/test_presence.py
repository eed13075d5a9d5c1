# SPDX-License-Identifier: Apache-2.0
"""Presence: told to peers of small chats, coalesced, with when somebody was last seen."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.users import ANN, BOB, CAT
from tests.unit.fake_connection import FakeConnection, Frame
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.gateway.presence import PresenceTracker, ProfileFrames
from tidings.model import limits
from tidings.model.ids import UserKey, rfc3339, user_id, user_key
from tidings.ports.bus import PresenceSwitched, ProfileChanged
from tidings.ports.people import ProfileFields

DAN = user_key("acme", "dan")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def presence(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PresenceTracker]:
    """Told in the next turn instead of the next second."""
    monkeypatch.setattr(limits, "PRESENCE_TICK_MS", 1)
    context = PresenceTracker(bench.hub, bench.core.store.users, bench.clock, bench.core.blocks)
    yield context
    await context.close()


def told(line: FakeConnection) -> list[tuple[str, bool]]:
    return [(frame["user"], frame["online"]) for frame in line.of("presence")]


async def snapshot(presence: PresenceTracker, watcher: FakeConnection) -> list[Frame]:
    """What a device hears on `live`, sorted by user."""
    heard = len(watcher.frames)
    await presence.greet(ANN, watcher)
    return sorted(watcher.frames[heard:], key=lambda frame: str(frame["user"]))


async def test_peers_are_told_who_comes_and_goes(
    bench: GatewayBench, presence: PresenceTracker
) -> None:
    await bench.group(ANN, BOB)
    await bench.group(CAT, DAN)
    ann, cat = await bench.line().live(ANN), await bench.line().live(CAT)
    bob = await bench.line().live(BOB)
    await ann.until(lambda: ("bob", True) in told(ann))
    bench.clock.time += 5_000
    await bob.hang_up()
    await ann.until(lambda: ("bob", False) in told(ann))

    assert told(ann) == [("bob", True), ("bob", False)]
    assert told(cat) == [], "they share no chat"
    assert ann.of("presence")[0] == {"op": "presence", "user": "bob", "online": True}
    assert ann.of("presence")[1]["last_seen"] == rfc3339(bench.clock.time)


async def test_a_second_device_is_no_news(bench: GatewayBench, presence: PresenceTracker) -> None:
    await bench.group(ANN, BOB, CAT)
    ann = await bench.line().live(ANN)
    first, second = await bench.line().live(BOB), await bench.line().live(BOB)
    await ann.until(lambda: told(ann))
    await first.hang_up()
    await bench.line().live(CAT)
    await ann.until(lambda: ("cat", True) in told(ann))
    assert told(ann) == [("bob", True), ("cat", True)]
    await second.hang_up()
    await ann.until(lambda: ("bob", False) in told(ann))


async def test_who_comes_back_at_once_was_never_gone(
    bench: GatewayBench, presence: PresenceTracker
) -> None:
    await bench.group(ANN, BOB, CAT)
    ann, bob = await bench.line().live(ANN), await bench.line().live(BOB)
    await ann.until(lambda: told(ann))
    bench.hub.closed(bob, BOB)
    assert bench.hub.enter(BOB, bob)
    await bench.line().live(CAT)
    await ann.until(lambda: ("cat", True) in told(ann))
    assert told(ann) == [("bob", True), ("cat", True)]


async def test_a_device_that_goes_live_hears_how_its_peers_are(
    bench: GatewayBench, presence: PresenceTracker
) -> None:
    await bench.group(ANN, BOB, CAT, DAN)
    await bench.line().live(BOB)
    watcher = await bench.line().live(ANN)
    cat = await bench.line().live(CAT)
    await watcher.until(lambda: ("cat", True) in told(watcher))
    await cat.hang_up()
    await watcher.until(lambda: ("cat", False) in told(watcher))
    await bench.group(ANN)  # a write after those before it

    assert await snapshot(presence, watcher) == [
        {"op": "presence", "user": "bob", "online": True},
        {
            "op": "presence",
            "user": "cat",
            "online": False,
            "last_seen": rfc3339(bench.clock.time - 1),
        },
    ], "nothing is known of Dan"


async def test_a_large_chat_makes_no_peers(bench: GatewayBench, presence: PresenceTracker) -> None:
    crowd = [user_key("acme", f"u{number}") for number in range(limits.SMALL_CHAT_MEMBERS_MAX)]
    chat = await bench.group(ANN, *crowd)
    await bench.group(ANN, CAT)
    ann = await bench.line().live(ANN)
    await bench.line().live(crowd[0])
    await bench.line().live(CAT)
    await ann.until(lambda: ("cat", True) in told(ann))
    assert told(ann) == [("cat", True)]

    await bench.core.verbs.remove_member(ANN, chat, crowd[-1])
    await bench.line().live(crowd[1])
    await ann.until(lambda: ("u1", True) in told(ann))


async def test_the_end_of_the_server_is_when_all_were_last_seen(
    bench: GatewayBench, presence: PresenceTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.group(ANN, BOB)
    ann, bob = await bench.line().live(ANN), await bench.line().live(BOB)
    await ann.until(lambda: told(ann))
    monkeypatch.setattr(limits, "PRESENCE_TICK_MS", 10**9)
    await bob.hang_up()
    bench.clock.time += 7_000
    await presence.close()

    await bench.group(ANN)  # a write after those before it
    found = await bench.core.store.users.get(BOB)
    assert found is not None
    assert found.last_seen_at == bench.clock.time - 1


async def a_crowd(bench: GatewayBench, count: int) -> list[UserKey]:
    """So many who share small chats with Ann and were seen before."""
    crowd = [user_key("acme", f"u{number:04}") for number in range(count)]
    for start in range(0, count, 40):
        await bench.group(ANN, *crowd[start : start + 40])
    bench.core.store.users.seen(dict.fromkeys(crowd, 7))
    await bench.group(CAT)  # a write after those before it
    return crowd


@pytest.mark.attack("S15")
async def test_a_device_hears_of_its_peers_in_slices_and_only_as_fast_as_it_reads(
    bench: GatewayBench, presence: PresenceTracker
) -> None:
    crowd = await a_crowd(bench, limits.PRESENCE_SLICE_PEERS + 20)
    watcher = await bench.line().live(ANN)
    watcher.pause()
    greeting = asyncio.create_task(presence.greet(ANN, watcher))
    await watcher.until(lambda: len(told(watcher)) == limits.PRESENCE_SLICE_PEERS)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(told(watcher)) == limits.PRESENCE_SLICE_PEERS, "the socket is full"
    # One of those who are told of later comes meanwhile, and is not said to be away after it.
    last = user_key("acme", sorted(set(map(user_id, crowd)) - {n for n, _ in told(watcher)})[-1])
    await bench.line().live(last)
    await watcher.until(lambda: (user_id(last), True) in told(watcher))
    watcher.resume()
    await greeting
    of_last = [is_online for name, is_online in told(watcher) if name == user_id(last)]
    assert of_last == [True, True]
    assert len({name for name, _ in told(watcher)}) == len(crowd)


@pytest.mark.attack("S15")
async def test_a_device_hears_of_so_many_peers_and_no_more(
    bench: GatewayBench, presence: PresenceTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PRESENCE_PEERS_MAX", 130)
    crowd = await a_crowd(bench, 240)
    watcher = await bench.line().live(ANN)
    await presence.greet(ANN, watcher)
    heard = {name for name, _ in told(watcher)}
    assert len(told(watcher)) == len(heard) == 130
    oldest = {user_id(one) for one in crowd[:120]}
    assert oldest <= heard, "new groups do not take the peers of old ones away"


# Hiding, and changed profiles.


@pytest.fixture
async def frames(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProfileFrames]:
    """Told in the next turn instead of after ten seconds."""
    monkeypatch.setattr(limits, "PROFILE_FRAME_MS", 1)
    made = ProfileFrames(bench.core.bus, bench.hub, bench.core.store.users, bench.core.blocks)
    yield made
    await made.close()


def profiles(line: FakeConnection) -> list[tuple[str, str | None]]:
    return [(frame["user"], frame["display_name"]) for frame in line.of("profile")]


async def hide(bench: GatewayBench, user: UserKey, *, is_hidden: bool) -> None:
    fields = ProfileFields(hidden_at=1 if is_hidden else None)
    await bench.core.store.users.put(
        user, display_name=None, phone_number=None, now=1, fields=fields
    )
    bench.core.bus.publish(PresenceSwitched(user, is_hidden))


@pytest.mark.attack("D18")
async def test_who_hides_is_offline_for_all_and_hears_of_nobody(
    bench: GatewayBench, presence: PresenceTracker, frames: ProfileFrames
) -> None:
    await bench.group(ANN, BOB, CAT)
    ann, bob = await bench.line().live(ANN), await bench.line().live(BOB)
    await ann.until(lambda: ("bob", True) in told(ann))
    await hide(bench, BOB, is_hidden=True)
    await ann.until(lambda: ("bob", False) in told(ann))
    assert ann.of("presence")[-1] == {"op": "presence", "user": "bob", "online": False}
    heard = told(bob)
    cat = await bench.line().live(CAT)
    await ann.until(lambda: ("cat", True) in told(ann))
    await presence.greet(BOB, bob)
    await presence.greet(CAT, cat)
    assert told(bob) == heard, "who hides sees nobody"
    assert told(cat) == [("ann", True)], "who hides is seen by nobody"

    await hide(bench, BOB, is_hidden=False)
    await cat.until(lambda: ("bob", True) in told(cat))
    await bob.hang_up()
    await ann.until(lambda: told(ann)[-1] == ("bob", False))
    assert "last_seen" in ann.of("presence")[-1]
    await hide(bench, BOB, is_hidden=False)  # not connected: nothing to say
    bench.core.bus.publish(ProfileChanged(ANN, "Ann", None))
    await cat.until(lambda: profiles(cat))
    assert told(cat)[-1] == ("bob", False)


@pytest.mark.parametrize(("blocker", "blocked"), [(ANN, BOB), (BOB, ANN)])
async def test_who_hides_or_shows_is_not_told_across_a_block(
    bench: GatewayBench, frames: ProfileFrames, blocker: UserKey, blocked: UserKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(limits, "PRESENCE_TICK_MS", 1)
    await bench.group(ANN, BOB, CAT)
    await bench.core.verbs.block(blocker, blocked)
    ann, cat = await bench.line().live(ANN), await bench.line().live(CAT)
    await bench.line().live(BOB)
    await hide(bench, BOB, is_hidden=True)
    await cat.until(lambda: told(cat) == [("bob", False)])
    await hide(bench, BOB, is_hidden=False)
    await cat.until(lambda: told(cat) == [("bob", False), ("bob", True)])
    assert told(ann) == []


async def test_a_changed_profile_is_told_once_to_peers_and_to_oneself(
    bench: GatewayBench, frames: ProfileFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.group(ANN, BOB)
    ann, bob, dan = [await bench.line().live(user) for user in (ANN, BOB, DAN)]
    for name in ("A", "Ann"):
        bench.core.bus.publish(ProfileChanged(ANN, name, "https://a.example"))
    await bob.until(lambda: profiles(bob))
    assert bob.of("profile") == [
        {"op": "profile", "user": "ann", "display_name": "Ann", "avatar_url": "https://a.example"}
    ]
    assert (profiles(ann), profiles(dan)) == ([("ann", "Ann")], [])

    monkeypatch.setattr(limits, "PROFILE_FRAME_CONNECTIONS_MAX", 1)
    bench.core.bus.publish(ProfileChanged(ANN, "Anna", None))
    await ann.until(lambda: ("ann", "Anna") in profiles(ann))
    assert len(profiles(bob)) == 1, "there is a limit"


async def test_changes_that_wait_are_so_many(
    bench: GatewayBench, frames: ProfileFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.gateway.presence.CHANGES_WAITING_MAX", 1)
    monkeypatch.setattr(limits, "PROFILE_FRAME_MS", 10**9)
    for user in (ANN, ANN, BOB):
        bench.core.bus.publish(ProfileChanged(user, "x", None))
    assert frames.dropped == 1
    for user in (ANN, ANN, BOB):
        bench.core.bus.publish(PresenceSwitched(user, True))
    assert frames.dropped == 2


async def test_presence_that_is_switched_often_is_told_once(
    bench: GatewayBench, presence: PresenceTracker, frames: ProfileFrames
) -> None:
    await bench.group(ANN, BOB)
    ann, bob = await bench.line().live(ANN), await bench.line().live(BOB)
    await ann.until(lambda: ("bob", True) in told(ann))
    heard = len(told(ann))
    for is_hidden in (True, False, True, False, True):
        bench.core.bus.publish(PresenceSwitched(BOB, is_hidden))
    await ann.until(lambda: ("bob", False) in told(ann))
    await hide(bench, BOB, is_hidden=False)
    await ann.until(lambda: told(ann)[-1] == ("bob", True))
    assert told(ann)[heard:] == [("bob", False), ("bob", True)]
    await bob.hang_up()
