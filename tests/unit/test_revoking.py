# SPDX-License-Identifier: Apache-2.0
"""Sockets whose right to be here ended, and a process that cannot tell."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from picows import WSUpgradeRequest, WSUpgradeResponseWithListener

from tests.unit.fake_line import FakeLine
from tests.unit.gateway_bench import ANN, BOB, GatewayBench, a_gateway
from tidings.gateway.handshake import Handshake
from tidings.gateway.revoking import RevocationWatch
from tidings.model.ids import user_key
from tidings.model.refusals import StoreUnavailable
from tidings.ports.revocations import Revocation, Revocations, RevokedKind
from tidings.wire.codes import Close

EVE = user_key("other", "eve")
LOOK_SECONDS = 0.01


class Feed:
    """The real feed, out of reach while a test says so."""

    def __init__(self, real: Revocations) -> None:
        self._real = real
        self.is_up = True
        self.hangs = False
        self.looks = itertools.count()

    async def append(self, revocation: Revocation) -> None:
        await self._real.append(revocation)

    async def head(self) -> int:
        return await self._real.head()

    async def after(self, place: int) -> list[Revocation]:
        next(self.looks)
        if self.hangs:
            await asyncio.Event().wait()
        if not self.is_up:
            raise StoreUnavailable
        return await self._real.after(place)


class Watched:
    """A gateway with a watch on the feed."""

    def __init__(self, bench: GatewayBench) -> None:
        self.bench = bench
        self.feed = Feed(bench.core.store.revocations)
        self.vigil = bench.desk.vigil

    @asynccontextmanager
    async def watch(self, blind_seconds_max: float = 600) -> AsyncIterator[None]:
        watch = RevocationWatch(
            self.feed,
            self.bench.hub,
            self.vigil,
            look_seconds=LOOK_SECONDS,
            blind_seconds_max=blind_seconds_max,
        )
        await watch.start()
        try:
            yield
        finally:
            await watch.close()

    async def revoke(self, kind: RevokedKind, subject: str) -> None:
        await self.feed.append(Revocation(kind=kind, subject=subject, at=1))


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    async with a_gateway(tmp_path / "data") as bench:
        yield Watched(bench)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


async def closes(line: FakeLine) -> None:
    await until(lambda: line.closes)


async def test_a_revoked_user_is_cut_off_and_nobody_else(watched: Watched) -> None:
    ann, bob = [await watched.bench.line().live(user) for user in (ANN, BOB)]
    async with watched.watch():
        await watched.revoke("user", ANN)
        await closes(ann)
    assert (ann.closes, bob.closes) == ([Close.NOT_AUTHENTICATED], [])


async def test_all_users_of_a_revoked_tenant_are_cut_off(watched: Watched) -> None:
    ann, eve = [await watched.bench.line().live(user) for user in (ANN, EVE)]
    waiting = watched.bench.line()
    async with watched.watch():
        await watched.revoke("tenant", "acme")
        await closes(ann)
    assert (eve.closes, waiting.closes) == ([], [])


async def test_a_revoked_tenant_key_cuts_nobody_off(watched: Watched) -> None:
    ann, bob = [await watched.bench.line().live(user) for user in (ANN, BOB)]
    async with watched.watch():
        await watched.revoke("tenant_key", "k1")
        await watched.revoke("user", BOB)
        await closes(bob)
    assert ann.closes == []


async def test_what_was_revoked_before_the_start_is_no_news(watched: Watched) -> None:
    await watched.revoke("user", ANN)
    ann, bob = [await watched.bench.line().live(user) for user in (ANN, BOB)]
    async with watched.watch():
        await watched.revoke("user", BOB)
        await closes(bob)
    assert ann.closes == []


async def test_each_revocation_is_carried_out_once(watched: Watched) -> None:
    ann = await watched.bench.line().live(ANN)
    async with watched.watch():
        await watched.revoke("user", ANN)
        await closes(ann)
        again = await watched.bench.line().live(ANN)
        looks = next(watched.feed.looks)
        await until(lambda: next(watched.feed.looks) > looks + 10)
    assert again.closes == []


@pytest.mark.parametrize("hangs", [False, True])
async def test_who_cannot_read_the_feed_closes_and_lets_nobody_in(
    watched: Watched, hangs: bool
) -> None:
    ann = await watched.bench.line().live(ANN)
    async with watched.watch(blind_seconds_max=0.05):
        watched.feed.is_up, watched.feed.hangs = hangs, hangs
        await closes(ann)
        assert ann.closes[0] is Close.OVERLOADED
        assert watched.vigil.is_blind
        assert status_of_a_handshake(watched) == 503

        watched.feed.is_up, watched.feed.hangs = True, False
        await until(lambda: not watched.vigil.is_blind)
        assert status_of_a_handshake(watched) is None


async def test_a_short_trouble_is_survived(watched: Watched) -> None:
    ann = await watched.bench.line().live(ANN)
    async with watched.watch():
        watched.feed.is_up = False
        await watched.revoke("user", ANN)
        looks = next(watched.feed.looks)
        await until(lambda: next(watched.feed.looks) > looks + 1)
        assert (ann.closes, watched.vigil.is_blind) == ([], False)
        watched.feed.is_up = True
        await closes(ann)
    assert ann.closes == [Close.NOT_AUTHENTICATED]


def status_of_a_handshake(watched: Watched) -> int | None:
    """What a client that opens a socket is answered; None if it is let in."""

    class Request:
        path = b"/v1/ws"
        headers: "dict[str, str]" = {}  # noqa: RUF012

    class Headers(dict[str, str]):
        def getall(self, name: str, default: list[str]) -> list[str]:
            return [self[name]] if name in self else default

    request = Request()
    request.headers = Headers({"Sec-WebSocket-Version": "13", "Connection": "upgrade"})
    handshake = Handshake(watched.bench.desk, frozenset())
    answer = handshake._admit(cast(WSUpgradeRequest, request))
    if isinstance(answer, WSUpgradeResponseWithListener):
        return int(answer.response.status)
    return None
