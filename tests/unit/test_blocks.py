# SPDX-License-Identifier: Apache-2.0
"""Blocks: who learns what, how many there may be, and how a process learns of them."""

import asyncio
from collections.abc import AsyncIterator, Collection
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.integration.cores import Deployment, open_deployment
from tests.support.users import ANN, BOB, CAT
from tests.support.waiting import until
from tests.unit.fake_connection import FakeConnection
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.chat.chats import PUBLISHED_AGAIN_MS
from tidings.actions.identity import blocks as blocks_module
from tidings.actions.jobs.user_deletion import BlockPart
from tidings.gateway.notices import BlockedSenders
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.blocks import Block, BlockList
from tidings.model.chats import Unread
from tidings.model.entries import Entry, SendOptions
from tidings.model.ids import ChatId, UserKey, tenant_itself, tenant_of
from tidings.model.refusals import LimitReached, Refusal, StoreUnavailable, UserNotAddable
from tidings.ports.bus import Appended, ChatChanged
from tidings.wire.codes import Close
from tidings.wire.entry_frames import encode_entry, without_content

BY_BOB = BlockList({}, {BOB: Block(user=BOB, blocked=ANN, created_at=1)})
OF_BOB = BlockList({BOB: Block(user=ANN, blocked=BOB, created_at=1)}, {})


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Deployment]:
    async with open_deployment(tmp_path / "data") as deployment:
        await deployment.people(ANN, BOB, CAT)
        yield deployment


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path) as made:
        await made.group(ANN, BOB)
        yield made


@pytest.mark.parametrize(
    ("found", "is_direct", "hears"),
    [
        (BlockList(), True, True),
        (BY_BOB, True, False),
        (BY_BOB, False, False),
        (OF_BOB, True, False),
        (OF_BOB, False, True),
    ],
)
def test_who_learns_that_a_user_is_typing(found: BlockList, is_direct: bool, hears: bool) -> None:
    assert found.hears(BOB, is_direct=is_direct) == hears


def test_a_frame_loses_its_content_only_if_its_sender_is_blocked() -> None:
    entry = Entry(
        chat_id=ChatId("0" * 26), kind="message", sender=BOB, sequence=2, client_message_id="m",
        content="text",
    )  # fmt: skip
    frame = encode_entry(entry)
    assert without_content(frame, {"cat"}) == frame
    hidden = without_content(frame, {"bob"})
    assert b'"blocked":true' in hidden
    assert b"text" not in hidden


async def test_a_user_blocks_a_limited_number(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks_module, "BLOCKS_MAX", 1)
    block = opened.core.verbs.block
    for _ in range(2):
        await block(ANN, BOB)
    with pytest.raises(LimitReached):
        await block(ANN, CAT)
    assert [event for event in opened.events if isinstance(event, ChatChanged)] == [
        ChatChanged(ANN, None)
    ]


async def test_a_process_learns_of_blocks_from_the_feed(opened: Deployment) -> None:
    core = opened.core
    core.watch._look_seconds = 3_600  # it looks when the test says so
    await core.watch.start()
    told: list[tuple[str, BlockList | None]] = []
    core.blocks.listen(lambda user, found: told.append((user, found)))
    assert await core.blocks.of(ANN) == BlockList() == core.blocks.cached(ANN)

    block = Block(user=ANN, blocked=BOB, created_at=1)
    await core.store.blocks.put(block)
    assert await core.blocks.of(ANN) == BlockList(), "the feed was not read yet"
    await core.watch.look()

    assert told == [(ANN, None), (BOB, None)]
    assert await core.blocks.of(ANN) == BlockList({BOB: block}, {})


async def test_both_may_block_each_other_before_they_have_a_chat(opened: Deployment) -> None:
    verbs = opened.core.verbs
    await verbs.block(ANN, BOB)
    await verbs.block(BOB, ANN)
    created = await verbs.create(ANN, "direct", None, [BOB], None)

    found = await opened.core.store.blocks.of(ANN)

    assert found.blocked[BOB].chat_id == found.blocked_by[BOB].chat_id == created.chat_id


