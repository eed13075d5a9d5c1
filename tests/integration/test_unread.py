# SPDX-License-Identifier: Apache-2.0
"""Unread is what a recount of the log says, whatever happened to the messages and the reader."""

from pathlib import Path

import pytest

from tests.integration.cores import Deployment, all_of, open_deployment
from tests.support.canary import canary
from tests.support.users import ANN, BOB, CAT
from tidings.model import limits
from tidings.model.chats import Receipt, Unread
from tidings.model.ids import ChatId, UserKey


async def receipt_of(deployment: Deployment, user: UserKey, chat: ChatId) -> Receipt:
    found = await deployment.core.verbs.receipts(user, chat)
    return next(receipt for receipt in found if receipt.user == user)


async def recount(deployment: Deployment, user: UserKey, chat: ChatId) -> int:
    """What the user has not read, counted entry by entry."""
    read = (await receipt_of(deployment, user, chat)).read
    return sum(
        entry.kind == "message" and entry.sender != user and entry.content is not None
        for entry in await deployment.log(chat, user)
        if entry.sequence > read
    )


async def unread(deployment: Deployment, user: UserKey, chat: ChatId) -> int:
    """The user's unread count, checked to be the same wherever it is shown, and after a recount."""
    verbs = deployment.core.verbs
    rows, _ = await verbs.list(user, None, 100)
    shown = [
        (await verbs.get(user, chat)).unread,
        next(row.unread for row in rows if row.chat_id == chat),
        (await verbs.mark(user, chat, 0, 0))[1],
        await verbs.count_unread(user, chat),
        (await verbs.count_total.of_chats(user)).get(chat, Unread(0)),
    ]
    assert shown == [Unread(await recount(deployment, user, chat))] * 5
    assert shown[0] is not None
    return shown[0].count


@pytest.fixture
async def chat(deployment: Deployment) -> ChatId:
    """A group of three."""
    return await deployment.group(ANN, BOB, CAT)


async def test_messages_of_others_count_and_nothing_else(
    deployment: Deployment, chat: ChatId
) -> None:
    verbs = deployment.core.verbs
    assert await unread(deployment, BOB, chat) == 0
    first = await deployment.writing.send(ANN, chat)
    await deployment.writing.send(CAT, chat)
    await deployment.writing.send(BOB, chat)
    await verbs.edit(ANN, chat, first.sequence, canary("changed"))
    await verbs.react(CAT, chat, first.sequence, "👍")
    await verbs.rename(ANN, chat, "Another name")
    await verbs.put_member(ANN, chat, CAT, "admin")
    assert await unread(deployment, BOB, chat) == 2
    assert await unread(deployment, ANN, chat) == 2
    assert await unread(deployment, CAT, chat) == 2


async def test_a_redacted_message_counts_no_longer(deployment: Deployment, chat: ChatId) -> None:
    sent = [await deployment.writing.send(ANN, chat) for _ in range(3)]
    await deployment.core.verbs.mark(BOB, chat, 0, sent[0].sequence)
    assert await unread(deployment, BOB, chat) == 2
    await deployment.core.verbs.redact(ANN, chat, sent[2].sequence)
    assert await unread(deployment, BOB, chat) == 1
    await deployment.core.verbs.redact(ANN, chat, sent[0].sequence)
    assert await unread(deployment, BOB, chat) == 1, "that one had been read"
    await deployment.core.verbs.redact(ANN, chat, sent[1].sequence)
    assert await unread(deployment, BOB, chat) == 0


@pytest.mark.parametrize("is_swept", [False, True])
async def test_an_expired_message_counts_no_longer(
    deployment: Deployment, chat: ChatId, is_swept: bool
) -> None:
    await deployment.writing.send(ANN, chat, ttl_seconds=10)
    await deployment.writing.send(ANN, chat)
    await deployment.writing.send(ANN, chat, ttl_seconds=20)
    assert await unread(deployment, BOB, chat) == 3
    deployment.clock.time += 10_000
    if is_swept:
        assert await deployment.sweep() == 1
    assert await unread(deployment, BOB, chat) == 2
    deployment.clock.time += 10_000
    if is_swept:
        assert await deployment.sweep() == 1
    assert await unread(deployment, BOB, chat) == 1


