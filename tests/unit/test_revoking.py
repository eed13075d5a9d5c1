# SPDX-License-Identifier: Apache-2.0
"""Sockets whose right to be here ended, and a process that cannot tell."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from tests.support.users import ANN, BOB
from tests.support.waiting import some_turns, until
from tests.unit.fake_connection import FakeConnection
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.identity.caller import UserCaller
from tidings.actions.identity.revocation_watch import LATE_LOOKS_MAX, RevocationWatch
from tidings.gateway.closing import RevocationCloser
from tidings.gateway.http.handshake import Handshake
from tidings.model.ids import UserKey, user_key
from tidings.model.refusals import StoreUnavailable
from tidings.ports.sessions import Erasure, Revocation, Revocations, RevokedKind
from tidings.wire.codes import Close

CHAT = "01HZZZZZZZZZZZZZZZZZZZZZZZ"

EVE = user_key("other", "eve")
LOOK_SECONDS = 0.01


class Feed:
    """The real feed, out of reach while a test says so."""

    def __init__(self, real: Revocations) -> None:
        self._real = real
        self.is_up = True
        self.hangs = False
        self.answers_late = False
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
        found = await self._real.after(place)
        if self.answers_late:
            await some_turns()
        return found

    async def erasures(self, tenant: str, after: int, limit: int) -> list[Erasure]:
        return await self._real.erasures(tenant, after, limit)


class Watched:
    """A gateway with a watch on the feed."""

    def __init__(self, bench: GatewayBench) -> None:
        self.bench = bench
        self.feed: Feed = Feed(bench.core.store.revocations)
        self.write_lease = bench.context.write_lease
        self.counting = True
        self.asked: list[UserCaller] = []

    @asynccontextmanager
    async def watch(
        self, blind_seconds_max: float = 600, now: Callable[[], float] = monotonic
    ) -> AsyncIterator[None]:
        watch = RevocationWatch(
            self.feed, now=now, look_seconds=LOOK_SECONDS, blind_seconds_max=blind_seconds_max
        )
        closer = RevocationCloser(self.bench.hub, self.write_lease, self._is_valid)
        watch.listen(closer.revoked)
        watch.report_to(closer)
        await watch.start()
        try:
            yield
        finally:
            await watch.close()
            await closer.close()

    async def _is_valid(self, caller: UserCaller) -> bool:
        """What the store says of a token."""
        self.asked.append(caller)
        return self.counting

    async def live(self, user: UserKey, said: str = "") -> FakeConnection:
        """A line whose token says this about itself."""
        return await self.bench.line().live(UserKey(f"{user}?{said}"))

    async def revoke(self, kind: RevokedKind, subject: str, at: int = 1) -> None:
        await self.feed.append(Revocation(kind=kind, subject=subject, at=at))


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    async with a_gateway(tmp_path / "data") as bench:
        yield Watched(bench)


async def closes(line: FakeConnection) -> None:
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


@pytest.mark.attack("A12")
@pytest.mark.parametrize(
    ("kind", "subject", "said"),
    [
        ("tenant_key", "k1", "made_by=k1"),
        ("session", "s1", "session=s1"),
        ("signing_key", "acme.0123456789abcdef", "key_id=acme.0123456789abcdef"),
        ("signing_key", "acme.own.one", "key_id=acme.own.one"),
    ],
)
async def test_whoever_stands_on_what_ended_is_cut_off_and_nobody_else(
    watched: Watched, kind: RevokedKind, subject: str, said: str
) -> None:
    name = said.partition("=")[0]
    on_it = await watched.live(ANN, said)
    on_another = await watched.live(ANN, f"{name}={subject}2")
    on_none = await watched.live(BOB)
    waiting = watched.bench.line()
    async with watched.watch():
        await watched.revoke(kind, subject)
        await closes(on_it)
    assert on_it.closes == [Close.NOT_AUTHENTICATED]
    assert (on_another.closes, on_none.closes, waiting.closes) == ([], [], [])


@pytest.mark.attack("A12")
async def test_a_token_given_after_the_user_s_were_revoked_counts_if_the_store_says_so(
    watched: Watched,
) -> None:
    before, at_once, after = [
        await watched.live(ANN, f"issued_at={time}") for time in (4_000, 5_000, 6_000)
    ]
    async with watched.watch():
        await watched.revoke("user", ANN, at=5_000)
        await until(lambda: watched.asked)
    assert (before.closes, at_once.closes) == ([Close.NOT_AUTHENTICATED],) * 2
    assert after.closes == []
    assert [caller.issued_at for caller in watched.asked] == [6_000]


@pytest.mark.attack("A13")
async def test_a_deactivated_user_whose_token_is_ahead_of_our_clock_is_cut_off(
    watched: Watched,
) -> None:
    watched.counting = False
    ann = await watched.live(ANN, "issued_at=6000")
    async with watched.watch():
        await watched.revoke("user", ANN, at=5_000)
        await closes(ann)
    assert ann.closes == [Close.NOT_AUTHENTICATED]


@pytest.mark.attack("A12")
async def test_what_counts_is_the_token_that_was_shown_last(watched: Watched) -> None:
    ann = await watched.live(ANN, "session=s1")
    ann.say("auth", token=f"{ANN}?session=s2")
    await until(lambda: ann.conversation.caller and ann.conversation.caller.session == "s2")
    bob = await watched.live(BOB, "session=s3")
    async with watched.watch():
        await watched.revoke("session", "s1")
        await watched.revoke("session", "s3")
        await closes(bob)
        assert ann.closes == []
        await watched.revoke("session", "s2")
        await closes(ann)


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
        assert watched.write_lease.is_blind
        assert status_of_a_handshake(watched) == 503

        watched.feed.is_up, watched.feed.hangs = True, False
        await until(lambda: not watched.write_lease.is_blind)
        assert status_of_a_handshake(watched) is None


async def test_a_short_trouble_is_survived(watched: Watched) -> None:
    ann = await watched.bench.line().live(ANN)
    async with watched.watch():
        watched.feed.is_up = False
        await watched.revoke("user", ANN)
        looks = next(watched.feed.looks)
        await until(lambda: next(watched.feed.looks) > looks + 1)
        assert (ann.closes, watched.write_lease.is_blind) == ([], False)
        watched.feed.is_up = True
        await closes(ann)
    assert ann.closes == [Close.NOT_AUTHENTICATED]


class LateFeed(Feed):
    """A feed that answers at once, to a process that is late: the clock leaps during the look."""

    def __init__(self, real: Revocations, late_looks: int) -> None:
        super().__init__(real)
        self.time = 1_000.0
        self.late_looks_left = late_looks
        self.was_late = False
        self.after_a_late_look: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.time

    async def after(self, place: int) -> list[Revocation]:
        if self.was_late:
            self.after_a_late_look()
        self.was_late = bool(self.late_looks_left)
        if self.was_late:
            self.late_looks_left -= 1
            self.time += 60
            raise StoreUnavailable  # as a time limit says that is over when the loop goes on
        return await super().after(place)


@pytest.mark.attack("S03", "F10")
@pytest.mark.parametrize(
    ("late_looks", "is_closed"), [(1, False), (LATE_LOOKS_MAX, False), (LATE_LOOKS_MAX + 1, True)]
)
async def test_a_process_that_was_late_itself_looks_again_before_it_closes_anybody(
    watched: Watched, late_looks: int, is_closed: bool
) -> None:
    ann, bob = [await watched.bench.line().live(user) for user in (ANN, BOB)]
    feed = watched.feed = LateFeed(watched.bench.core.store.revocations, late_looks)
    found: list[tuple[int | None, str]] = []

    def look_around() -> None:
        bob.say("send", id="1", chat=CHAT, client_message_id="1", content="late")
        found.append((status_of_a_handshake(watched), bob.frames[-1]["code"]))

    feed.after_a_late_look = look_around
    async with watched.watch(blind_seconds_max=5, now=feed.now):
        await until(lambda: not feed.late_looks_left)
        await watched.revoke("user", BOB)
        await closes(bob)
    assert bool(ann.closes) is is_closed
    assert found == [(503, "store.unavailable")] * min(late_looks, LATE_LOOKS_MAX)


class PausedFeed(Feed):
    """A feed that answers at once, but only the second look after a pause of the process."""

    def __init__(self, real: Revocations) -> None:
        super().__init__(real)
        self.time = 1_000.0
        self.was_paused = False

    def now(self) -> float:
        return self.time

    async def after(self, place: int) -> list[Revocation]:
        if self.was_paused:
            self.was_paused = False
            self.time += 0.06
            await asyncio.Event().wait()
        return await super().after(place)


@pytest.mark.attack("F10")
async def test_a_process_that_was_paused_before_a_look_closes_nobody(watched: Watched) -> None:
    ann, bob = [await watched.bench.line().live(user) for user in (ANN, BOB)]
    feed = watched.feed = PausedFeed(watched.bench.core.store.revocations)
    async with watched.watch(blind_seconds_max=5, now=feed.now):
        await some_turns()
        feed.time += 4.95  # which leaves 0.05 s to the look
        feed.was_paused = True
        await until(lambda: not feed.was_paused)
        await watched.revoke("user", BOB)
        await closes(bob)
    assert ann.closes == []


def status_of_a_handshake(watched: Watched) -> int | None:
    """What a client that opens a socket is answered; None if it is let in."""
    headers = [
        (b"host", b"x"),
        (b"connection", b"upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-version", b"13"),
        (b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ=="),
    ]
    refusal = Handshake(watched.bench.context, frozenset()).refusal(headers, None)
    return None if refusal is None else int(refusal.split()[1])


@pytest.mark.attack("A12")
async def test_a_revocation_that_a_listener_does_not_take_is_reported_again(
    watched: Watched,
) -> None:
    watch = RevocationWatch(watched.feed, look_seconds=600)
    taken: list[Revocation] = []
    surprises = iter([True, False])

    def listen(revocations: Sequence[Revocation]) -> None:
        if next(surprises):
            raise ValueError("a surprise")
        taken.extend(revocations)

    watch.listen(listen)
    await watch.start()
    try:
        await watched.revoke("user", ANN)
        assert not await watch.look(), "as good as unread"
        assert await watch.look()
    finally:
        await watch.close()
    assert [revocation.subject for revocation in taken] == [ANN]


async def test_a_look_at_the_feed_while_the_watch_starts_skips_no_later_revocation(
    watched: Watched,
) -> None:
    for user in (ANN, EVE):
        await watched.revoke("user", user)
    watch = RevocationWatch(watched.feed, look_seconds=600)
    taken: list[Revocation] = []
    watch.listen(taken.extend)
    watched.feed.answers_late = True
    try:
        await asyncio.gather(watch.look(), watch.start())
        taken.clear()
        await watched.revoke("user", BOB)
        assert await watch.look()
    finally:
        await watch.close()
    assert [revocation.subject for revocation in taken] == [BOB]
