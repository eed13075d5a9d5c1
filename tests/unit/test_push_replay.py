# SPDX-License-Identifier: Apache-2.0
"""Messages that are offered again after a start: which, and what happens while the store does not
answer."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from tests.support.clock import NOW, ManualClock
from tests.support.users import BOB
from tests.unit.small_deployment import ALICE, CHAT
from tidings.actions.identity.blocks import NoBlocks
from tidings.actions.push.journal import PushJournal
from tidings.assembly.push_queue import NoDevices
from tidings.delivery.push_notices import Everybody, PushOffers
from tidings.delivery.push_replay import ATTEMPTS_MAX, REPLAYED_MS_MAX, PushReplay
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.model.push_rules import ArrivedMessage
from tidings.model.refusals import StoreUnavailable
from tidings.model.roles import Member
from tidings.ports.delivery import EntryWritten
from tidings.ports.log import Log
from tidings.stores.dynamodb.chat import recent_chats
from tidings.stores.dynamodb.chat.recent_chats import DynamoRecentChats


class Offered:
    """An OfferQueue that remembers what is offered to those who get time to take it."""

    def __init__(self) -> None:
        self.sequences: list[int] = []

    def offer(self, user: UserKey, chat: ChatId, message: ArrivedMessage, **how: bool) -> None:
        if user == BOB and how["is_looking"]:
            self.sequences.append(message.sequence)


class ShakyLog:
    """The log of a chat whose store does not answer some times."""

    def __init__(self, outages: int, ages: Sequence[int]) -> None:
        self.outages = outages
        self._entries = [
            Entry(chat_id=CHAT, sequence=n, kind="message", sender=ALICE, created_at=NOW - age)
            for n, age in enumerate(ages, start=1)
        ]

    async def state(self, chat: ChatId) -> ChatState:
        if self.outages:
            self.outages -= 1
            raise StoreUnavailable
        members = {user: Member("member", NOW, 0) for user in (ALICE, BOB)}
        named: dict[str, Any] = {"type": "group", "name": None, "members": members}
        return ChatState(chat_id=chat, tenant=tenant_of(ALICE), head=len(self._entries), **named)

    async def tail(self, chat: ChatId, after: int) -> list[Entry]:
        return self._entries[after:]


class OneChat:
    """The only chat with recent entries. After it, the store does not answer once."""

    has_failed = False

    def note(self, written: Sequence[EntryWritten]) -> None:
        pass

    async def written_since(self, since: int, *, of_everybody: bool) -> AsyncIterator[ChatId]:
        assert not of_everybody
        yield CHAT
        if not self.has_failed:
            self.has_failed = True
            raise StoreUnavailable


@pytest.mark.parametrize(("outages", "offered"), [(0, [2, 3]), (3, [2, 3]), (ATTEMPTS_MAX, [])])
async def test_what_is_offered_again(outages: int, offered: list[int]) -> None:
    queue, waits, clock = Offered(), list[int](), ManualClock()
    log = ShakyLog(outages, [REPLAYED_MS_MAX + 1, REPLAYED_MS_MAX, 1, 0])
    offers = PushOffers(queue, Everybody(), NoBlocks(), NoDevices(), PushJournal(clock))

    async def back_off(attempt: int) -> None:
        waits.append(attempt)

    replay = PushReplay(offers, OneChat(), cast(Log, log), clock, back_off, of_everybody=False)
    await replay.offer_again()
    assert queue.sequences == offered
    assert waits == [*range(1, min(outages, ATTEMPTS_MAX - 1) + 1), 1]
    assert log.outages == 0


async def test_chats_in_the_stream_are_noted_while_somebody_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent_chats, "LISTENED_SECONDS", 0.05)
    chats = DynamoRecentChats(ManualClock())
    ages = {"a": recent_chats.RECENT_MS + 1, "b": recent_chats.RECENT_MS, "c": 0, "d": -1}
    for name, age in ages.items():
        chats.note([EntryWritten(ChatId(name), 1, NOW - age)] * 2)

    async def listen() -> list[str]:
        return [chat async for chat in chats.written_since(NOW, of_everybody=True)]

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    chats.note([EntryWritten(ChatId("e"), 1, NOW)])
    assert await listening == ["b", "c", "e"]
    chats.note([EntryWritten(ChatId("f"), 1, NOW)])
    assert await listen() == [], "nothing is kept for nobody"
