# SPDX-License-Identifier: Apache-2.0
"""The copies that users have, and their marks."""

import asyncio

import msgspec

from tests.contract.engines import Engine, Store
from tests.contract.inbox_builders import EXPIRES, INBOX, a_copy, new_id
from tests.contract.moving_ground import Place, export_of, import_into
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, some_users
from tidings.model.ids import UserKey, user_key
from tidings.model.notifications import Copy
from tidings.ports.export_inbox_facts import CopyFact, converted


async def copies_of(store: Store, user: UserKey, inbox: str = INBOX) -> list[Copy]:
    """The newest hundred."""
    return await store.copies.newest(user, inbox, before=None, limit=100)


async def some_copies(store: Store, user: UserKey, count: int) -> list[Copy]:
    """So many copies, newest first."""
    made = [a_copy() for _ in range(count)]
    for start in range(0, count, 50):
        async with asyncio.TaskGroup() as group:
            for copy in made[start : start + 50]:
                group.create_task(store.copies.deliver([user], INBOX, copy))
    return made[::-1]


# Delivering.


async def test_nobody_has_anything_at_first(store: Store) -> None:
    assert await copies_of(store, ANN) == []
    assert await store.copies.holders([ANN, BOB], INBOX, new_id()) == []


async def test_each_user_gets_the_copy(store: Store) -> None:
    plain, other = a_copy(), a_copy(category="offers", received_at=NOW + 7, expires_at=NOW + 9)
    assert set(await store.copies.deliver([ANN, BOB], INBOX, plain)) == {ANN, BOB}
    assert await store.copies.deliver([ANN], INBOX, other) == [ANN]

    assert await copies_of(store, ANN) == [other, plain]
    assert await copies_of(store, BOB) == [plain]
    assert await copies_of(store, CAT) == []


async def test_a_job_of_the_largest_size_is_delivered(store: Store) -> None:
    crowd = [user_key("acme", f"{'x' * 60}{number:04}") for number in range(100)]
    copy = a_copy(category="c" * 64)
    assert set(await store.copies.deliver(crowd, INBOX, copy)) == set(crowd)
    assert await copies_of(store, crowd[0]) == [copy]
    assert await copies_of(store, crowd[99]) == [copy]
    assert await store.copies.deliver(crowd, INBOX, copy) == []


async def test_one_who_has_it_keeps_what_is_there(store: Store) -> None:
    copy = a_copy()
    await store.copies.deliver([ANN, CAT], INBOX, copy)
    await store.copies.mark_read(ANN, INBOX, [copy.notification_id], NOW + 5)

    later = msgspec.structs.replace(copy, received_at=NOW + 50, expires_at=EXPIRES + 50)
    assert await store.copies.deliver([ANN, BOB, CAT], INBOX, later) == [BOB]

    assert await copies_of(store, ANN) == [msgspec.structs.replace(copy, read_at=NOW + 5)]
    assert await copies_of(store, BOB) == [later]
    assert await copies_of(store, CAT) == [copy]


async def test_a_copy_made_by_many_at_once_is_made_once(store: Store) -> None:
    crowd = some_users(20)
    copy = a_copy()
    made = await asyncio.gather(*(store.copies.deliver(crowd, INBOX, copy) for _ in range(4)))
    assert sorted(user for some in made for user in some) == sorted(crowd)


async def test_inboxes_and_tenants_do_not_share_copies(store: Store) -> None:
    copy = a_copy()
    other = user_key("acme-2", "ann")
    assert await store.copies.deliver([ANN], INBOX, copy) == [ANN]
    assert await store.copies.deliver([ANN], "news.2", copy) == [ANN]
    assert await store.copies.deliver([other], INBOX, copy) == [other]
    await store.copies.mark_read(ANN, "news.2", [copy.notification_id], NOW + 1)

    assert await copies_of(store, ANN) == [copy]
    assert await copies_of(store, other) == [copy]
    (read,) = await copies_of(store, ANN, "news.2")
    assert read.read_at == NOW + 1


async def test_copies_are_there_after_a_restart(engine: Engine) -> None:
    copy = a_copy()
    async with engine.open() as store:
        await store.copies.deliver([ANN, BOB], INBOX, copy)
        await store.copies.mark_read(BOB, INBOX, [copy.notification_id], NOW + 1)
    async with engine.open() as store:
        assert await copies_of(store, ANN) == [copy]
        assert await copies_of(store, BOB) == [msgspec.structs.replace(copy, read_at=NOW + 1)]
        assert await store.copies.deliver([ANN, CAT], INBOX, copy) == [CAT]


# Reading.


