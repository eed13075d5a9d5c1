# SPDX-License-Identifier: Apache-2.0
"""Blocks: found from both sides, kept over a restart, and told in the revocation feed."""

import msgspec

from tests.contract.builders import a_chat, new_chat_id
from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model.blocks import Block, BlockList

LATER = NOW + 5
BLOCK = Block(user=ANN, blocked=BOB, created_at=NOW)


async def test_a_block_is_found_from_both_sides(engine: Engine) -> None:
    seen = Block(user=CAT, blocked=ANN, created_at=NOW, chat_id=new_chat_id(), delivered=5, read=3)
    async with engine.open() as store:
        assert await store.blocks.put(BLOCK)
        assert await store.blocks.put(seen)

    async with engine.open() as store:
        assert await store.blocks.of(ANN) == BlockList({BOB: BLOCK}, {CAT: seen})
        assert await store.blocks.of(BOB) == BlockList({}, {ANN: BLOCK})
        await store.blocks.remove(ANN, BOB, LATER)
        await store.blocks.remove(ANN, BOB, LATER)
        assert await store.blocks.of(BOB) == BlockList()
        assert await store.blocks.of(ANN) == BlockList({}, {CAT: seen})


async def test_the_first_block_counts_until_there_is_a_chat(store: Store) -> None:
    chat = new_chat_id()
    seen = msgspec.structs.replace(BLOCK, chat_id=chat, delivered=2, read=2)
    await store.blocks.put(BLOCK)

    assert not await store.blocks.put(msgspec.structs.replace(seen, created_at=LATER))
    assert (await store.blocks.of(ANN)).blocked == {BOB: BLOCK}
    await store.blocks.note_chat(ANN, BOB, chat, LATER)
    await store.blocks.note_chat(ANN, CAT, chat, LATER)
    noted = msgspec.structs.replace(BLOCK, chat_id=chat)
    assert await store.blocks.of(ANN) == BlockList({BOB: noted}, {})
    assert await store.blocks.of(BOB) == BlockList({}, {ANN: noted})


async def test_of_many_who_block_a_user_some_are_read_and_others_found(store: Store) -> None:
    by_others = {one: Block(user=one, blocked=BOB, created_at=NOW) for one in (ANN, CAT)}
    own = Block(user=BOB, blocked=CAT, created_at=NOW)
    for block in (*by_others.values(), own):
        await store.blocks.put(block)

    assert await store.blocks.of(BOB, 4) == BlockList({CAT: own}, by_others)
    found = await store.blocks.of(BOB, 2)
    assert (found.blocked, len(found.blocked_by), found.has_more) == ({CAT: own}, 1, True)
    assert await store.blocks.of(BOB, 1) == BlockList({CAT: own}, {}, has_more=True)
    assert await store.blocks.blockers(BOB, [CAT, BOB, CAT]) == {CAT: by_others[CAT]}
    assert await store.blocks.blockers(BOB, []) == {}


async def test_only_a_change_is_told_to_other_processes(store: Store) -> None:
    await store.blocks.put(BLOCK)
    position = await store.revocations.head()
    await store.blocks.put(BLOCK)
    assert await store.revocations.after(position) == []

    await store.blocks.remove(ANN, BOB, LATER)

    told = await store.revocations.after(position)
    assert [(one.kind, one.subject, one.at) for one in told] == [
        ("block", ANN, LATER), ("block", BOB, LATER),
    ]  # fmt: skip


async def test_the_direct_chat_of_two_users_is_found(store: Store) -> None:
    state = await a_chat(store, ANN, BOB, kind="direct", name=None)

    assert await store.chats.direct(BOB, ANN) == state.chat_id
    assert await store.chats.direct(BOB, CAT) is None
