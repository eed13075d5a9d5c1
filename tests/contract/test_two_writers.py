# SPDX-License-Identifier: Apache-2.0
"""Two appenders on one store, as in two processes: a send that loses its slot, and its repeats."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.contract.builders import a_chat, added, key, message, page, removed
from tests.contract.engines import Store
from tests.support.clock import ManualClock
from tests.support.users import ANN, BOB
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import AwaitedChange
from tidings.actions.chat.chat_queue import AppendRequest
from tidings.assembly.system import SystemChance, back_off
from tidings.buses.in_process import InProcessBus
from tidings.logs.requests import Requests
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, SendKey
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatBusy, ChatNotFound, Refusal, SendConflict
from tidings.ports.log import Declined, Log
from tidings.tracing.spans import Span

Meanwhile = Callable[[], Awaitable[object]]


class Sending:
    """A message on its way."""

    def __init__(self, sender: UserKey, cmid: str, after: int | None, digest: bytes) -> None:
        self._sender, self._cmid = sender, cmid
        self.key: SendKey | None = key(message(sender, cmid=cmid), digest, after=after)
        self.is_claimed = False
        self.goes_alone = False
        self.attempts = 0
        self.was_looked_into = False
        self.requests: Requests = ()
        self.span: Span | None = None
        self.is_ready = True
        self.answer: asyncio.Future[tuple[Entry, bool]] = asyncio.get_running_loop().create_future()
        """The message, and whether it had been sent before."""

    async def prepare(self) -> None:
        raise AssertionError("it is ready")

    def decide(self, state: ChatState, _now: int) -> list[Entry]:
        if self._sender not in state.members:
            raise ChatNotFound
        entry = message(self._sender, cmid=self._cmid)
        entry.chat_id = state.chat_id
        return [entry]

    def kept(self, entries: list[Entry]) -> None:
        self.answer.set_result((entries[0], False))

    def replayed(self, entry: Entry) -> None:
        self.answer.set_result((entry, True))

    def declined(self, declined: Declined) -> None:
        raise AssertionError(declined)

    def refused(self, refusal: Refusal) -> None:
        self.answer.set_exception(refusal)


class WatchedLog:
    """A log around the reading of whose tail something else can happen."""

    def __init__(
        self, log: Log, *before_tails: Meanwhile, after_tails: Sequence[Meanwhile] = ()
    ) -> None:
        self._log = log
        self._before = list(before_tails)
        self._after = list(after_tails)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def tail(self, chat: ChatId, after: int) -> list[Entry]:
        if self._before:
            await self._before.pop(0)()
        entries = await self._log.tail(chat, after)
        if self._after:
            await self._after.pop(0)()
        return entries


@asynccontextmanager
async def appender_on(log: Log, clock: ManualClock | None = None) -> AsyncIterator[Appender]:
    appender = Appender(log, InProcessBus(), clock or ManualClock(), SystemChance(), back_off)
    yield appender
    await appender.close()


async def sent(
    appender: Appender,
    chat: ChatState,
    sender: UserKey,
    cmid: str,
    after: int | None = None,
    digest: bytes = b"digest",
) -> tuple[int, bool]:
    """Send; the sequence, and whether it had been sent before."""
    sending = Sending(sender, cmid, after, digest)
    appender.propose(chat.chat_id, sending)
    entry, was_sent = await sending.answer
    return entry.sequence, was_sent


async def sent_late(
    log: Log, chat: ChatState, sender: UserKey, *, before: Appender
) -> tuple[int, bool]:
    """Send "once" through an appender that does not know what another one wrote before."""
    async with appender_on(log) as late:
        await sent(late, chat, ANN, "first")
        await sent(before, chat, ANN, "in the way")
        return await sent(late, chat, sender, "once")


async def changed(appender: Appender, chat: ChatState, entry: Entry) -> None:
    """Have somebody come or go."""
    entry.chat_id = chat.chat_id
    change = AwaitedChange(lambda _state, _now: [entry])
    appender.propose(chat.chat_id, change)
    await change.answer


async def messages(store: Store, chat: ChatState) -> list[str | None]:
    found = await page(store, chat)
    return [entry.client_message_id for entry in found.entries if entry.kind == "message"]


@pytest.fixture
async def chat(store: Store) -> ChatState:
    return await a_chat(store)


@pytest.fixture
async def other(store: Store) -> AsyncIterator[Appender]:
    async with appender_on(store.log) as appender:
        yield appender


async def test_who_loses_a_slot_sends_after_the_winner(
    store: Store, chat: ChatState, other: Appender
) -> None:
    async with appender_on(store.log) as one:
        assert await sent(one, chat, ANN, "a1") == (2, False)
        assert await sent(other, chat, BOB, "b1") == (3, False)
        assert await sent(one, chat, ANN, "a2") == (4, False)
        assert await sent(one, chat, ANN, "a2") == (4, True)
        assert await sent(other, chat, ANN, "a2") == (4, True)
    assert await messages(store, chat) == ["a1", "b1", "a2"]


async def test_a_repeat_elsewhere_that_wins_meanwhile_is_the_one_message(
    store: Store, chat: ChatState, other: Appender
) -> None:
    async def repeat_elsewhere() -> None:
        assert await sent(other, chat, ANN, "once") == (4, False)

    log = WatchedLog(store.log, repeat_elsewhere)
    assert await sent_late(log, chat, ANN, before=other) == (4, True)
    assert await messages(store, chat) == ["first", "in the way", "once"]


async def test_a_repeat_elsewhere_while_the_sender_was_away_is_the_one_message(
    store: Store, chat: ChatState, other: Appender
) -> None:
    async def let_bob_go() -> None:
        await changed(other, chat, removed(BOB))

    async def have_bob_back_who_repeats() -> None:
        await changed(other, chat, added(BOB))
        assert await sent(other, chat, BOB, "once") == (6, False)

    log = WatchedLog(store.log, let_bob_go, have_bob_back_who_repeats)
    assert await sent_late(log, chat, BOB, before=other) == (6, True)
    assert await messages(store, chat) == ["first", "in the way", "once"]


async def test_who_gave_up_is_sent_once_when_it_is_repeated(store: Store, chat: ChatState) -> None:
    clock = ManualClock()

    async def be_in_the_way() -> None:
        clock.time += limits.SECOND_MS  # the lucky one is not busy, so nobody waits for its turn
        await sent(lucky, chat, BOB, f"in the way {len(await messages(store, chat))}")

    attempts = limits.SLOT_ATTEMPTS_MAX
    log = WatchedLog(store.log, after_tails=[be_in_the_way] * (attempts - 1))
    async with appender_on(store.log, clock) as lucky, appender_on(log) as unlucky:
        await sent(unlucky, chat, ANN, "first")
        await be_in_the_way()
        with pytest.raises(ChatBusy):
            await sent(unlucky, chat, ANN, "once")
        assert "once" not in await messages(store, chat)
        answers = [await sent(writer, chat, ANN, "once") for writer in (unlucky, lucky, unlucky)]
    place = 2 + attempts + 1
    assert answers == [(place, False), (place, True), (place, True)]


async def test_the_same_sends_through_two_writers_at_once_are_one_message_each(
    store: Store, chat: ChatState, other: Appender
) -> None:
    cmids = [f"m{number}" for number in range(12)]
    async with appender_on(store.log) as one:
        for cmid in cmids:
            answers = await asyncio.gather(
                *(sent(appender, chat, ANN, cmid) for appender in (one, other, one, other))
            )
            assert len({sequence for sequence, _ in answers}) == 1
            assert [was_sent for _, was_sent in answers].count(False) == 1
    assert await messages(store, chat) == cmids


async def test_a_send_that_tells_what_was_there_before_is_found_again_by_everyone(
    store: Store, chat: ChatState, other: Appender
) -> None:
    async with appender_on(store.log) as one, appender_on(store.log) as cold:
        assert await sent(one, chat, ANN, "a1", after=1) == (2, False)
        assert await sent(one, chat, ANN, "a1", after=1) == (2, True)
        assert await sent(other, chat, BOB, "b1", after=2) == (3, False)
        assert await sent(one, chat, ANN, "a2", after=2) == (4, False)
        assert await sent(other, chat, ANN, "a2", after=2) == (4, True)
        assert await sent(cold, chat, ANN, "a1", after=1) == (2, True)
        assert await sent(cold, chat, BOB, "b2", after=1) == (5, False)
        assert await sent(one, chat, BOB, "b2", after=1) == (5, True)
        for appender in (one, other, cold):
            with pytest.raises(SendConflict):
                await sent(appender, chat, ANN, "a1", after=1, digest=b"DIGEST")
    assert await messages(store, chat) == ["a1", "b1", "a2", "b2"]


async def test_who_knows_later_entries_than_the_writer_needs_no_key(
    store: Store, chat: ChatState, other: Appender
) -> None:
    async with appender_on(store.log) as one:
        assert await sent(one, chat, ANN, "a1", after=1) == (2, False)
        assert await sent(other, chat, BOB, "b1", after=2) == (3, False)
        assert await sent(one, chat, ANN, "a2", after=3) == (4, False)
    found = await page(store, chat)
    assert (found.entries[-1].digest is not None) == store.log.takes_after


async def test_who_was_removed_learns_that_the_message_was_sent(
    store: Store, chat: ChatState, other: Appender
) -> None:
    assert await sent(other, chat, BOB, "b1", after=1) == (2, False)
    await changed(other, chat, removed(BOB))
    async with appender_on(store.log) as cold:
        assert await sent(cold, chat, BOB, "b1", after=1) == (2, True)
        with pytest.raises(ChatNotFound):
            await sent(cold, chat, BOB, "b2", after=1)


@pytest.mark.parametrize("after", [None, 1])
async def test_many_sends_at_once_are_one_message_each(
    store: Store, chat: ChatState, other: Appender, after: int | None
) -> None:
    cmids = [f"m{number}" for number in range(70)]
    async with appender_on(store.log) as one:
        answers = [
            await asyncio.gather(*(sent(appender, chat, ANN, cmid, after) for cmid in cmids))
            for appender in (one, other)
        ]
        assert answers[1] == [(sequence, True) for sequence, _ in answers[0]]
    assert await messages(store, chat) == cmids


async def test_the_same_new_sends_through_two_writers_at_once(
    store: Store, chat: ChatState, other: Appender
) -> None:
    cmids = [f"m{number}" for number in range(40)]
    async with appender_on(store.log) as one:
        answers = await asyncio.gather(
            *(sent(writer, chat, ANN, cmid, after=1) for cmid in cmids for writer in (one, other))
        )
    pairs = list(zip(answers[::2], answers[1::2], strict=True))
    assert all(first[0] == second[0] for first, second in pairs)
    assert [was_sent for _, was_sent in answers].count(False) == len(cmids)
    assert sorted(str(cmid) for cmid in await messages(store, chat)) == sorted(cmids)


_conforms: type[AppendRequest] = Sending
