# SPDX-License-Identifier: Apache-2.0
"""What only the embedded store promises of inboxes: fairness of its queue, an exact count."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from tests.contract.engines import SqliteEngine, Store
from tests.contract.inbox_builders import INBOX, some_jobs, take_so_many
from tests.support.clock import NOW
from tests.support.users import ANN, some_users
from tidings.ports.bus import JobsUnavailable
from tidings.stores.sqlite.engine.connections import DATABASE
from tidings.stores.sqlite.engine.schema import MIGRATIONS


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """The embedded store, open, with nothing in it."""
    async with SqliteEngine(tmp_path / "data").open() as opened:
        yield opened


async def test_a_memory_of_the_log_is_never_old(store: Store) -> None:
    assert store.notifications.broadcasts_age_ms == 0


# The queue.


async def test_tenants_take_turns(store: Store) -> None:
    many, few, other = (some_jobs(n, tenant=name) for name, n in (("b", 500), ("c", 1), ("a", 2)))
    for jobs in (many, few, other):
        await store.jobs.put(jobs)

    first = [taken.job.tenant for taken in await store.jobs.take(6)]
    second = [taken.job.tenant for taken in await store.jobs.take(6)]

    assert first == ["a", "b", "c", "a", "b"]
    assert second == ["b"] * 6


async def test_more_tenants_than_asked_for_jobs_all_get_their_turn(store: Store) -> None:
    names = [f"t{number}" for number in range(7)]
    for name in names:
        await store.jobs.put(some_jobs(2, tenant=name))
    taken = await take_so_many(store, 14, most=3)
    assert [one.job.tenant for one in taken] == names + names


async def test_a_tenants_jobs_come_in_the_order_they_were_put(store: Store) -> None:
    later, earlier = some_jobs(120), some_jobs(3)
    await store.jobs.put(earlier)
    await store.jobs.put(later)
    taken = [one.job for one in await take_so_many(store, 123, most=7)]
    assert taken == earlier + later


async def test_jobs_put_again_while_they_are_taken_do_not_come_twice(store: Store) -> None:
    jobs = some_jobs(5)
    await store.jobs.put(jobs)
    taken = await take_so_many(store, 3, most=3)
    await store.jobs.put(jobs)
    taken += await take_so_many(store, 2)
    assert [one.job for one in taken] == jobs
    assert await store.jobs.take(10) == []


async def test_who_gave_up_taking_leaves_the_jobs_to_the_next(store: Store) -> None:
    await store.jobs.put(some_jobs(3))
    for turns in range(6):
        taking = asyncio.create_task(store.jobs.take(10))
        for _ in range(turns):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait([taking])
        if not taking.cancelled():
            assert len(taking.result()) == 3
            return
    assert len(await store.jobs.take(10)) == 3


async def test_a_closed_queue_gives_nothing(store: Store) -> None:
    waiting = asyncio.create_task(store.jobs.take(10))
    await asyncio.sleep(0)
    await store.jobs.put(some_jobs(1))
    await store.jobs.close()
    await waiting
    await store.jobs.put(some_jobs(1))
    assert await store.jobs.take(10) == []


async def test_a_store_that_is_closed_is_a_queue_that_does_not_answer(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path / "other").open() as store:
        await store.jobs.put(some_jobs(1))
        (taken,) = await store.jobs.take(1)
    with pytest.raises(JobsUnavailable):
        await store.jobs.put(some_jobs(1))
    with pytest.raises(JobsUnavailable):
        await store.jobs.finish(taken)


# Single marks.


async def test_single_marks_take_bounded_room(store: Store) -> None:
    for start in range(1, 1_201, 100):
        await store.copies.read_broadcasts(ANN, INBOX, range(start, start + 100), NOW)
    state = await store.copies.read_state(ANN, INBOX)
    assert set(state.singly) == set(range(201, 1_201))


async def test_marks_that_are_covered_go_and_do_not_come_back(store: Store) -> None:
    await store.copies.read_broadcasts(ANN, INBOX, [3, 9], NOW)
    await store.copies.read_before(ANN, INBOX, NOW, 7)
    await store.copies.read_broadcasts(ANN, INBOX, [4], NOW)
    assert (await store.copies.read_state(ANN, INBOX)).singly == {9: NOW}


# How many users.


async def test_users_who_were_there_before_inboxes_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    old = apsw.Connection(str(folder / DATABASE))
    for step in MIGRATIONS[:3]:
        old.execute(step)
    old.pragma("user_version", 3)
    old.executemany(
        "INSERT INTO users (user_id, created_at, updated_at) VALUES (?, 1, 1)",
        [(user,) for user in [*some_users(5), "other:u1"]],
    )
    old.close()
    async with SqliteEngine(folder).open() as store:
        for user in some_users(6):
            await store.users.put(user, display_name=None, phone_number=None, now=NOW)
        assert await store.users.about_how_many("acme") == 6
        assert await store.users.about_how_many("other") == 1
