# SPDX-License-Identifier: Apache-2.0
"""The appender beside a log in trouble: each request is answered once, and the queue goes on."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.memory_log import CHAT, DOWN, OWNER, MemoryLog, Send, Trouble, Writer
from tidings.actions.chat.changes import AwaitedChange
from tidings.actions.chat.chat_queue import ChatQueues
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Head, Kind, head_of
from tidings.model.ids import ChatId
from tidings.model.refusals import (
    ChatNotFound,
    LimitReached,
    MessageGone,
    Refusal,
    StoreUnavailable,
)
from tidings.ports.bus import Learnt
from tidings.ports.log import Declined, KeyTaken, Run, SlotTaken


@pytest.fixture
def writer() -> Writer:
    return Writer()


async def test_a_chat_that_cannot_be_loaded_is_loaded_by_the_next_send(writer: Writer) -> None:
    writer.log.troubles["state"] = [DOWN]
    assert await writer.send(Send("m1"), Send("m2")) == [DOWN, DOWN]
    assert await writer.send(Send("m1")) == [2]


async def test_a_bug_while_loading_refuses_all_who_wait(
    writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    writer.log.troubles["state"] = [ZeroDivisionError()]
    first, second = await writer.send(Send("m1"), Send("m2"))
    assert isinstance(first, StoreUnavailable)
    assert isinstance(second, StoreUnavailable)
    assert "ZeroDivisionError" in caplog.text
    assert await writer.send(Send("m1")) == [2]


async def test_a_bug_while_deciding_refuses_all_who_wait(writer: Writer) -> None:
    bad = Send("m1")
    bad.decide = lambda *_: 1 // 0  # type: ignore[method-assign, assignment]
    bug, other = await writer.send(bad, Send("m2"))
    assert isinstance(bug, StoreUnavailable)
    assert isinstance(other, StoreUnavailable)
    assert writer.log.bugs == [ZeroDivisionError]
    assert await writer.send(Send("m3")) == [2]


async def test_a_bug_while_preparing_refuses_all_who_wait(writer: Writer) -> None:
    async def prepare() -> None:
        raise ZeroDivisionError

    bad = Send("m1")
    bad.is_ready = False
    bad.prepare = prepare  # type: ignore[method-assign]
    assert [type(answer) for answer in await writer.send(bad, Send("m2"))] == [StoreUnavailable] * 2
    assert await writer.send(Send("m3")) == [2]


@pytest.mark.parametrize("is_member", [True, False])
async def test_a_bug_while_looking_for_a_repeat_is_answered(
    writer: Writer, is_member: bool
) -> None:
    assert await writer.send(Send("m1")) == [2]
    writer.log.troubles["find_sent"] = [ZeroDivisionError()]
    [answer] = await writer.send(Send("m1", is_member=is_member))
    assert isinstance(answer, StoreUnavailable)
    assert await writer.send(Send("m1", is_member=is_member)) == [("again", 2)]


async def test_a_second_look_that_fails_refuses_only_who_needed_it(writer: Writer) -> None:
    writer.log.troubles["tail"] = [DOWN]
    assert await writer.send(Send("m1", is_member=False), Send("m2")) == [DOWN, 2]


async def test_an_answer_that_fails_does_not_keep_the_others_from_theirs(
    writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    broken, other = Send("m1"), Send("m2")
    broken.kept = lambda _: 1 // 0  # type: ignore[method-assign, assignment]
    writer.appender.propose(CHAT, broken)
    assert await writer.send(other) == [3]
    assert "answering failed" in caplog.text
    assert len(writer.events) == 2, "both messages are durable"


async def test_who_cannot_catch_up_after_a_lost_slot_is_refused(writer: Writer) -> None:
    writer.log.troubles["append"] = [SlotTaken()]
    writer.log.troubles["tail"] = [DOWN]
    assert await writer.send(Send("m1"), Send("m2")) == [DOWN, DOWN]
    assert await writer.send(Send("m1")) == [2]


def entry_of(kind: Kind) -> Entry:
    """An entry of another process."""
    return Entry(chat_id=CHAT, kind=kind, sender=OWNER, name="Team")


@pytest.mark.parametrize(
    ("kinds", "age_ms", "learnt"),
    [
        (["message", "message"], 0, [3, 4]),
        (["message", "renamed", "message"], 0, [3]),
        (["renamed", "message"], 0, []),
        (["message"], limits.LEARNT_MS_MAX, []),
    ],
)
async def test_new_messages_that_others_appended_first_are_published_before_ones_own(
    writer: Writer, kinds: list[Kind], age_ms: int, learnt: list[int]
) -> None:
    await writer.send(Send("m1"))
    written_at = writer.events[-1].entry.created_at  # type: ignore[union-attr]
    await writer.log.others_append([entry_of(kind) for kind in kinds], written_at - age_ms)
    own = 3 + len(kinds)
    assert await writer.send(Send("m2")) == [own]
    told = [event for event in writer.events[1:] if isinstance(event, Learnt)]
    assert [entry.sequence for event in told for entry in event.entries] == learnt
    assert all(event.state.head == 2 for event in told), "the state before them"
    assert writer.events[-1].entry.sequence == own  # type: ignore[union-attr]


async def test_a_taken_key_that_cannot_be_looked_up_is_refused(writer: Writer) -> None:
    assert await writer.send(Send("m1")) == [2]
    writer.log.troubles["find_sent"] = [DOWN]
    assert await writer.send(Send("m1")) == [DOWN]
    assert await writer.send(Send("m1")) == [("again", 2)]


async def test_a_key_that_expired_meanwhile_is_claimed_again(writer: Writer) -> None:
    writer.log.troubles["append"] = [KeyTaken((0,))]
    assert await writer.send(Send("m1")) == [2]


async def test_a_key_that_is_claimed_beside_a_taken_one_is_not_claimed_again(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str | None]] = []
    append = writer.log.append

    def noted(run: Run) -> None:
        asked.append([key.client_message_id if key else None for key in run.keys])
        append(run)

    monkeypatch.setattr(writer.log, "append", noted)
    writer.log.troubles["append"] = [KeyTaken((0,), (1,))]
    assert await writer.send(Send("m1"), Send("m2")) == [2, 3]
    assert asked == [["m1", "m2"], ["m1", None]]


class Sealed(Send):
    """A message that is ready when all of its group are being prepared, or is refused then."""

    def __init__(self, cmid: str, group: asyncio.Barrier, refusal: Refusal | None = None) -> None:
        super().__init__(cmid)
        self.is_ready = False
        self._group = group
        self._refusal = refusal

    async def prepare(self) -> None:
        await self._group.wait()
        if self._refusal is not None:
            raise self._refusal
        self.is_ready = True


async def test_messages_of_many_authors_are_prepared_together(writer: Writer) -> None:
    group = asyncio.Barrier(3)
    sends = [Sealed("m1", group), Sealed("m2", group, DOWN), Send("m3"), Sealed("m4", group)]
    assert await writer.send(*sends) == [2, DOWN, 3, 4]


async def test_a_refusal_that_may_be_a_repeat_is_not_final_while_nobody_can_tell(
    writer: Writer,
) -> None:
    writer.log.troubles["find_sent"] = [DOWN]
    assert await writer.send(Send("m1", is_member=False)) == [DOWN]
    [answer] = await writer.send(Send("m1", is_member=False))
    assert isinstance(answer, ChatNotFound)


troubles = st.dictionaries(
    st.sampled_from(["state", "tail", "find_sent", "append"]),
    st.lists(st.sampled_from(list(Trouble)), max_size=4),
)


@given(troubles, st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), max_size=6))
def test_whatever_goes_wrong_each_send_is_answered_once(
    script: dict[str, list[Trouble]], turns: list[list[int]]
) -> None:
    async def scenario() -> None:
        writer = Writer()
        for call, what in script.items():
            writer.log.troubles[call] = [one.of(call) for one in what]
        for turn in turns:
            await writer.send(*(Send(f"m{number}") for number in turn))
        writer.log.troubles.clear()
        after = {f"m{number}": await writer.send(Send(f"m{number}")) for number in range(1, 5)}
        written = [entry.client_message_id for entry in writer.log.entries[1:]]
        assert len(set(written)) == len(written) == 4, "each message is there once"
        for cmid, [answer] in after.items():
            sequence = written.index(cmid) + 2
            assert answer in (sequence, ("again", sequence))

    asyncio.run(scenario())


async def test_the_last_entry_knows_the_head_of_the_log(writer: Writer) -> None:
    await writer.send(Send("m1"), Send("m2"))
    change = AwaitedChange(_rename)
    writer.appender.propose(CHAT, change)
    await change.answer
    state = await writer.log.state(CHAT)
    assert state is not None
    head = Head(state.head, state.number, state.last_message, state.active_at)
    assert head_of(writer.log.entries[-1]) == head
    assert (head.sequence, head.number, head.last_message) == (4, 2, 3)


# Changes of a chat.


@pytest.mark.parametrize(
    ("reason", "refusal"),
    [
        ("target_gone", MessageGone),
        ("too_many_emoji", LimitReached),
        ("too_many_chats", LimitReached),
    ],
)
async def test_a_change_that_the_store_declines_is_refused(
    writer: Writer, reason: str, refusal: type[Refusal]
) -> None:
    writer.log.troubles["append"] = [Declined(0, reason)]  # type: ignore[arg-type]
    change = AwaitedChange(_rename)
    writer.appender.propose(CHAT, change)
    with pytest.raises(refusal):
        await change.answer


async def test_a_change_that_changes_nothing_succeeds(writer: Writer) -> None:
    writer.log.troubles["append"] = [Declined(0, "no_change")]
    change = AwaitedChange(_rename)
    writer.appender.propose(CHAT, change)
    assert await change.answer == []


@pytest.mark.parametrize("answer", [lambda one: one.kept([]), lambda one: one.refused(DOWN)])
async def test_a_caller_who_gave_up_is_answered_no_more(
    answer: Callable[[AwaitedChange], None],
) -> None:
    change = AwaitedChange(_rename)
    change.answer.cancel()
    answer(change)
    assert change.answer.cancelled()


def _rename(state: ChatState, _: int) -> list[Entry]:
    return [Entry(chat_id=state.chat_id, kind="renamed", sender=OWNER, name="New")]


# The cache of states.


def test_the_chat_that_was_idle_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CACHED_CHATS_MAX", 2)
    queues = ChatQueues()
    ids = [ChatId(f"chat-{number}") for number in range(4)]
    for chat in ids[:2]:
        queues.keep_state(queues.get(chat), MemoryLog().fresh_state())
    queues.get(ids[0]).is_busy = True
    queues.get(ids[2])
    assert [queues.state(chat) is not None for chat in ids[:2]] == [True, False]
    assert queues.depths()["running"] == 1
    queues.get(ids[3])
    assert queues.state(ids[0]) is not None, "a queue at work stays, however many there are"