async def test_nothing_is_unread_in_a_direct_chat_however_much_came(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UNREAD_ENTRIES_MAX", 0)
    verbs = opened.core.verbs
    chat = (await verbs.create(BOB, "direct", None, [ANN], None)).chat_id
    await opened.writing.send(BOB, chat)
    assert (await verbs.count_total(ANN)).messages == 1
    await verbs.block(ANN, BOB)

    assert (await verbs.get(ANN, chat)).unread == Unread(0)
    assert (await verbs.count_total(ANN)).messages == 0
    _, left = await verbs.mark(ANN, chat, 1, 0)
    assert left == Unread(0)


async def test_everybody_who_blocks_a_user_counts_however_many_do(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs, store = opened.core.verbs, opened.core.store.blocks
    monkeypatch.setattr(store, "of", partial(store.of, most=1))
    chats = [(await verbs.create(ANN, "direct", None, [one], None)).chat_id for one in (BOB, CAT)]
    for user, chat in zip((BOB, CAT), chats, strict=True):
        await verbs.block(user, ANN)
        await opened.writing.send(ANN, chat)
        await verbs.mark(user, chat, 2, 2)

    for user, chat in zip((BOB, CAT), chats, strict=True):
        with pytest.raises(UserNotAddable):
            await verbs.create(ANN, "group", "Us", [user], None)
        shown = [
            *[one for one in await verbs.receipts(ANN, chat) if one.user == user],
            (await verbs.members(ANN, chat))[user].receipt.receipt,
            (await verbs.members.one(ANN, chat, user)).receipt.receipt,
            (await verbs.message_receipts(ANN, chat, 2, None, 10)).page[0].receipt,
        ]
        assert {(one.delivered, one.read) for one in shown} == {(1, 1)}
    assert len((await opened.core.blocks.of(ANN)).blocked_by) == 1
    assert opened.core.blocks.cached(ANN) is None


async def test_a_new_direct_chat_is_hidden_however_many_block_its_creator(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs, store = opened.core.verbs, opened.core.store.blocks
    monkeypatch.setattr(store, "of", partial(store.of, most=1))
    for user in (BOB, CAT):
        await verbs.block(user, ANN)

    for user in (BOB, CAT):
        chat = (await verbs.create(ANN, "direct", None, [user], None)).chat_id
        assert (await verbs.get(user, chat)).is_hidden
        assert (await store.blockers(ANN, [user]))[user].chat_id == chat


async def test_a_repeat_announces_a_direct_chat_whose_blocks_could_not_be_read(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, line = bench.core.verbs.create, await bench.line().live(BOB)
    counted = declared.entries.counts["created"]

    async def away(_: UserKey) -> BlockList:
        raise StoreUnavailable

    with monkeypatch.context() as trouble:
        trouble.setattr(bench.core.store.blocks, "of", away)
        with pytest.raises(StoreUnavailable):
            await create(ANN, "direct", None, [BOB], None)
    chat = await bench.core.store.chats.direct(ANN, BOB)
    assert chat is not None
    assert line.sequences(chat) == []
    bench.clock.time += PUBLISHED_AGAIN_MS
    made = await create(ANN, "direct", None, [BOB], None)
    assert (made.chat_id, made.is_new) == (chat, False)
    await line.until_entries(chat, 1)
    assert declared.entries.counts["created"] == counted + 1


@pytest.mark.parametrize(
    ("age_ms", "is_used", "times"),
    [(PUBLISHED_AGAIN_MS, False, 2), (PUBLISHED_AGAIN_MS + 1, False, 1), (0, True, 1)],
)
async def test_a_direct_chat_is_announced_again_until_it_is_used_or_old(
    opened: Deployment, age_ms: int, is_used: bool, times: int
) -> None:
    create = opened.core.verbs.create
    chat = (await create(ANN, "direct", None, [BOB], None)).chat_id
    opened.clock.time += age_ms
    if is_used:
        await opened.writing.send(ANN, chat)
    assert (await create(BOB, "direct", None, [ANN], None)).chat_id == chat
    appended = [event.entry for event in opened.events if isinstance(event, Appended)]
    first = [entry for entry in appended if entry.sequence == 1]
    assert [(entry.chat_id, entry.kind) for entry in first] == [(chat, "created")] * times
    assert all(entry == first[0] for entry in first)


async def test_what_the_tenant_posts_beside_a_blocked_user_is_unread(
    opened: Deployment,
) -> None:
    verbs, itself = opened.core.verbs, tenant_itself(tenant_of(ANN))
    chat = (await verbs.create(BOB, "direct", None, [ANN], None)).chat_id
    await verbs.block(ANN, BOB)
    await opened.writing.send(BOB, chat)
    answered = asyncio.Event()
    options = SendOptions(mentions=("*",), posted_by="tenant")

    def answer(result: Entry | Refusal, is_replay: bool) -> None:
        answered.set()

    verbs.post(itself, chat, "notice", "closed", None, None, answer, options=options)
    await answered.wait()

    one = Unread(1, mentions=1)
    assert (await verbs.get(ANN, chat)).unread == one
    rows, _ = await verbs.list(ANN, None, 10)
    assert [row.unread for row in rows] == [one]
    total = await verbs.count_total(ANN)
    assert (total.chats, total.messages, total.mentions, total.exact) == (1, 1, 1, True)
    _, left = await verbs.mark(ANN, chat, 1, 0)
    assert left == await verbs.count_unread(ANN, chat) == one


async def test_blocks_of_a_deleted_user_are_removed(opened: Deployment) -> None:
    store, clock = opened.core.store, opened.clock
    await store.blocks.put(Block(user=ANN, blocked=BOB, created_at=1))
    await store.blocks.put(Block(user=CAT, blocked=ANN, created_at=1))
    part = BlockPart(store.blocks, clock)

    found = await part.find(ANN)
    assert found.counts == {"blocks": 2}
    await part.remove(ANN, found.names)

    assert not (await part.find(ANN)).names
    assert await store.blocks.of(CAT) == BlockList()


async def test_a_change_of_blocks_during_hello_is_newer_than_what_was_read(
    bench: GatewayBench,
) -> None:
    async def read_before_a_change(_: UserKey) -> Collection[str]:
        line.set_blocked(())
        return {"bob"}

    line = bench.line(context=replace(bench.context, blocked_of=read_before_a_change))
    await line.live(ANN)
    assert line.conversation.blocked == ()


async def test_connections_follow_the_feed_and_close_if_blocks_cannot_be_read(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = bench.core
    senders = BlockedSenders(bench.hub, core.blocks)
    line: FakeConnection = bench.line()
    await line.live(ANN)
    await core.store.blocks.put(Block(user=ANN, blocked=BOB, created_at=1))
    senders._changed(ANN, None)
    await until(lambda: line.conversation.blocked == {"bob"})

    async def fail(_: object) -> BlockList:
        raise StoreUnavailable

    monkeypatch.setattr(core.blocks, "of", fail)
    senders._changed(ANN, None)
    senders._changed(BOB, None)
    await until(lambda: bool(line.closes))
    assert line.closes == [Close.OVERLOADED]
    await senders.close()
