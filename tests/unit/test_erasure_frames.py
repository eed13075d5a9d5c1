# SPDX-License-Identifier: Apache-2.0
"""Devices are told whose content was erased: at hello what they missed, then as it happens."""

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tests.unit.fake_connection import FakeConnection, Frame
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.gateway.erasures import ErasureFrames, RecentErasures
from tidings.model import limits
from tidings.model.ids import UserKey, user_key
from tidings.model.refusals import StoreUnavailable
from tidings.ports.sessions import Erasure, Revocation, Revocations
from tidings.wire.codes import Close
from tidings.wire.frames import ErasedAuthor

EVE = user_key("other", "eve")


class CountedFeed:
    """The store's feed, which counts the reads of a tenant's erasures."""

    def __init__(self, real: Revocations) -> None:
        self._real = real
        self.reads = 0
        self.is_up = True
        self.meanwhile: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def after(self, position: int) -> list[Revocation]:
        if not self.is_up:
            raise StoreUnavailable
        return await self._real.after(position)

    async def erasures(self, tenant: str, after: int, limit: int) -> list[Erasure]:
        self.reads += 1
        found = await self._real.erasures(tenant, after, limit)
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            await meanwhile()
        return found


class Teller:
    """A gateway that tells erasures, and a feed that is read when a test says so."""

    def __init__(self, bench: GatewayBench, feed: Any, watch: RevocationWatch) -> None:
        self.feed = feed
        self.watch = watch
        self._bench = bench
        frames = ErasureFrames(bench.hub, watch, feed, bench.context.epoch, b"salt")
        self._context = replace(bench.context, tell_erasures=frames.greet)

    def line(self) -> FakeConnection:
        return self._bench.line(context=self._context)

    async def live(self, user: UserKey = ANN, **hello: Any) -> FakeConnection:
        return await self.line().live(user, **hello)

    async def erase(self, *authors: str) -> None:
        """Append erasures to the feed, which the gateway has not read yet."""
        for author in authors:
            await self.feed.append(Revocation(kind="author", subject=author, at=NOW))


@asynccontextmanager
async def a_teller(bench: GatewayBench) -> AsyncIterator[Teller]:
    feed: Any = CountedFeed(bench.core.store.revocations)
    watch = RevocationWatch(feed, look_seconds=3_600)
    await watch.start()
    try:
        yield Teller(bench, feed, watch)
    finally:
        await watch.close()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
async def teller(bench: GatewayBench) -> AsyncIterator[Teller]:
    async with a_teller(bench) as opened:
        yield opened


def digest(user: str) -> str:
    return hmac.digest(b"salt", user.encode(), "sha256")[:8].hex()


def erased(*users: str, n: int) -> Frame:
    authors = [{"digest": digest(user), "before": "2027-01-15T08:00:00.000Z"} for user in users]
    return {"op": "erased", "salt": b"salt".hex(), "authors": authors, "n": n}


async def test_a_device_is_told_before_live_what_it_missed_in_its_tenant(teller: Teller) -> None:
    await teller.erase("acme:gil", "other:eve", "acme:hal")
    await teller.watch.look()

    line = await teller.live(erasures=0)
    assert line.ops == ["welcome", "erased", "live"]
    assert line.of("erased") == [erased("gil", "hal", n=3)]
    assert (await teller.live(erasures=1)).of("erased") == [erased("hal", n=3)]
    assert (await teller.live(erasures=3)).of("erased") == [erased(n=3)]
    assert (await teller.live(EVE, erasures=0)).of("erased") == [erased("eve", n=2)]


async def test_who_does_not_ask_is_told_nothing(teller: Teller) -> None:
    line = await teller.live()
    await teller.erase("acme:gil")
    await teller.watch.look()
    assert line.of("erased") == []


def watched(line: FakeConnection) -> list[Frame]:
    """The erasures that the watcher of a device's frames will see."""
    seen: list[Frame] = []

    def saw(frame: bytes) -> None:
        told = msgspec.json.decode(frame)
        if told["op"] == "erased":
            seen.append(told)

    line.watch_frames(saw)
    return seen


async def test_totals_are_counted_again_on_devices_that_did_not_ask(teller: Teller) -> None:
    line, without = await teller.live(ANN, totals=True), await teller.live(ANN)
    stranger = await teller.live(EVE, totals=True)
    seen = [watched(one) for one in (line, without, stranger)]
    await teller.erase("acme:gil")
    await teller.watch.look()
    assert seen == [[erased("gil", n=1)], [], []]
    assert line.of("erased") == []


