# SPDX-License-Identifier: Apache-2.0
"""The inbox on DynamoDB: what must not expire, marks that stay small, several processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from tests.contract.inbox_builders import (
    EXPIRES,
    INBOX,
    TENANT,
    a_broadcast,
    a_claim,
    a_copy,
    a_notification,
    announce_all,
    new_id,
    some_jobs,
    take_so_many,
)
from tests.support.clock import NOW
from tests.support.dynamo_tables import REGION, open_tables
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB, some_users
from tests.support.waiting import until
from tidings.assembly.system import SystemChance, SystemClock
from tidings.model import limits
from tidings.model.ids import ulid_time, user_key
from tidings.stores.dynamodb.client.dynamo import Dynamo, open_client
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.identity import phone_claims
from tidings.stores.dynamodb.inbox import jobs
from tidings.stores.dynamodb.inbox.copies import NEEDLESS_MAX, SINGLE_MAX
from tidings.stores.dynamodb.inbox.items import (
    copy_key,
    log_key,
    log_partition,
    marks_key,
    portions_key,
)
from tidings.stores.dynamodb.patterns import Pattern
from tidings.stores.dynamodb.store import DynamoStore
from tidings.stores.dynamodb.tables import ttl_seconds

LOOK = Pattern("look", "GetItem", ("inbox",), "this test", strong=True)


@pytest.fixture
async def prefix(dynamodb_endpoint: str) -> AsyncIterator[str]:
    async with spare_tables(dynamodb_endpoint) as prefix:
        yield prefix


@pytest.fixture
async def store(dynamodb_endpoint: str, prefix: str) -> AsyncIterator[DynamoStore]:
    async with open_tables(dynamodb_endpoint, prefix) as opened:
        yield opened


@pytest.fixture
def other(dynamodb_endpoint: str, prefix: str) -> AbstractAsyncContextManager[DynamoStore]:
    """Another process on the same tables."""
    return open_tables(dynamodb_endpoint, prefix)


@pytest.fixture
async def dynamo(dynamodb_endpoint: str, prefix: str) -> AsyncIterator[Dynamo]:
    async with open_client(
        endpoint=dynamodb_endpoint,
        region=REGION,
        prefix=prefix,
        clock=SystemClock(),
        chance=SystemChance(),
    ) as opened:
        yield opened


async def item_at(dynamo: Dynamo, key: Item) -> Item:
    item = await dynamo.get(LOOK, key)
    assert item is not None
    return item


# What the engine may delete.


async def test_the_last_announcement_is_never_deleted(store: DynamoStore, dynamo: Dynamo) -> None:
    """Or the log would begin anew, and what users have read of it would be something else."""
    await announce_all(store, 3)
    await store.notifications.close()
    ttls = [(await item_at(dynamo, log_key(TENANT, INBOX, n))).get("ttl") for n in (1, 2, 3)]
    assert ttls == [ttl_seconds(EXPIRES), ttl_seconds(EXPIRES), None]

    assert not await store.notifications.append_broadcast(a_broadcast(3))
    await store.notifications.close()
    assert "ttl" in await item_at(dynamo, log_key(TENANT, INBOX, 2))
    assert "ttl" not in await item_at(dynamo, log_key(TENANT, INBOX, 3))


async def test_what_has_gone_is_not_made_anew(store: DynamoStore, dynamo: Dynamo) -> None:
    await announce_all(store, 2)
    await store.notifications.close()
    delete = Pattern("delete", "DeleteItem", ("inbox",), "as the engine does it")
    await dynamo.delete(delete, log_key(TENANT, INBOX, 2))
    assert await store.notifications.append_broadcast(a_broadcast(3))
    await store.notifications.retract_broadcast(TENANT, INBOX, 2)
    await store.notifications.empty(TENANT, INBOX, new_id())
    await store.copies.mark_read(ANN, INBOX, [new_id()], NOW)
    await store.notifications.close()

    log = await store.notifications.broadcasts(TENANT, INBOX, after=0, limit=9)
    assert [one.sequence for one in log] == [1, 3]
    look = Pattern("look", "Query", ("inbox",), "this test", strong=True)
    others = await dynamo.query(look, "#pk = :pk", {":pk": f"t#{TENANT}#i#{INBOX}"})
    copies = await store.copies.newest(ANN, INBOX, before=None, limit=9)
    assert (others, copies) == ([], [])


async def test_what_users_are_shown_says_when_it_may_go(store: DynamoStore, dynamo: Dynamo) -> None:
    posted, copy = a_notification(), a_copy()
    await store.notifications.put(posted)
    await store.notifications.claim_key(TENANT, INBOX, "key", a_claim(expires_at=NOW + 1))
    await store.notifications.finish_job(TENANT, INBOX, posted.notification_id, 7)
    await store.copies.deliver([ANN], INBOX, copy)

    partition = f"t#{TENANT}#i#{INBOX}"
    body = await item_at(dynamo, {"pk": partition, "sk": f"n#{posted.notification_id}"})
    claim = await item_at(dynamo, {"pk": partition, "sk": "k#key"})
    progress = await item_at(dynamo, portions_key(TENANT, INBOX, posted.notification_id, 7))
    kept = await item_at(dynamo, copy_key(ANN, INBOX, copy.notification_id))
    assert body["ttl"] == kept["ttl"] == ttl_seconds(EXPIRES)
    assert claim["ttl"] == ttl_seconds(NOW + 1)
    longest = ulid_time(posted.notification_id) + limits.KEEP_DAYS_MAX * limits.DAY_MS
    assert progress["ttl"] > ttl_seconds(longest)
    assert progress["sk"] == f"p#{posted.notification_id}#0000"


# Marks that stay small.


async def test_marking_the_same_again_and_again_takes_no_room(
    store: DynamoStore, dynamo: Dynamo
) -> None:
    sequences = list(range(1, 101))
    for start in range(0, 40, 8):
        async with asyncio.TaskGroup() as group:
            for time in range(start, start + 8):
                group.create_task(store.copies.read_broadcasts(ANN, INBOX, sequences, NOW + time))
    item = await item_at(dynamo, marks_key(ANN, INBOX))
    assert len(item["singly"]) <= SINGLE_MAX + NEEDLESS_MAX + len(sequences)
    state = await store.copies.read_state(ANN, INBOX)
    assert list(state.singly) == sequences[::-1]
    assert set(state.singly.values()) == {NOW}


async def test_single_marks_that_say_nothing_more_go(store: DynamoStore, dynamo: Dynamo) -> None:
    for start in (1, 101, 201):
        some = range(start, start + 100)
        await store.copies.read_broadcasts(ANN, INBOX, some, NOW)
    await store.copies.read_before(ANN, INBOX, NOW, 250)
    item = await item_at(dynamo, marks_key(ANN, INBOX))
    assert len(item["singly"]) == 50
    assert set((await store.copies.read_state(ANN, INBOX)).singly) == set(range(251, 301))


async def test_single_marks_of_broadcasts_that_have_expired_go(
    store: DynamoStore, dynamo: Dynamo
) -> None:
    async def kept_at(sequence: int, now: int) -> set[int]:
        """The sequences in the item after one more is marked as read."""
        await store.copies.read_broadcasts(ANN, INBOX, [sequence], now)
        item = await item_at(dynamo, marks_key(ANN, INBOX))
        state = await store.copies.read_state(ANN, INBOX)
        assert len(state.singly) == len(item["singly"])
        return set(state.singly)

    some = set(range(1, 151))
    await store.copies.read_broadcasts(ANN, INBOX, list(some), NOW)
    expired = NOW + (limits.KEEP_DAYS_MAX + 1) * limits.DAY_MS
    assert await kept_at(201, NOW + limits.KEEP_DAYS_MAX * limits.DAY_MS) == some | {201}
    assert await kept_at(202, expired - 1) == some | {201, 202}
    assert await kept_at(203, expired) == {201, 202, 203}


# Several processes.


async def test_of_many_who_want_a_place_in_the_log_one_gets_it(
    store: DynamoStore, other: AbstractAsyncContextManager[DynamoStore]
) -> None:
    async with other as second, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(one.notifications.append_broadcast(a_broadcast(1)))
            for one in (store, second) * 5
        ]
    assert [task.result() for task in tasks].count(True) == 1


async def test_jobs_of_a_process_that_is_gone_are_found(
    store: DynamoStore,
    other: AbstractAsyncContextManager[DynamoStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later, earlier = some_jobs(2), some_jobs(2)
    await store.jobs.put(earlier)
    await take_so_many(store, 2)
    assert await store.jobs.take(10) == []
    async with other as second:
        await second.jobs.put(later)
    monkeypatch.setattr(jobs, "ANEW_SECONDS", -1.0)
    assert [one.job for one in await take_so_many(store, 2)] == later


async def test_a_job_that_makes_no_sense_is_in_nobodys_way(
    store: DynamoStore, dynamo: Dynamo, caplog: pytest.LogCaptureFixture
) -> None:
    put = Pattern("put", "PutItem", ("inbox",), "this test")
    await dynamo.put(put, {"pk": "q#jobs", "sk": "0" * 26 + "#00000", "json": "{}"})
    jobs = some_jobs(1)
    await store.jobs.put(jobs)
    assert [one.job for one in await take_so_many(store, 1, most=1)] == jobs
    assert "a job cannot be decoded" in caplog.text


async def test_what_each_process_made_is_counted_together(
    store: DynamoStore,
    other: AbstractAsyncContextManager[DynamoStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(phone_claims, "ADD_SECONDS", 3_600.0)  # it is added at the end

    async def make(one: DynamoStore, name: str) -> None:
        user = user_key(TENANT, name)
        await one.users.put(user, display_name=None, phone_number=None, now=NOW)

    for name in ("a", "b", "a"):
        await make(store, name)
    assert await store.users.about_how_many(TENANT) == 2
    async with other as second:
        assert await second.users.about_how_many(TENANT) == 0, "not added yet"
        await make(second, "c")
        assert await second.users.about_how_many(TENANT) == 1
    assert await store.users.about_how_many(TENANT) == 3
    assert await store.users.about_how_many("acme-2") == 0


async def test_what_a_process_made_is_added_in_a_while(
    store: DynamoStore,
    other: AbstractAsyncContextManager[DynamoStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(phone_claims, "ADD_SECONDS", 0.01)
    await store.users.put(BOB, display_name=None, phone_number=None, now=NOW)
    async with other as second:
        await until(lambda: second.users.about_how_many(TENANT), equals=1)


# Keys.


async def test_names_of_tenants_users_and_inboxes_never_meet(store: DynamoStore) -> None:
    """As long as none has a `#`: no partition of one is a partition of another."""
    copy = a_copy()
    await store.copies.deliver(some_users(3), "all", copy)
    await announce_all(store, 1)
    assert log_partition(TENANT, INBOX).count("#") == 4
    assert await store.notifications.broadcasts(TENANT, "all", after=0, limit=9) == []
    found = await store.copies.newest(user_key(TENANT, "u0"), "all", before=None, limit=9)
    assert found == [copy]
    assert await store.copies.newest(user_key(TENANT, "u"), "0", before=None, limit=9) == []