async def test_who_leaves_and_comes_back_starts_at_nothing(
    deployment: Deployment, chat: ChatId
) -> None:
    verbs = deployment.core.verbs
    await deployment.writing.send(ANN, chat)
    assert await unread(deployment, BOB, chat) == 1
    await verbs.remove_member(BOB, chat, BOB)
    await deployment.writing.send(ANN, chat)
    await verbs.put_member(ANN, chat, BOB, None)
    assert await unread(deployment, BOB, chat) == 0
    await deployment.writing.send(ANN, chat)
    assert await unread(deployment, BOB, chat) == 1


async def test_two_devices_share_one_count(deployment: Deployment, chat: ChatId) -> None:
    sent = [await deployment.writing.send(ANN, chat) for _ in range(5)]
    phone, laptop = sent[3].sequence, sent[1].sequence
    for read, left in ((phone, 1), (laptop, 1), (sent[4].sequence, 0), (phone, 0)):
        receipt, answered = await deployment.core.verbs.mark(BOB, chat, 0, read)
        assert answered == Unread(left)
        assert receipt.read >= read
        assert await unread(deployment, BOB, chat) == left


async def test_own_messages_are_read_if_nothing_was_unread_before_them(
    deployment: Deployment, chat: ChatId
) -> None:
    own = [(await deployment.writing.send(BOB, chat)).sequence for _ in range(3)]
    await deployment.core.receipts.close()  # writes what it would have written within a second
    assert await receipt_of(deployment, BOB, chat) == Receipt(BOB, own[-1], own[-1], 3)
    assert await unread(deployment, BOB, chat) == 0


async def test_own_messages_move_the_mark_up_to_the_first_foreign_one(
    deployment: Deployment, chat: ChatId
) -> None:
    first = await deployment.writing.send(BOB, chat)
    await deployment.writing.send(ANN, chat)
    await deployment.writing.send(BOB, chat)
    await deployment.core.receipts.close()
    assert (await receipt_of(deployment, BOB, chat)).read == first.sequence
    assert await unread(deployment, BOB, chat) == 1


async def test_an_outbox_flushed_after_a_day_offline_reads_nothing(tmp_path: Path) -> None:
    async with open_deployment(tmp_path) as deployment:
        chat = await deployment.group(ANN, BOB, CAT)
        seen = await deployment.writing.send(ANN, chat)
        await deployment.core.verbs.mark(BOB, chat, 0, seen.sequence)
        for _ in range(4):
            await deployment.writing.send(ANN, chat)
        deployment.clock.time += limits.DAY_MS
        outbox = [deployment.writing.send(BOB, chat, cmid=f"outbox-{n}") for n in range(5)]
        await all_of(
            [*outbox, deployment.writing.send(CAT, chat), deployment.writing.send(BOB, chat)]
        )
        assert await unread(deployment, BOB, chat) == 5
        assert (await receipt_of(deployment, BOB, chat)).read == seen.sequence
    async with open_deployment(tmp_path) as deployment:
        assert (await receipt_of(deployment, BOB, chat)).read == seen.sequence
        assert await unread(deployment, BOB, chat) == 5
        # A repeat of the outbox, after a lost answer, reads nothing either.
        await all_of(deployment.writing.send(BOB, chat, cmid=f"outbox-{n}") for n in range(5))
        await deployment.core.receipts.close()
        assert (await receipt_of(deployment, BOB, chat)).read == seen.sequence
        assert await unread(deployment, BOB, chat) == 5


async def test_beyond_a_thousand_entries_the_count_is_an_upper_bound(
    deployment: Deployment, chat: ChatId
) -> None:
    async def shown() -> Unread:
        return (await deployment.core.verbs.get(BOB, chat)).unread

    await all_of(deployment.writing.send(ANN, chat) for _ in range(limits.UNREAD_ENTRIES_MAX - 1))
    own = await deployment.writing.send(BOB, chat)
    assert own.sequence == 1 + limits.UNREAD_ENTRIES_MAX
    assert await shown() == Unread(limits.UNREAD_ENTRIES_MAX - 1, exact=True)
    await deployment.core.verbs.redact(ANN, chat, 2)
    assert await shown() == Unread(limits.UNREAD_ENTRIES_MAX, exact=False)
    await deployment.core.verbs.mark(BOB, chat, 0, 2)
    assert await shown() == Unread(limits.UNREAD_ENTRIES_MAX - 2, exact=True)
