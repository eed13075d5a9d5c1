# SPDX-License-Identifier: Apache-2.0
"""The stored search index: how far it reaches, its segments, and writers that get in each other's
way."""

import msgspec

from tests.contract.builders import a_chat, append, deleted
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tidings.actions.search.segments import SEGMENT_BYTES_MAX, SEGMENT_ENTRIES
from tidings.model.ids import user_key
from tidings.ports.search import AuthorWords, IndexState, Segment

FIRST = IndexState(until=256, mark="a", changed_at=1)
SECOND = IndexState(until=512, mark="b")


def segment(number: int, version: int = 1, until: int = 256) -> Segment:
    return Segment(
        number=number,
        until=until,
        began_at=NOW,
        version=version,
        unlisted=0xFFFF,
        unlisted_until=NOW + 1,
        parts=(AuthorWords(ANN, 1, b"ann's words"), AuthorWords(BOB, 2, bytes(20_000))),
    )


async def test_segments_are_read_as_they_were_written(store: Store) -> None:
    chat = (await a_chat(store)).chat_id
    index = store.search_index
    assert await index.state(chat) == IndexState()
    assert await index.segments(chat, 0, 9) == []
    assert await index.put(chat, [segment(0)], IndexState(), FIRST)
    assert await index.state(chat) == FIRST
    assert await index.put(chat, [segment(7), segment(0, 2, 512)], FIRST, SECOND)
    assert await index.state(chat) == SECOND
    assert await index.segments(chat, 0, 9) == [segment(7), segment(0, 2, 512)]
    assert await index.segments(chat, 1, 7, strong=True) == [segment(7)]
    assert index.segment_cost > 0


async def test_the_largest_segment_is_stored(store: Store) -> None:
    """Every entry is of another author, with the longest of ids."""
    chat = (await a_chat(store)).chat_id
    authors = [user_key("t" * 40, f"{number:064}") for number in range(SEGMENT_ENTRIES)]
    box = bytes(SEGMENT_BYTES_MAX // SEGMENT_ENTRIES)
    parts = tuple(AuthorWords(author, 99, box) for author in authors)
    largest = msgspec.structs.replace(segment(0), parts=parts)
    assert await store.search_index.put(chat, [largest], IndexState(), FIRST)
    assert await store.search_index.segments(chat, 0, 0, strong=True) == [largest]


async def test_who_knows_an_old_state_or_segment_writes_nothing(store: Store) -> None:
    chat = (await a_chat(store)).chat_id
    index = store.search_index
    await index.put(chat, [segment(0)], IndexState(), FIRST)

    assert not await index.put(chat, [segment(0)], FIRST, SECOND)
    assert not await index.put(chat, [segment(0, 3)], FIRST, SECOND)
    assert not await index.put(chat, [], IndexState(), SECOND)
    assert not await index.put(chat, [], SECOND, SECOND)
    assert await index.state(chat) == FIRST
    assert await index.segments(chat, 0, 0, strong=True) == [segment(0)]


async def test_an_index_is_forgotten_alone_and_with_its_chat(store: Store) -> None:
    one, two = await a_chat(store), await a_chat(store)
    index = store.search_index
    for state in (one, two):
        many = [segment(number) for number in range(30)]
        await index.put(state.chat_id, many, IndexState(), FIRST)
    await index.forget(one.chat_id)
    assert await index.state(one.chat_id) == IndexState()
    assert await index.segments(one.chat_id, 0, 99, strong=True) == []

    await append(store, two, deleted())
    job = await store.deletions.lease(two.chat_id, "me", NOW)
    while job is not None and job.phase != "done":
        if job.phase == "keys_removed":  # the indexer is still at work
            before = await index.state(two.chat_id)
            assert await index.put(two.chat_id, [segment(40)], before, SECOND)
        job = await store.deletions.step(job, "me", NOW)
    assert await index.state(two.chat_id) == IndexState()
    assert await index.segments(two.chat_id, 0, 99, strong=True) == []
