# SPDX-License-Identifier: Apache-2.0
"""Expiry: content vanishes from every read at its moment, its place in the log never does."""

import asyncio
from pathlib import Path

import pytest

from tests.integration.cores import Deployment, all_of, open_deployment
from tests.support.canary import canary
from tests.support.users import ANN, BOB
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Invalid, MessageGone, SendConflict
from tidings.ports.bus import Expired

TTL = 10
FOREVER = limits.TTL_SECONDS_MAX


@pytest.fixture
async def chat(deployment: Deployment) -> ChatId:
    """A group of two."""
    return await deployment.group(ANN, BOB)


async def contents(deployment: Deployment, reader: UserKey, chat: ChatId) -> dict[str, str | None]:
    """The content of the message at 2 on every way that shows it; absent where it is left out."""
    verbs = deployment.core.verbs
    row = await verbs.get(reader, chat)
    rows, _ = await verbs.list(reader, None, 10)
    log = await deployment.log(chat, reader)
    down = await verbs.read.entries(reader, chat, before=len(log) + 1, limit=100)
    replay = await deployment.writing.send_soon(ANN, chat, "short", cmid="short", ttl_seconds=TTL)
    await deployment.core.vault.open([replay.entry], deployment.clock.now())
    newer = await verbs.read.messages(reader, chat, after=0, limit=100)
    older = await verbs.read.messages(reader, chat, before=100, limit=100)
    found: dict[str, Entry | None] = {
        "one message": (await verbs.read.one(reader, chat, 2)).entries[0],
        "preview of the chat": row.last,
        "preview in the list": rows[0].last,
        "the log": log[1],
        "the log downwards": down.entries[-2],
        "what an edit shows": next(entry.shown for entry in log if entry.kind == "edited"),
        "the answer to a repeat": replay.entry,
        "sync": next((entry for entry in newer.entries if entry.sequence == 2), None),
        "history": next((entry for entry in older.entries if entry.sequence == 2), None),
    }
    return {where: entry.content for where, entry in found.items() if entry is not None}


@pytest.mark.parametrize("is_swept", [False, True])
async def test_content_is_shown_up_to_its_last_millisecond_and_nowhere_after(
    deployment: Deployment, chat: ChatId, is_swept: bool
) -> None:
    message = await deployment.writing.send(ANN, chat, "short", cmid="short", ttl_seconds=TTL)
    assert message.expires_at == message.created_at + 1_000 * TTL
    await deployment.core.verbs.edit(ANN, chat, 2, canary("edited"))
    deployment.clock.time = message.expires_at - 1
    shown = await contents(deployment, BOB, chat)
    assert len(shown) == 9
    assert set(shown.values()) == {canary("edited")}
    deployment.clock.time = message.expires_at
    if is_swept:
        assert await deployment.sweep() == 1
    shown = await contents(deployment, BOB, chat)
    assert set(shown.values()) == {None}
    assert "sync" not in shown
    assert "history" not in shown
    one = (await deployment.core.verbs.read.one(BOB, chat, 2)).entries[0]
    assert (one.gone, one.sender, one.created_at) == ("expired", ANN, message.created_at)


async def test_what_has_expired_can_be_changed_no_more(
    deployment: Deployment, chat: ChatId
) -> None:
    verbs = deployment.core.verbs
    await deployment.writing.send(ANN, chat, ttl_seconds=TTL)
    await verbs.react(ANN, chat, 2, "👍")
    deployment.clock.time += 1_000 * TTL
    for _ in range(2):
        with pytest.raises(MessageGone):
            await verbs.edit(ANN, chat, 2, canary("late"))
        with pytest.raises(MessageGone):
            await verbs.react(BOB, chat, 2, "👍")
        await verbs.redact(ANN, chat, 2)
        await deployment.sweep()
    log = await deployment.log(chat, ANN)
    assert [entry.kind for entry in log] == ["created", "message", "reacted"]
    assert log[1].gone == "expired"


async def test_a_message_redacted_in_time_stays_redacted(
    deployment: Deployment, chat: ChatId
) -> None:
    await deployment.writing.send(ANN, chat, ttl_seconds=TTL)
    await deployment.core.verbs.redact(ANN, chat, 2)
    deployment.clock.time += 1_000 * TTL
    assert await deployment.sweep() == 0
    page = await deployment.core.verbs.read.messages(BOB, chat, after=0, limit=10)
    assert [entry.gone for entry in page.entries] == ["redacted"]


