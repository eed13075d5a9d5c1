# SPDX-License-Identifier: Apache-2.0
"""Two writers on one chat, each with a cache of its own: what lies between a key and its entry."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cores import Deployment, Writing, all_of, new_cmid, open_deployment, outcome
from tests.integration.other_process import OtherProcess, PauseAt, other_process
from tests.support.failpoints import DiesAt
from tests.support.users import ANN, BOB, CAT
from tidings.model import limits
from tidings.model.entries import Entry, SendKey
from tidings.model.ids import ChatId
from tidings.model.refusals import ChatBusy, ChatNotFound, StoreUnavailable
from tidings.ports.log import Log, Run, Sent
from tidings.tasks import Tasks


@pytest.fixture
def pause() -> PauseAt:
    return PauseAt("between_key_and_entry")


@pytest.fixture
async def paused(tmp_path: Path, pause: PauseAt) -> AsyncIterator[Deployment]:
    """A core that can be stopped between a key and its entry."""
    async with open_deployment(tmp_path / "data", failpoints=pause) as opened:
        yield opened


class SlowLog:
    """A log that takes its time before each write, in which something else can happen."""

    def __init__(self, log: Log) -> None:
        self.writes = 0
        self._log = log
        self._meanwhile: Callable[[], Awaitable[object]] | None = None
        self._tasks = Tasks("slow log")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def before_each_write(self, meanwhile: Callable[[], Awaitable[object]] | None) -> None:
        """Have this happen once the writer has made up its mind."""
        self._meanwhile = meanwhile

    def append_later(self, make_run: Callable[[], Run | None]) -> None:
        self._tasks.start(self._append(make_run))

    async def _append(self, make_run: Callable[[], Run | None]) -> None:
        self.writes += 1
        if self._meanwhile is not None:
            await self._meanwhile()
        self._log.append_later(make_run)


async def messages(deployment: Deployment, chat: ChatId) -> list[str | None]:
    """The ids of all messages in the log, in order."""
    log = await deployment.log(chat, ANN)
    return [entry.client_message_id for entry in log if entry.kind == "message"]


async def test_two_writers_with_stale_caches_share_one_log(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB)
    writers = [deployment.writing, deployment.another_writing()]
    refused = 0

    async def write(writing: Writing) -> list[Entry]:
        """Send one after the other; a refusal that may be repeated is repeated."""
        nonlocal refused
        sent = []
        for _ in range(20):
            cmid = new_cmid()
            while isinstance(result := await outcome(writing.send(ANN, chat, cmid=cmid)), ChatBusy):
                assert result.retryable
                refused += 1
                assert refused < 20, "most of the time eight attempts are enough"
            assert isinstance(result, Entry)
            sent.append(result)
        return sent

    sent = [entry for some in await all_of(write(w) for w in writers * 5) for entry in some]
    in_order = sorted(sent, key=lambda entry: entry.sequence)
    assert await messages(deployment, chat) == [entry.client_message_id for entry in in_order]


@pytest.mark.attack("F02")
async def test_a_writer_gives_up_after_some_lost_slots_and_may_be_asked_again(
    deployment: Deployment,
) -> None:
    chat = await deployment.group(ANN, BOB)
    log = SlowLog(deployment.core.store.log)
    unlucky = deployment.another_writing(log)
    await unlucky.send(ANN, chat)
    log.before_each_write(lambda: deployment.writing.send(BOB, chat))
    with pytest.raises(ChatBusy) as refusal:
        await unlucky.send(ANN, chat, "again", cmid="again")
    assert refusal.value.retryable
    assert log.writes == 1 + limits.SLOT_ATTEMPTS_MAX
    assert "again" not in await messages(deployment, chat)
    # Meanwhile the writer has caught up, and nobody is in its way any more.
    log.before_each_write(None)
    assert not (await unlucky.send_soon(ANN, chat, "again", cmid="again")).is_replay
    assert (await messages(deployment, chat)).count("again") == 1


async def test_one_send_through_two_writers_at_once_is_one_message(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB)
    writers = [deployment.writing, deployment.another_writing()]
    for number in range(20):
        cmid = f"twice-{number}"
        futures = [w.send_soon(ANN, chat, "twice", cmid=cmid) for w in writers * 2]
        answers = [await future for future in futures]
        assert len({(a.entry.sequence, a.entry.created_at) for a in answers}) == 1
        assert [answer.is_replay for answer in answers].count(False) == 1
        await writers[number % 2].send(BOB, chat)
    sent = await messages(deployment, chat)
    assert len(sent) == len(set(sent)) == 40


@pytest.mark.attack("D09")
async def test_a_writer_with_a_stale_cache_posts_nothing_after_a_removal(
    deployment: Deployment,
) -> None:
    chat = await deployment.group(ANN, BOB)
    stale = deployment.another_writing()
    first = await stale.send(BOB, chat, "mine", cmid="mine")
    await deployment.core.verbs.remove_member(ANN, chat, BOB)
    with pytest.raises(ChatNotFound):
        await stale.send(BOB, chat)
    answer = await deployment.another_writing().send_soon(BOB, chat, "mine", cmid="mine")
    assert answer.is_replay
    assert answer.entry.sequence == first.sequence
    assert await messages(deployment, chat) == ["mine"]


async def test_a_writer_with_a_stale_cache_refuses_nobody_who_joined_elsewhere(
    deployment: Deployment,
) -> None:
    chat = await deployment.group(ANN, BOB)
    stale = deployment.another_writing()
    await stale.send(BOB, chat)
    await deployment.people(CAT)
    await deployment.core.verbs.put_member(ANN, chat, CAT, None)
    entry = await stale.send(CAT, chat, "here I am", cmid="joined")
    assert entry.sequence == 4


async def test_a_writer_with_a_stale_cache_finds_what_is_left_to_change(
    deployment: Deployment,
) -> None:
    chat = await deployment.group(ANN, BOB, CAT)
    stale = deployment.another_writing()
    await stale.send(BOB, chat)
    await deployment.core.verbs.remove_member(ANN, chat, CAT)
    # As far as the stale one knows, nothing has to be done.
    assert await stale.put_member(ANN, chat, CAT, None)
    assert (await deployment.log(chat, ANN))[-1].kind == "added"


async def test_a_writer_that_dies_between_key_and_entry_leaves_room_for_a_repeat(
    tmp_path: Path,
) -> None:
    async with open_deployment(tmp_path) as before:
        chat = await before.group(ANN, BOB)
        await before.writing.send(ANN, chat)
    async with open_deployment(tmp_path, failpoints=DiesAt("between_key_and_entry")) as dying:
        with pytest.raises(StoreUnavailable) as refusal:
            await dying.writing.send(ANN, chat, "again", cmid="again")
        assert refusal.value.retryable
    async with open_deployment(tmp_path) as after:
        assert "again" not in await messages(after, chat), "a claim without an entry"
        await after.writing.send(BOB, chat)
        futures = [after.writing.send_soon(ANN, chat, "again", cmid="again") for _ in range(3)]
        answers = [await future for future in futures]
        assert {answer.entry.sequence for answer in answers} == {4}
        assert (await messages(after, chat)).count("again") == 1


async def test_a_repeat_elsewhere_during_the_pause_is_the_one_message(
    tmp_path: Path, paused: Deployment, pause: PauseAt
) -> None:
    chat = await paused.group(ANN, BOB)
    await paused.writing.send(ANN, chat)
    with other_process(tmp_path / "data") as other:
        repeated: list[Entry] = []
        pause.once(lambda: repeated.append(send_there(other, chat, "again")))
        answer = await paused.writing.send_soon(ANN, chat, "again", cmid="again")
    assert answer.is_replay
    assert [entry.sequence for entry in repeated] == [answer.entry.sequence] == [3]
    assert (await messages(paused, chat)).count("again") == 1


async def test_two_repeats_elsewhere_and_another_message_during_the_pause(
    tmp_path: Path, paused: Deployment, pause: PauseAt
) -> None:
    chat = await paused.group(ANN, BOB)
    with other_process(tmp_path / "data") as other:
        repeated: list[Entry] = []

        def meanwhile() -> None:
            send_there(other, chat, "between")
            repeated.extend(send_there(other, chat, "again") for _ in range(2))

        pause.once(meanwhile)
        futures = [paused.writing.send_soon(ANN, chat, "again", cmid="again") for _ in range(3)]
        answers = [await future for future in futures]
    assert all(answer.is_replay for answer in answers)
    assert {e.sequence for e in [*repeated, *(answer.entry for answer in answers)]} == {3}
    assert await messages(paused, chat) == ["between", "again"]


async def test_a_slot_lost_during_the_pause_is_made_good(
    tmp_path: Path, paused: Deployment, pause: PauseAt
) -> None:
    chat = await paused.group(ANN, BOB)
    with other_process(tmp_path / "data") as other:
        pause.once(lambda: send_there(other, chat, "between"))
        answer = await paused.writing.send_soon(ANN, chat, "mine", cmid="mine")
    assert not answer.is_replay
    assert await messages(paused, chat) == ["between", "mine"]


@pytest.mark.attack("D09")
async def test_a_kick_during_the_pause_wins(
    tmp_path: Path, paused: Deployment, pause: PauseAt
) -> None:
    chat = await paused.group(ANN, BOB)
    with other_process(tmp_path / "data") as other:
        pause.once(lambda: other.do(lambda there: there.writing.remove_member(ANN, chat, BOB)))
        with pytest.raises(ChatNotFound):
            await paused.writing.send(BOB, chat, "mine", cmid="mine")
    assert await messages(paused, chat) == []
    # The claim is still there, without an entry. It must not stand in the way later on.
    await paused.core.verbs.put_member(ANN, chat, BOB, None)
    assert not (await paused.writing.send_soon(BOB, chat, "mine", cmid="mine")).is_replay
    assert await messages(paused, chat) == ["mine"]


async def test_a_change_that_lost_its_slot_is_decided_anew(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB, CAT)
    other = deployment.another_writing()
    await other.send(ANN, chat)
    await deployment.core.verbs.remove_member(ANN, chat, CAT)
    assert await other.put_member(ANN, chat, CAT, "admin"), "no role change: she has to be added"
    kinds = [entry.kind for entry in await deployment.log(chat, ANN)]
    assert kinds == ["created", "message", "removed", "added"]


async def test_a_repeat_elsewhere_between_the_search_and_the_slot_is_the_one_message(
    tmp_path: Path, paused: Deployment, pause: PauseAt
) -> None:
    chat = await paused.group(ANN, BOB)
    with other_process(tmp_path / "data") as other:

        def meanwhile() -> None:
            send_there(other, chat, "between")
            # The claim has no entry yet: the next attempt searches in vain, and pauses again.
            pause.once(lambda: send_there(other, chat, "again"))

        pause.once(meanwhile)
        answer = await paused.writing.send_soon(ANN, chat, "again", cmid="again")
    assert answer.is_replay
    assert await messages(paused, chat) == ["between", "again"]


async def test_during_the_pause_the_key_is_claimed_and_the_entry_is_not_there(
    tmp_path: Path, paused: Deployment, pause: PauseAt
) -> None:
    """What the tests above rest on."""
    chat = await paused.group(ANN, BOB)
    key = SendKey(ANN, "mine", b"", 0)
    seen: list[Sent | None] = []

    async def look(there: Deployment) -> None:
        seen.append(await there.core.store.log.find_sent(chat, key, there.clock.now()))

    with other_process(tmp_path / "data") as other:
        pause.once(lambda: other.do(look))
        entry = await paused.writing.send(ANN, chat, "mine", cmid="mine")
        other.do(look)
    before, after = seen
    assert before is not None
    assert after is not None
    assert before.entry is None
    assert after.entry is not None
    assert after.entry.sequence == entry.sequence


def send_there(other: OtherProcess, chat: ChatId, cmid: str) -> Entry:
    """The send whose text is its id, in the other process."""
    return other.do(lambda there: there.writing.send(ANN, chat, cmid, cmid=cmid))