async def test_devices_are_told_live_and_only_those_of_the_tenant(teller: Teller) -> None:
    ann, bob = await teller.live(ANN, erasures=0), await teller.live(BOB, erasures=0)
    eve = await teller.live(EVE, erasures=0)
    await teller.feed.append(Revocation(kind="data_key", subject="acme:gil", at=NOW))
    await teller.erase("acme:gil", "acme:hal")
    await teller.watch.look()
    for line in (ann, bob):
        assert line.of("erased") == [erased(n=0), erased("gil", "hal", n=3)]
    assert eve.of("erased") == [erased(n=0)]


async def test_the_store_is_read_once_for_a_tenant(teller: Teller) -> None:
    await teller.erase("acme:gil", "acme:hal")
    await teller.watch.look()
    await teller.live(erasures=1)
    await teller.erase("acme:ida")
    await teller.watch.look()
    for place, users in ((1, ["hal", "ida"]), (2, ["ida"])):
        assert (await teller.live(erasures=place)).of("erased") == [erased(*users, n=3)]
    assert teller.feed.reads == 1
    assert (await teller.live(erasures=0)).of("erased") == [erased("gil", "hal", "ida", n=3)]
    assert teller.feed.reads == 2, "what was read before did not reach so far back"


async def test_what_is_erased_while_the_store_is_read_is_not_missed(teller: Teller) -> None:
    async def meanwhile() -> None:
        await teller.erase("acme:hal")
        await teller.watch.look()

    await teller.erase("acme:gil")
    await teller.watch.look()
    teller.feed.meanwhile = meanwhile
    assert (await teller.live(erasures=0)).of("erased") == [erased("gil", "hal", n=2)]


async def test_a_place_that_another_gateway_named_is_known(teller: Teller) -> None:
    await teller.erase("acme:gil", "acme:hal")
    assert (await teller.live(erasures=1)).of("erased") == [erased("hal", n=2)]


@pytest.mark.parametrize("hello", [{"erasures": 3}, {"erasures": 2, "epoch": "before"}])
async def test_who_names_an_unknown_place_drops_all(teller: Teller, hello: Any) -> None:
    await teller.erase("acme:gil", "acme:hal")
    await teller.watch.look()
    line = await teller.live(**hello)
    assert line.of("erased") == [{"op": "erased", "all": True, "n": 2}]
    await teller.erase("acme:ida")
    await teller.watch.look()
    assert line.of("erased")[1:] == [erased("ida", n=3)]


async def test_without_the_feed_nobody_is_told_to_drop_all(teller: Teller) -> None:
    teller.feed.is_up = False
    line = teller.line()
    line.say("hello", token=ANN, device="phone", erasures=1)
    await line.until(lambda: line.closes)
    assert line.closes == [Close.OVERLOADED]


async def test_many_are_told_in_portions_and_too_many_not_at_all(
    teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ERASURES_FRAME_MAX", 2)
    monkeypatch.setattr(limits, "ERASURES_MAX", 3)
    await teller.erase("acme:a", "acme:b", "acme:c", "acme:d")
    await teller.watch.look()
    portions = [erased("b", "c", n=3), erased("d", n=4)]
    all_of_them = [{"op": "erased", "all": True, "n": 4}]
    for _ in range(2):
        assert (await teller.live(erasures=0)).of("erased") == all_of_them
        assert (await teller.live(erasures=1)).of("erased") == portions
    assert teller.feed.reads == 1, "that there are too many is known, too"

    await teller.erase("acme:e")
    await teller.watch.look()
    assert (await teller.live(erasures=1)).of("erased") == [{"op": "erased", "all": True, "n": 5}]
    assert (await teller.live(erasures=2)).of("erased") == [erased("c", "d", n=4), erased("e", n=5)]


async def test_many_devices_at_once_share_one_read(teller: Teller) -> None:
    await teller.erase("acme:gil")
    await teller.watch.look()
    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(teller.live(UserKey(f"acme:u{number}"), erasures=0))
    assert teller.feed.reads == 1


def test_an_erasure_that_the_store_named_before_the_feed_counts_once() -> None:
    one, other = ErasedAuthor("1", ""), ErasedAuthor("2", "")
    recent = RecentErasures(0, [(7, one)])
    recent.add([(7, one), (9, other)])
    assert recent.since(0) == [(7, one), (9, other)]
    assert recent.since(7) == [(9, other)]