async def test_copies_come_by_their_ids_however_they_were_made(store: Store) -> None:
    early, late = new_id(NOW - 1_000), new_id(NOW + 1_000)
    middle = new_id()
    for notification_id in (middle, late, early):
        await store.copies.deliver([ANN], INBOX, a_copy(notification_id))
    found = [copy.notification_id for copy in await copies_of(store, ANN)]
    assert found == [late, middle, early]


async def test_copies_are_read_in_pages(store: Store) -> None:
    made = await some_copies(store, ANN, 12)
    await store.copies.read_before(ANN, INBOX, NOW, 3)
    page = await store.copies.newest(ANN, INBOX, before=None, limit=5)
    assert page == made[:5]
    page = await store.copies.newest(ANN, INBOX, before=page[-1].notification_id, limit=5)
    assert page == made[5:10]
    page = await store.copies.newest(ANN, INBOX, before=page[-1].notification_id, limit=5)
    assert page == made[10:]
    page = await store.copies.newest(ANN, INBOX, before=page[-1].notification_id, limit=5)
    assert page == []


async def test_a_page_may_begin_below_an_id_that_the_user_does_not_have(store: Store) -> None:
    first, between, last = a_copy(), new_id(), a_copy()
    for copy in (first, last):
        await store.copies.deliver([ANN], INBOX, copy)
    assert await store.copies.newest(ANN, INBOX, before=between, limit=5) == [first]
    assert await store.copies.newest(ANN, INBOX, before=new_id(NOW + 1), limit=5) == [last, first]


async def test_a_thousand_copies_come_at_once(place: Place) -> None:
    made = [a_copy() for _ in range(1_005)]
    facts = [converted(CopyFact, copy, user_id=ANN, inbox=INBOX) for copy in made]
    await import_into(place, export_of(*facts))
    async with place.open() as store:
        found = await store.copies.newest(ANN, INBOX, before=None, limit=1_000)
    assert found == made[:4:-1]


async def test_holders_are_those_who_have_it(store: Store) -> None:
    crowd = some_users(100)
    copy, other = a_copy(), a_copy()
    await store.copies.deliver(crowd[:30], INBOX, copy)
    await store.copies.deliver(crowd[30:60], INBOX, other)
    await store.copies.deliver(crowd[60:], "news.2", copy)

    found = await store.copies.holders(crowd, INBOX, copy.notification_id)

    assert sorted(found) == sorted(crowd[:30])
    assert await store.copies.holders([], INBOX, copy.notification_id) == []


# Marks.


async def test_a_copy_is_marked_once(store: Store) -> None:
    first, second, third = (a_copy() for _ in range(3))
    for copy in (first, second, third):
        await store.copies.deliver([ANN, BOB], INBOX, copy)

    await store.copies.mark_read(ANN, INBOX, [first.notification_id], NOW + 1)
    both = [first.notification_id, second.notification_id]
    await store.copies.mark_read(ANN, INBOX, both, NOW + 2)

    marks = [copy.read_at for copy in await copies_of(store, ANN)]
    assert marks == [None, NOW + 2, NOW + 1]
    assert await copies_of(store, BOB) == [third, second, first]


async def test_what_a_user_does_not_have_is_passed_over(store: Store) -> None:
    own, foreign = a_copy(), a_copy()
    await store.copies.deliver([ANN], INBOX, own)
    await store.copies.deliver([BOB], INBOX, foreign)

    ids = [new_id(), foreign.notification_id, own.notification_id]
    await store.copies.mark_read(ANN, INBOX, ids, NOW + 1)
    await store.copies.mark_read(CAT, INBOX, ids, NOW + 1)

    assert await copies_of(store, ANN) == [msgspec.structs.replace(own, read_at=NOW + 1)]
    assert await copies_of(store, BOB) == [foreign]
    assert await copies_of(store, CAT) == []
    assert await store.copies.deliver([ANN], INBOX, foreign) == [ANN]


async def test_a_hundred_are_marked_at_once(store: Store) -> None:
    made = await some_copies(store, ANN, 100)
    ids = [copy.notification_id for copy in made]
    await store.copies.mark_read(ANN, INBOX, ids, NOW + 1)
    assert {copy.read_at for copy in await copies_of(store, ANN)} == {NOW + 1}


async def test_of_marks_made_at_once_one_stays(store: Store) -> None:
    copy = a_copy()
    await store.copies.deliver([ANN], INBOX, copy)
    times = [NOW + number for number in range(1, 6)]
    await asyncio.gather(
        *(store.copies.mark_read(ANN, INBOX, [copy.notification_id], time) for time in times)
    )
    (marked,) = await copies_of(store, ANN)
    assert marked.read_at in times
