# SPDX-License-Identifier: Apache-2.0
"""The log of an inbox: what everyone was told, and what was taken back."""

import asyncio

import msgspec
import pytest

from tests.contract.engines import Engine, Store
from tests.contract.inbox_builders import (
    INBOX,
    TENANT,
    a_broadcast,
    a_retraction,
    announce_all,
    new_id,
)
from tidings.model.notifications import Broadcast


async def whole_log(store: Store, inbox: str = INBOX) -> list[Broadcast]:
    return await store.notifications.broadcasts(TENANT, inbox, after=0, limit=1_000)


async def test_how_old_a_memory_of_the_log_may_be(store: Store) -> None:
    assert 0 <= store.notifications.broadcasts_age_ms <= 1_000


async def test_an_inbox_has_an_empty_log_at_first(store: Store) -> None:
    assert await whole_log(store) == []
    last = store.notifications.last_broadcasts
    assert await last(TENANT, INBOX, before=None, limit=10) == []
    assert await last(TENANT, INBOX, before=1, limit=10) == []


async def test_entries_are_kept_as_they_are(store: Store) -> None:
    made = [a_broadcast(1), a_retraction(2, "b1"), a_retraction(3, new_id())]
    for one in made:
        assert await store.notifications.append_broadcast(one)
    assert await whole_log(store) == made


async def test_a_place_is_taken_once(store: Store) -> None:
    first = a_broadcast(1)
    assert await store.notifications.append_broadcast(first)
    assert not await store.notifications.append_broadcast(a_broadcast(1, box=b"other"))
    assert not await store.notifications.append_broadcast(a_retraction(1, "b1"))
    assert await whole_log(store) == [first]


async def test_a_writer_knows_its_own_entry_by_the_mark(store: Store) -> None:
    first = a_broadcast(1)
    assert await store.notifications.append_broadcast(first)
    assert await store.notifications.append_broadcast(first)
    assert await store.notifications.append_broadcast(a_broadcast(1, mark=first.mark, box=b"other"))
    assert await whole_log(store) == [first]


async def test_of_many_at_one_place_one_gets_it(store: Store) -> None:
    rivals = [a_broadcast(1) for _ in range(6)]
    got = await asyncio.gather(*(store.notifications.append_broadcast(one) for one in rivals))
    assert sorted(got) == [False] * 5 + [True]
    assert await whole_log(store) == [rivals[got.index(True)]]


async def test_an_emptied_broadcast_leaves_its_entry(store: Store) -> None:
    made = await announce_all(store, 3)

    await store.notifications.retract_broadcast(TENANT, INBOX, 2)
    await store.notifications.retract_broadcast(TENANT, INBOX, 2)

    first, second, third = await whole_log(store)
    assert (first, third) == (made[0], made[2])
    assert second.box is None
    assert msgspec.structs.replace(second, box=b"sealed", box_key=2) == made[1]


async def test_an_emptied_broadcast_stays_empty_whoever_puts_it_again(store: Store) -> None:
    (first,) = await announce_all(store, 1)
    await store.notifications.retract_broadcast(TENANT, INBOX, 1)
    assert await store.notifications.append_broadcast(first)
    (kept,) = await whole_log(store)
    assert kept.box is None


async def test_emptying_makes_no_entry(store: Store) -> None:
    await announce_all(store, 1)
    await store.notifications.retract_broadcast(TENANT, INBOX, 2)
    await store.notifications.retract_broadcast(TENANT, "news.2", 1)
    assert len(await whole_log(store)) == 1
    assert await whole_log(store, "news.2") == []
    assert await store.notifications.append_broadcast(a_broadcast(2))


async def test_the_log_is_read_forwards_in_pages(store: Store) -> None:
    made = await announce_all(store, 12)
    pages = [
        await store.notifications.broadcasts(TENANT, INBOX, after=after, limit=5)
        for after in (0, 5, 10, 12, 99)
    ]
    assert pages == [made[:5], made[5:10], made[10:], [], []]


async def test_the_log_is_read_backwards_in_pages(store: Store) -> None:
    made = (await announce_all(store, 12))[::-1]
    pages = [
        await store.notifications.last_broadcasts(TENANT, INBOX, before=before, limit=5)
        for before in (None, 8, 3, 1)
    ]
    assert pages == [made[:5], made[5:10], made[10:], []]


@pytest.mark.parametrize("is_forwards", [True, False])
async def test_a_page_is_as_long_as_was_asked_however_large_its_entries(
    store: Store, is_forwards: bool
) -> None:
    made = await announce_all(store, 110, box=b"x" * 12_000)
    if is_forwards:
        page = await store.notifications.broadcasts(TENANT, INBOX, after=0, limit=105)
        assert page == made[:105]
    else:
        page = await store.notifications.last_broadcasts(TENANT, INBOX, before=None, limit=105)
        assert page == made[:4:-1]


async def test_inboxes_and_tenants_have_logs_of_their_own(store: Store) -> None:
    await announce_all(store, 2)
    other = a_broadcast(1, inbox="news.2")
    elsewhere = a_broadcast(1, tenant="acme-2")
    for one in (other, elsewhere):
        assert await store.notifications.append_broadcast(one)
    assert len(await whole_log(store)) == 2
    assert await whole_log(store, "news.2") == [other]
    there = await store.notifications.last_broadcasts("acme-2", INBOX, before=None, limit=5)
    assert there == [elsewhere]


async def test_the_log_is_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        made = await announce_all(store, 3)
    async with engine.open() as store:
        assert await whole_log(store) == made
        assert not await store.notifications.append_broadcast(a_broadcast(3))
