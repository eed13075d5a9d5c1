# SPDX-License-Identifier: Apache-2.0
"""What a gateway remembers of chats in which its users only read."""

import asyncio

import pytest

from tidings.delivery import chat_states
from tidings.delivery.chat_states import NoticeStates
from tidings.model.chats import ChatState
from tidings.model.entries import Kind
from tidings.model.ids import ChatId
from tidings.ports.delivery import EncodedEntry

CHAT = ChatId("0" * 26)


def a_state() -> ChatState:
    return ChatState(chat_id=CHAT, tenant="acme", type="group", name=None, members={})


def heard(kind: Kind) -> EncodedEntry:
    return EncodedEntry(chat_id=CHAT, sequence=2, kind=kind, is_small=True, frame=b"")


class Reads:
    """A store that answers when a test says so."""

    def __init__(self) -> None:
        self.count = 0
        self.found: ChatState | None = a_state()
        self.answers = asyncio.Event()
        self.answers.set()

    async def __call__(self, _chat: ChatId) -> ChatState | None:
        self.count += 1
        await self.answers.wait()
        return self.found


async def test_many_readers_cause_one_read() -> None:
    reads = Reads()
    states = NoticeStates(lambda _: None, reads)
    assert states.cached(CHAT) is None
    found = await asyncio.gather(*(states.state(CHAT) for _ in range(20)))
    assert found == [reads.found] * 20
    assert (await states.state(CHAT), states.cached(CHAT)) == (reads.found, reads.found)
    assert reads.count == 1


async def test_what_the_process_knows_anyway_comes_first() -> None:
    reads, known = Reads(), a_state()
    states = NoticeStates(lambda _: known, reads)
    assert await states.state(CHAT) is known
    assert reads.count == 0


@pytest.mark.parametrize(("kind", "reads_again"), [("message", False), ("removed", True)])
async def test_a_change_of_members_is_read_anew(kind: Kind, reads_again: bool) -> None:
    reads = Reads()
    states = NoticeStates(lambda _: None, reads)
    await states.state(CHAT)
    states.heard(heard(kind))
    await states.state(CHAT)
    assert reads.count == 1 + reads_again


async def test_a_change_during_a_read_is_not_missed() -> None:
    reads = Reads()
    states = NoticeStates(lambda _: None, reads)
    reads.answers.clear()
    reading = asyncio.create_task(states.state(CHAT))
    await asyncio.sleep(0)
    states.heard(heard("added"))
    reads.answers.set()
    assert await reading is reads.found
    assert states.cached(CHAT) is None


async def test_a_state_grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_states, "NOTICE_STATE_SECONDS", -1.0)
    reads = Reads()
    states = NoticeStates(lambda _: None, reads)
    for count in (1, 2):
        assert await states.state(CHAT) is reads.found
        assert reads.count == count


async def test_a_chat_that_is_gone_is_not_remembered() -> None:
    reads = Reads()
    reads.found = None
    states = NoticeStates(lambda _: None, reads)
    for count in (1, 2):
        assert await states.state(CHAT) is None
        assert reads.count == count
