# SPDX-License-Identifier: Apache-2.0
"""Chats: made once, seen by members."""

import asyncio

import pytest

from tests.contract.builders import (
    NOWHERE,
    a_chat,
    added,
    append,
    blank,
    draft,
    many_chats,
    page,
    people,
    request,
    row_of,
)
from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model import limits
from tidings.model.chats import Receipt
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.limits import DAY_MS
from tidings.model.refusals import LimitReached, RequestConflict
from tidings.ports.chats import Created

# Making one.


async def test_a_chat_is_made_with_its_first_entries(store: Store) -> None:
    chat, entries = draft(ANN, BOB, name="Lunch")
    more = Entry(chat_id=chat.chat_id, kind="added", sender=ANN, people=people([CAT], "admin"))
    state = blank(chat)
    state.fold(entries[0])
    state.stamp(more, NOW + 1, "test")
    state.fold(more)

    created = await store.chats.create(chat, [*entries, more], None, NOW)

    assert created == Created(chat.chat_id, is_new=True)
    assert await store.log.state(chat.chat_id) == state
    read = await page(store, state, CAT)
    assert read.entries == [*entries, more]
    assert (read.role, read.member_count) == ("admin", 3)
    assert read.receipts == (
        Receipt(ANN, 1, 1, 0),
        Receipt(BOB, 1, 1, 0),
        Receipt(CAT, 2, 2, 0),
    )


async def test_a_pair_has_one_direct_chat(store: Store) -> None:
    chat, entries = draft(ANN, BOB, kind="direct")
    await store.chats.create(chat, entries, None, NOW)

    for members in ((ANN, BOB), (BOB, ANN)):
        again = await store.chats.create(*draft(*members, kind="direct"), None, NOW + 1)
        assert again == Created(chat.chat_id, is_new=False)
    other = await store.chats.create(*draft(ANN, CAT, kind="direct"), None, NOW)
    assert other.is_new

    assert len(await store.chats.list_heads(ANN)) == 2
    assert len(await store.chats.list_heads(BOB)) == 1


async def test_a_pair_that_writes_to_each_other_at_once_has_one_chat(store: Store) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(store.chats.create(*draft(*pair, kind="direct"), None, NOW))
            for pair in ((ANN, BOB), (BOB, ANN), (ANN, BOB))
        ]
    results = [task.result() for task in tasks]

    assert len({created.chat_id for created in results}) == 1
    assert sum(created.is_new for created in results) == 1


async def test_a_pair_may_have_any_number_of_groups(store: Store) -> None:
    for _ in range(2):
        assert (await store.chats.create(*draft(ANN, BOB), None, NOW)).is_new


@pytest.mark.parametrize("kind", ["direct", "group"])
async def test_the_same_request_makes_one_chat(store: Store, kind: object) -> None:
    assert kind == "direct" or kind == "group"
    first = await store.chats.create(*draft(ANN, BOB, kind=kind), request("k"), NOW)
    again = await store.chats.create(*draft(ANN, BOB, kind=kind), request("k"), NOW + DAY_MS - 1)

    assert again == Created(first.chat_id, is_new=False)
    assert len(await store.chats.list_heads(ANN)) == 1


async def test_a_request_key_used_for_another_request_is_refused(store: Store) -> None:
    await store.chats.create(*draft(ANN, BOB), request("k", digest=b"one"), NOW)

    with pytest.raises(RequestConflict):
        await store.chats.create(*draft(ANN, CAT), request("k", digest=b"two"), NOW)

    assert await store.chats.list_heads(CAT) == []


async def test_a_request_that_found_the_direct_chat_keeps_its_key(store: Store) -> None:
    first = await store.chats.create(*draft(ANN, BOB, kind="direct"), None, NOW)
    found = await store.chats.create(*draft(ANN, BOB, kind="direct"), request("k"), NOW)
    assert found == Created(first.chat_id, is_new=False)

    with pytest.raises(RequestConflict):
        await store.chats.create(*draft(ANN, CAT), request("k", digest=b"two"), NOW)


async def test_a_request_key_belongs_to_its_user(store: Store) -> None:
    await store.chats.create(*draft(ANN, BOB), request("k"), NOW)
    other = await store.chats.create(*draft(BOB, CAT), request("k", user=BOB, digest=b"2"), NOW)
    assert other.is_new


async def test_an_expired_request_key_is_as_good_as_new(store: Store) -> None:
    first = await store.chats.create(*draft(ANN, BOB), request("k", digest=b"one"), NOW)
    fresh = request("k", digest=b"two", expires_at=NOW + 2 * DAY_MS)

    second = await store.chats.create(*draft(ANN, BOB), fresh, NOW + DAY_MS)
    third = await store.chats.create(*draft(ANN, BOB), fresh, NOW + DAY_MS + 1)

    assert second.is_new
    assert second.chat_id != first.chat_id
    assert third == Created(second.chat_id, is_new=False)


async def test_nobody_makes_more_chats_than_the_limit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "USER_CHATS_MAX", 60)
    await many_chats(store, BOB, 60)
    chat, entries = draft(BOB, ANN, kind="direct")

    with pytest.raises(LimitReached):
        await store.chats.create(chat, entries, request("k", user=BOB), NOW)

    assert await store.log.state(chat.chat_id) is None
    assert await store.chats.list_heads(ANN) == []
    assert len(await store.chats.list_heads(BOB)) == 60


async def test_a_chat_is_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        chat, entries = draft(ANN, BOB, kind="direct")
        await store.chats.create(chat, entries, request("k"), NOW)
        before = await row_of(store, BOB, chat.chat_id)

    async with engine.open() as store:
        assert await row_of(store, BOB, chat.chat_id) == before
        again = await store.chats.create(*draft(BOB, ANN, kind="direct"), request("k"), NOW)
        assert again == Created(chat.chat_id, is_new=False)


# Members, mute, what is held.


async def test_members_come_longest_standing_first(store: Store) -> None:
    state = await a_chat(store, DAN)
    await append(store, state, added(ANN, by=DAN))
    await append(store, state, added(CAT, BOB, by=DAN))

    members = await store.chats.members(state.chat_id, ANN)

    assert members == state.members
    assert list(members) == [DAN, ANN, BOB, CAT]
    assert await store.chats.members(state.chat_id, UserKey("acme:nobody")) is None
    assert await store.chats.members(NOWHERE, ANN) is None


async def test_mute_is_per_member(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    assert await store.chats.mute(state.chat_id, ANN, NOW + 5)
    assert (await row_of(store, ANN, state.chat_id)).muted_until == NOW + 5
    assert (await row_of(store, BOB, state.chat_id)).muted_until is None

    assert await store.chats.mute(state.chat_id, ANN, None)
    assert (await row_of(store, ANN, state.chat_id)).muted_until is None
    assert not await store.chats.mute(state.chat_id, DAN, NOW + 5)
