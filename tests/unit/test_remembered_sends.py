# SPDX-License-Identifier: Apache-2.0
"""Sends that name a sequence: the appender remembers the messages after it, or reads them."""

import pytest

from tests.unit.memory_log import CHAT, DOWN, OWNER, Send, Writer
from tidings.actions.chat.chat_queue import ChatQueues
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.model.refusals import (
    ChatBusy,
    ChatNotFound,
    StoreUnavailable,
)


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def memory(writer: Writer) -> Writer:
    """A writer whose log takes messages without keys."""
    writer.log.takes_after = True
    return writer


async def test_a_message_that_would_be_remembered_needs_no_key(memory: Writer) -> None:
    assert await memory.send(Send("m1", after=1), Send("m2")) == [2, 3]
    assert [entry.digest for entry in memory.log.entries] == [None, b"digest", None]
    assert await memory.send(Send("m1", after=1)) == [("again", 2)]
    assert await memory.send(Send("m2", after=1)) == [("again", 3)]
    assert await memory.send(Send("m2")) == [("again", 3)]


async def test_what_is_not_remembered_is_looked_for(
    memory: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REMEMBERED_SENDS_MAX", 1)
    assert await memory.send(Send("m1", after=1)) == [2]
    assert await memory.send(Send("m2", after=2)) == [3]
    assert await memory.send(Send("m1", after=1)) == [("again", 2)]
    assert await memory.send(Send("m3", after=1)) == [4]
    assert memory.log.entries[-1].digest is None, "its key is claimed"


async def test_what_is_evicted_may_be_of_a_chat_that_is_evicted_too() -> None:
    queues, chats = ChatQueues(), [ChatId("a"), ChatId("b")]
    entry = Entry(chat_id=CHAT, kind="message", sender=OWNER, client_message_id="m", sequence=7)
    for chat in chats:
        queues.remember(queues.get(chat), [entry])
    queues.forget(queues.get(chats[0]))
    many = [
        Entry(chat_id=CHAT, kind="message", sender=OWNER, client_message_id=f"{number}", sequence=9)
        for number in range(limits.REMEMBERED_SENDS_MAX)
    ]
    queues.remember(queues.get(ChatId("c")), many)
    assert queues.get(chats[1]).remembered_after == 7


async def test_a_log_may_begin_to_take_messages_without_keys(writer: Writer) -> None:
    assert await writer.send(Send("m1", after=1)) == [2]
    writer.log.takes_after = True
    assert await writer.send(Send("m1", after=1)) == [("again", 2)]


async def test_long_searches_are_few(memory: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMEMBERED_SENDS_MAX", 1)
    monkeypatch.setattr(limits, "SHORT_SEARCH_ENTRIES", 1)
    monkeypatch.setattr(limits, "LONG_SEARCHES_BURST", 2)
    assert await memory.send(Send("m1", after=1)) == [2]
    assert await memory.send(Send("m2", after=2)) == [3]
    assert await memory.send(Send("m1", after=1)) == [("again", 2)]
    gone = await memory.send(Send("m1", after=1, is_member=False))
    busy, near = await memory.send(Send("m1", after=1), Send("m3", after=2))
    [stranger] = await memory.send(Send("m1", after=1, is_member=False))
    assert gone == [("again", 2)]
    assert (isinstance(busy, ChatBusy), near) == (True, 4)
    assert isinstance(stranger, ChatNotFound)


async def test_a_sequence_that_the_log_has_not_reached_proves_nothing(memory: Writer) -> None:
    assert await memory.send(Send("m1", after=5)) == [2]
    assert memory.log.entries[-1].digest is None


async def test_a_remembered_message_that_cannot_be_read_is_answered(memory: Writer) -> None:
    assert await memory.send(Send("m1", after=1)) == [2]
    memory.log.troubles["find_sent"] = [DOWN, ZeroDivisionError()]
    assert await memory.send(Send("m1", after=1)) == [DOWN]
    [answer] = await memory.send(Send("m1", after=1))
    assert isinstance(answer, StoreUnavailable)
    memory.log.entries[1].client_message_id = "lost"
    [answer] = await memory.send(Send("m1", after=1))
    assert isinstance(answer, StoreUnavailable)
    memory.log.troubles["state"] = [DOWN]
    assert await memory.send(Send("m1", after=1)) == [DOWN]


async def test_a_remembered_message_of_a_deleted_chat_is_not_there(memory: Writer) -> None:
    assert await memory.send(Send("m1", after=1)) == [2]
    state = await memory.log.state(CHAT)
    assert state is not None
    deleted = Entry(chat_id=CHAT, kind="deleted", sender=OWNER)
    state.stamp(deleted, 1, "other")
    memory.log.entries.append(deleted)
    memory.log.entries[1].client_message_id = None
    [answer] = await memory.send(Send("m1", after=1))
    assert isinstance(answer, ChatNotFound)