async def test_a_repeat_of_an_expired_send_is_still_a_repeat(
    deployment: Deployment, chat: ChatId
) -> None:
    first = await deployment.writing.send(ANN, chat, "short", cmid="short", ttl_seconds=TTL)
    deployment.clock.time += 1_000 * TTL
    answer = await deployment.writing.send_soon(ANN, chat, "short", cmid="short", ttl_seconds=TTL)
    assert answer.is_replay
    assert answer.entry.sequence == first.sequence
    with pytest.raises(SendConflict):
        await deployment.writing.send(ANN, chat, "short", cmid="short", ttl_seconds=TTL + 1)
    with pytest.raises(SendConflict):
        await deployment.writing.send(ANN, chat, "short", cmid="short")


@pytest.mark.parametrize("ttl_seconds", [-1, 0, FOREVER + 1, 2**63])
async def test_a_time_to_live_out_of_range_is_refused(
    deployment: Deployment, chat: ChatId, ttl_seconds: int
) -> None:
    with pytest.raises(Invalid):
        await deployment.writing.send(ANN, chat, ttl_seconds=ttl_seconds)
    assert len(await deployment.log(chat, ANN)) == 1


@pytest.mark.parametrize("ttl_seconds", [1, FOREVER])
async def test_the_shortest_and_the_longest_time_to_live(
    deployment: Deployment, chat: ChatId, ttl_seconds: int
) -> None:
    message = await deployment.writing.send(ANN, chat, ttl_seconds=ttl_seconds)
    assert message.expires_at == deployment.clock.time + 1_000 * ttl_seconds
    deployment.clock.time = message.expires_at
    assert await deployment.sweep() == 1


async def test_the_sweeper_empties_in_batches_and_says_what(deployment: Deployment) -> None:
    chats = [await deployment.group(ANN, BOB) for _ in range(2)]
    expiring = limits.SWEEP_BATCH_ROWS + 50
    for chat in chats:
        await all_of(deployment.writing.send(ANN, chat, ttl_seconds=TTL) for _ in range(expiring))
        await deployment.writing.send(ANN, chat)
    deployment.clock.time += 1_000 * TTL
    assert await deployment.sweep() == 2 * expiring
    told = [event for event in deployment.events if isinstance(event, Expired)]
    for chat in chats:
        sequences = sorted(s for event in told if event.chat == chat for s in event.sequences)
        assert sequences == list(range(2, expiring + 2))
        log = await deployment.log(chat, BOB)
        assert [entry.box is None for entry in log[1:]] == [True] * expiring + [False]
    assert max(len(event.sequences) for event in told) <= limits.SWEEP_BATCH_ROWS
    assert await deployment.sweep() == 0


async def test_sends_go_on_between_the_batches(deployment: Deployment, chat: ChatId) -> None:
    expiring = 5 * limits.SWEEP_BATCH_ROWS
    await all_of(deployment.writing.send(ANN, chat, ttl_seconds=TTL) for _ in range(expiring))
    deployment.clock.time += 1_000 * TTL
    sent_meanwhile = 0
    async with asyncio.TaskGroup() as group:
        sweeping = group.create_task(deployment.sweep())
        while not sweeping.done():
            await deployment.writing.send(BOB, chat)
            sent_meanwhile += 1
    assert sweeping.result() == expiring
    assert sent_meanwhile > 2


@pytest.mark.parametrize("is_swept", [False, True])
async def test_a_log_whose_every_message_has_expired_goes_on_after_its_head(
    tmp_path: Path, is_swept: bool
) -> None:
    async with open_deployment(tmp_path) as before:
        chat = await before.group(ANN, BOB)
        for _ in range(3):
            await before.writing.send(ANN, chat, ttl_seconds=TTL)
        before.clock.time += 1_000 * TTL
        if is_swept:
            assert await before.sweep() == 3
        clock = before.clock
    async with open_deployment(tmp_path, clock=clock) as after:
        row = await after.core.verbs.get(BOB, chat)
        assert (row.head.sequence, row.head.number, row.unread.count) == (4, 3, 0)
        message = await after.writing.send(ANN, chat)
        assert (message.sequence, message.number) == (5, 4)
        log = await after.log(chat, BOB)
        assert [entry.gone for entry in log] == [None, "expired", "expired", "expired", None]
        assert (await after.core.verbs.get(BOB, chat)).unread.count == 1
