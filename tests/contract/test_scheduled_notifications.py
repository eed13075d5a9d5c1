# SPDX-License-Identifier: Apache-2.0
"""Notifications that wait for their time of delivery, in the store."""

from pathlib import Path

import msgspec
import pytest

from tests.contract.backup_bench import Bench
from tests.contract.engines import Store
from tests.contract.inbox_builders import INBOX, TENANT, a_notification, new_id
from tests.contract.moving_ground import Place
from tests.contract.test_dynamodb_repair import only_tables, repair
from tests.support.clock import NOW
from tidings.actions.inbox.posting import jobs_for
from tidings.model.notifications import Notification
from tidings.ports.due import Due
from tidings.ports.scheduled_notifications import due_of_job, due_of_notification
from tidings.stores.dynamodb.inbox.scheduled_notifications import held_item
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

USERS = [f"u{number}" for number in range(250)]


async def scheduled(store: Store, at: int, *, everyone: bool = False) -> Notification:
    """Store a notification with all that it needs at its time."""
    made = a_notification(new_id(at), posted_at=at, everyone=everyone)
    await store.due.put(due_of_notification(made, NOW), NOW)
    await store.scheduled_notifications.hold(jobs_for(made, [] if everyone else USERS))
    await store.notifications.put(made)
    return made


async def stored(store: Store, made: Notification) -> Notification:
    (found,) = await store.notifications.get(TENANT, INBOX, [made.notification_id])
    return found


async def held(store: Store, made: Notification, limit: int = 100) -> list[int]:
    jobs = await store.scheduled_notifications.held(TENANT, INBOX, made.notification_id, limit)
    return [job.number for job in jobs]


async def due(store: Store, now: int) -> list[Due]:
    shards = await store.due.lease("inbox", "me", now)
    return [one for shard in shards for one in await store.due.read("inbox", shard, now, 100)]


async def test_jobs_wait_in_order_until_they_are_released(store: Store) -> None:
    first, other = await scheduled(store, NOW + 1), await scheduled(store, NOW + 1)
    assert await stored(store, first) == first
    assert await held(store, first, 2) == [0, 1]
    jobs = await store.scheduled_notifications.held(TENANT, INBOX, first.notification_id, 2)
    assert jobs == jobs_for(first, USERS)[:2]
    for _ in range(2):
        await store.scheduled_notifications.release(jobs)
    assert await held(store, first) == [2]
    assert await held(store, other) == [0, 1, 2]
    await store.scheduled_notifications.hold(jobs)
    assert await held(store, first) == [0, 1, 2]


async def test_the_first_head_stays(store: Store) -> None:
    made = await scheduled(store, NOW + 1, everyone=True)
    name = TENANT, INBOX, made.notification_id
    late = store.scheduled_notifications
    assert await late.begin(*name, 4) == 4
    assert await late.begin(*name, 9) == 4
    await late.finish(*name, 5)
    expected = msgspec.structs.replace(made, log_head=4, sequence=5, box=None, box_key=0)
    assert await stored(store, made) == expected
    assert await late.begin(TENANT, INBOX, new_id(), 4) is None
    await late.finish(TENANT, INBOX, new_id(), 4)


async def test_what_failed_is_marked_and_never_made(store: Store) -> None:
    made, unknown = await scheduled(store, NOW + 1), new_id()
    for name in (made.notification_id, unknown):
        await store.scheduled_notifications.fail(TENANT, INBOX, name)
    assert await stored(store, made) == msgspec.structs.replace(made, failed=True)
    assert await store.notifications.get(TENANT, INBOX, [unknown]) == []


def test_jobs_wait_as_long_as_their_notification_is_stored() -> None:
    """An outage of several days must not remove them before they are queued."""
    made = a_notification(new_id(NOW), posted_at=NOW)
    for job in jobs_for(made, USERS):
        assert held_item(job)[TTL] == ttl_seconds(made.expires_at)


async def test_the_item_of_a_job_is_that_of_its_notification(store: Store) -> None:
    made = await scheduled(store, NOW + 1)
    job = jobs_for(made, USERS)[0]
    await store.due.put(due_of_job(job), NOW)
    assert [one.item_id for one in await due(store, NOW + 1)] == [made.notification_id]
    assert await due(store, NOW) == []


async def _check_restored(store: Store, past: Notification, future: Notification) -> None:
    assert (await stored(store, past)).restored
    assert await stored(store, future) == future
    assert [one.item_id for one in await due(store, future.posted_at)] == [future.notification_id]


@only_tables
@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_what_was_due_before_tables_were_restored_is_not_delivered(place: Place) -> None:
    async with place.open() as store:
        past, future = await scheduled(store, NOW), await scheduled(store, NOW + 1)
    assert (await repair(place)).restored == 1
    async with place.open() as store:
        await _check_restored(store, past, future)
    assert (await repair(place)).restored == 0


async def test_what_was_due_before_a_backup_was_restored_is_not_delivered(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.store.open() as store:
        past, future = await scheduled(store, NOW), await scheduled(store, NOW + 1)
    async with bench.restored(bench.back_up().manifest).open() as store:
        await _check_restored(store, past, future)
        assert await held(store, past) == []
        assert await held(store, future) == [0, 1, 2]
