# SPDX-License-Identifier: Apache-2.0
"""Sweeping inboxes in the embedded store: what goes, what stays, and in what steps."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from tests.contract.engines import SqliteEngine, Store
from tests.contract.inbox_builders import (
    INBOX,
    TENANT,
    a_broadcast,
    a_claim,
    a_copy,
    a_notification,
    a_retraction,
    new_id,
)
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, some_users
from tidings.model.ids import UserKey
from tidings.stores.sqlite.engine.connections import DATABASE


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """The embedded store, open, with nothing in it."""
    async with SqliteEngine(tmp_path / "data").open() as opened:
        yield opened


@pytest.fixture
def rows(tmp_path: Path) -> apsw.Connection:
    """The same store, to be looked at from outside."""
    return apsw.Connection(str(tmp_path / "data" / DATABASE), flags=apsw.SQLITE_OPEN_READONLY)


def count(rows: apsw.Connection, table: str) -> int:
    found: int = rows.execute(f"SELECT count(*) FROM {table}").get
    return found


async def sweep(store: Store, now: int, limit: int) -> list[int]:
    """As many steps as surely see everything."""
    return [await store.sweeping.forget_notifications(now, limit) for _ in range(60)]


async def names(store: Store, user: UserKey, inbox: str = INBOX) -> list[str]:
    found = await store.copies.newest(user, inbox, before=None, limit=2_000)
    return [copy.notification_id for copy in found]


async def test_an_empty_store_has_nothing_to_sweep(store: Store) -> None:
    assert await store.sweeping.forget_notifications(NOW, 10) == 0


async def test_expired_notifications_go_with_all_that_belongs_to_them(
    store: Store, rows: apsw.Connection
) -> None:
    early, late = a_notification(expires_at=NOW + 10), a_notification(expires_at=NOW + 11)
    for one in (early, late):
        await store.notifications.put(one)
        for number in range(7):
            await store.notifications.finish_job(TENANT, INBOX, one.notification_id, number)

    assert sum(await sweep(store, NOW + 9, 3)) == 0
    steps = await sweep(store, NOW + 10, 3)

    assert (max(steps), sum(steps)) == (3, 8)
    assert await store.notifications.get(TENANT, INBOX, [early.notification_id]) == []
    assert await store.notifications.get(TENANT, INBOX, [late.notification_id]) == [late]
    done = await store.notifications.finished_jobs(TENANT, INBOX, late.notification_id)
    assert done == set(range(7))
    assert count(rows, "finished_jobs") == 7


async def test_a_job_that_finishes_after_its_notification_went_leaves_nothing(
    store: Store, rows: apsw.Connection
) -> None:
    await store.notifications.finish_job(TENANT, INBOX, new_id(), 1)
    assert count(rows, "finished_jobs") == 0


async def test_expired_announcements_lose_their_content_and_keep_their_place(store: Store) -> None:
    made = [
        a_broadcast(1, expires_at=NOW + 10),
        a_retraction(2, "b1"),
        a_broadcast(3, expires_at=NOW + 11),
    ]
    for one in made:
        await store.notifications.append_broadcast(one)

    assert sum(await sweep(store, NOW + 10, 5)) == 1

    log = await store.notifications.broadcasts(TENANT, INBOX, after=0, limit=10)
    assert [one.sequence for one in log] == [1, 2, 3]
    assert [one.box for one in log] == [None, None, b"sealed"]
    assert not await store.notifications.append_broadcast(a_broadcast(1))


async def test_expired_copies_go_in_small_steps(store: Store) -> None:
    crowd = some_users(50)
    gone = [a_copy(expires_at=NOW + 10) for _ in range(2)]
    kept = a_copy(expires_at=NOW + 11)
    for copy in (gone[0], kept, gone[1]):
        await store.copies.deliver(crowd, INBOX, copy)

    assert sum(await sweep(store, NOW + 9, 3)) == 0
    steps = await sweep(store, NOW + 10, 3)

    assert (max(steps), sum(steps)) == (3, 100)
    for user in crowd:
        assert await names(store, user) == [kept.notification_id]


async def test_copies_made_after_the_walk_went_by_are_met_the_next_time(store: Store) -> None:
    for _ in range(3):
        await store.copies.deliver(some_users(20), INBOX, a_copy(expires_at=NOW + 10))
        assert sum(await sweep(store, NOW + 10, 2)) == 20


@pytest.mark.parametrize("limit", [5, 30])
async def test_only_the_newest_thousand_copies_stay(store: Store, limit: int) -> None:
    made = [a_copy() for _ in range(1_012)]
    async with asyncio.TaskGroup() as group:
        for copy in made:
            group.create_task(store.copies.deliver([ANN], INBOX, copy))
        for copy in made[:1_000]:
            group.create_task(store.copies.deliver([BOB], INBOX, copy))
            group.create_task(store.copies.deliver([ANN], "news.2", copy))
    ids = [copy.notification_id for copy in made][::-1]

    steps = await sweep(store, NOW, limit)

    assert max(steps) <= limit
    assert sum(steps) == 12
    assert await names(store, ANN) == ids[:1_000]
    assert await names(store, BOB) == ids[12:]
    assert await names(store, ANN, "news.2") == ids[12:]


async def test_expired_keys_of_posts_go(store: Store, rows: apsw.Connection) -> None:
    early, late = a_claim(expires_at=NOW + 10), a_claim(expires_at=NOW + 11)
    await store.notifications.claim_key(TENANT, INBOX, "early", early)
    await store.notifications.claim_key(TENANT, INBOX, "late", late)

    forgotten = [await store.sweeping.forget_keys(NOW + 10, 5) for _ in range(3)]

    assert forgotten == [1, 0, 0]
    assert count(rows, "post_keys") == 1
    assert await store.notifications.claim_key(TENANT, INBOX, "late", a_claim(hint=1)) == late
