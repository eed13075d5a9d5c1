# SPDX-License-Identifier: Apache-2.0
"""Races around a chat's log: many writers, a kick among sends, one send many times over."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.integration.cores import Answer, Deployment, all_of, new_cmid, open_deployment
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey, user_key
from tidings.model.refusals import ChatNotFound, SendConflict

WRITERS = 50
SENDS_EACH = 10


async def test_fifty_writers_share_one_log(deployment: Deployment) -> None:
    writers = [user_key("acme", f"w{number}") for number in range(WRITERS)]
    chat = await deployment.group(*writers)
    moments = itertools.count()

    async def write(writer: UserKey) -> list[tuple[int, int, Entry]]:
        """Send one after the other; each with the moments it was begun and answered at."""
        sent = []
        for _ in range(SENDS_EACH):
            begun = next(moments)
            entry = await deployment.writing.send(writer, chat)
            sent.append((begun, next(moments), entry))
        return sent

    sent = sorted(
        itertools.chain(*await all_of(write(writer) for writer in writers)),
        key=lambda one: one[2].sequence,
    )
    log = await deployment.log(chat, writers[0])
    messages = [entry for entry in log if entry.kind == "message"]
    assert [(e.sequence, e.sender, e.client_message_id) for e in messages] == [
        (e.sequence, e.sender, e.client_message_id) for _, _, e in sent
    ]
    assert [entry.number for entry in messages] == list(range(1, WRITERS * SENDS_EACH + 1))
    latest_begun = -1
    for begun, answered, _ in sent:
        assert latest_begun < answered, "a send begun after another's answer stands before it"
        latest_begun = max(latest_begun, begun)


@pytest.mark.attack("D09")
async def test_a_kick_among_hundreds_of_sends_is_the_last_word(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB, CAT)
    answered = 0
    begin_kick = asyncio.Event()

    async def send_many() -> list[Entry | ChatNotFound]:
        nonlocal answered
        results: list[Entry | ChatNotFound] = []
        while not results or isinstance(results[-1], Entry):
            try:
                results.append(await deployment.writing.send(BOB, chat))
            except ChatNotFound as refusal:
                results.append(refusal)
            answered += 1
            if answered == 300:
                begin_kick.set()
        return results

    async def kick() -> None:
        await begin_kick.wait()
        await deployment.core.verbs.remove_member(ANN, chat, BOB)

    async with asyncio.TaskGroup() as group:
        sending = [group.create_task(send_many()) for _ in range(20)]
        group.create_task(kick())
    results = [result for task in sending for result in task.result()]
    accepted = {result.sequence for result in results if isinstance(result, Entry)}
    log = await deployment.log(chat, ANN)
    (removal,) = [entry.sequence for entry in log if entry.kind == "removed"]
    assert len(accepted) >= 300
    assert max(accepted) < removal
    assert {entry.sequence for entry in log if entry.sender == BOB} == accepted


@pytest.mark.parametrize("is_together", [True, False])
async def test_one_send_five_times_at_once_is_one_message(
    deployment: Deployment, is_together: bool
) -> None:
    chat = await deployment.group(ANN, BOB)
    cmid = new_cmid()
    futures: list[asyncio.Future[Answer]] = []
    for _ in range(5):
        futures.append(deployment.writing.send_soon(ANN, chat, "once", cmid=cmid))
        if not is_together:
            await asyncio.sleep(0)
    answers = [await future for future in futures]
    assert len({(a.entry.sequence, a.entry.message_id, a.entry.created_at) for a in answers}) == 1
    assert [answer.is_replay for answer in answers].count(False) == 1
    log = await deployment.log(chat, BOB)
    assert [entry.client_message_id for entry in log if entry.kind == "message"] == [cmid]


async def test_a_repeat_after_a_restart_gets_the_first_answer(tmp_path: Path) -> None:
    async with open_deployment(tmp_path) as before:
        chat = await before.group(ANN, BOB)
        first = await before.writing.send(ANN, chat, "once", cmid="again")
    async with open_deployment(tmp_path) as after:
        after.clock.time += 1_000
        answer = await after.writing.send_soon(ANN, chat, "once", cmid="again")
        assert answer.is_replay
        assert (answer.entry.sequence, answer.entry.created_at) == (
            first.sequence,
            first.created_at,
        )
        with pytest.raises(SendConflict):
            await after.writing.send(ANN, chat, "other", cmid="again")
        assert len(await after.log(chat, ANN)) == 2


@pytest.mark.attack("D02")
async def test_after_removal_only_the_repeat_of_an_own_send_is_answered(
    deployment: Deployment,
) -> None:
    chat = await deployment.group(ANN, BOB)
    first = await deployment.writing.send(BOB, chat, "mine", cmid="mine")
    await deployment.core.verbs.remove_member(ANN, chat, BOB)
    answer = await deployment.writing.send_soon(BOB, chat, "mine", cmid="mine")
    assert answer.is_replay
    assert answer.entry.sequence == first.sequence
    for text, cmid in (("other", "mine"), ("mine", "new"), ("new", "new")):
        with pytest.raises(ChatNotFound):
            await deployment.writing.send(BOB, chat, text, cmid=cmid)
    with pytest.raises(ChatNotFound):
        await deployment.writing.send(CAT, chat, "mine", cmid="mine")
    assert len(await deployment.log(chat, ANN)) == 3


def reads_of(
    deployment: Deployment, reader: UserKey, chat: ChatId
) -> list[Callable[[], Awaitable[object]]]:
    """Every way to see something of a chat whose second entry is a message."""
    verbs = deployment.core.verbs
    return [
        lambda: verbs.get(reader, chat),
        lambda: verbs.members(reader, chat),
        lambda: verbs.receipts(reader, chat),
        lambda: verbs.reactions(reader, chat, 2),
        lambda: verbs.read.entries(reader, chat, after=0, limit=10),
        lambda: verbs.read.entries(reader, chat, before=10, limit=10),
        lambda: verbs.read.messages(reader, chat, after=0, limit=10),
        lambda: verbs.read.messages(reader, chat, before=10, limit=10),
        lambda: verbs.read.one(reader, chat, 2),
        lambda: verbs.mark(reader, chat, 0, 1),
    ]


@pytest.mark.attack("D02", "D09")
async def test_no_read_begun_after_a_kick_was_answered_shows_anything(
    deployment: Deployment,
) -> None:
    chat = await deployment.group(ANN, BOB)
    await deployment.writing.send(ANN, chat)
    is_kicked = False
    seen_before = 0

    async def read_on(read: Callable[[], Awaitable[object]]) -> None:
        nonlocal seen_before
        refused_after = 0
        while refused_after < 3:
            is_late = is_kicked
            try:
                await read()
                assert not is_late, "shown after the kick was answered"
                seen_before += 1
            except ChatNotFound:
                refused_after += is_late

    async with asyncio.TaskGroup() as group:
        for read in reads_of(deployment, BOB, chat):
            group.create_task(read_on(read))
        while seen_before < 50:
            await asyncio.sleep(0)
        await deployment.core.verbs.remove_member(ANN, chat, BOB)
        is_kicked = True
    assert await deployment.core.verbs.list(BOB, None, 10) == ([], None)
    assert await deployment.core.store.chats.list_heads(BOB) == []
    assert await deployment.core.store.receipts.unread(BOB, chat, deployment.clock.now()) is None


@pytest.mark.attack("D09")
async def test_a_join_among_sends_decides_whose_are_taken(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB)
    await deployment.people(CAT)

    async def send_until_taken() -> list[Entry]:
        """The newcomer knocks again and again; once in, all of its sends are taken."""
        taken: list[Entry] = []
        while len(taken) < 10:
            try:
                taken.append(await deployment.writing.send(CAT, chat))
            except ChatNotFound:
                assert not taken
        return taken

    async def send_and_invite() -> None:
        for number in range(20):
            await deployment.writing.send(ANN, chat)
            if number == 10:
                await deployment.core.verbs.put_member(ANN, chat, CAT, None)

    async with asyncio.TaskGroup() as group:
        knocking = group.create_task(send_until_taken())
        group.create_task(send_and_invite())
    log = await deployment.log(chat, CAT)
    (joined,) = [entry.sequence for entry in log if entry.kind == "added"]
    own = [entry.sequence for entry in log if entry.sender == CAT]
    assert own == [entry.sequence for entry in knocking.result()]
    assert min(own) > joined
    foreign = [e for e in log if e.kind == "message" and e.sender == ANN and e.sequence > joined]
    row = await deployment.core.verbs.get(CAT, chat)
    assert row.unread.count == len(foreign) == 9


async def test_a_refusal_does_not_hold_up_the_first_send_of_another(
    deployment: Deployment,
) -> None:
    """The second sender's key has to be fetched first, behind a proposal that comes to nothing."""
    chat = await deployment.group(ANN, BOB)
    await deployment.writing.send(ANN, chat)
    refused = deployment.writing.send_soon(DAN, chat)
    first = deployment.writing.send_soon(BOB, chat)
    with pytest.raises(ChatNotFound):
        await refused
    assert (await asyncio.wait_for(first, 60)).entry.sequence == 3
