# SPDX-License-Identifier: Apache-2.0
"""The queue of delivery jobs that a lone process keeps in its store, and jobs set aside."""

import asyncio
from collections.abc import Sequence

from tests.contract.engines import Engine, Store
from tests.contract.inbox_builders import in_order, some_jobs, take_so_many
from tests.support.clock import NOW
from tidings.ports.bus import DeadLetter, Job, Taken


def jobs_of(taken: Sequence[Taken]) -> list[Job]:
    return in_order([one.job for one in taken])


async def finish_all(store: Store, taken: Sequence[Taken]) -> None:
    for one in taken:
        await store.jobs.finish(one)


# The queue.


async def test_an_empty_queue_gives_nothing(store: Store) -> None:
    assert list(await store.jobs.take(10)) == []


async def test_what_was_put_is_taken_as_it_is(store: Store) -> None:
    crowd = tuple(f"{'x' * 60}{number:04}" for number in range(100))
    jobs = some_jobs(3) + some_jobs(2, users=crowd, category="offers", tenant="acme-2")
    await store.jobs.put(jobs)

    taken = await take_so_many(store, 5)

    assert jobs_of(taken) == in_order(jobs)
    assert {one.attempt for one in taken} == {1}
    assert len({one.handle for one in taken}) == 5


async def test_nothing_put_is_nothing_to_take(store: Store) -> None:
    await store.jobs.put([])
    assert list(await store.jobs.take(10)) == []


async def test_a_job_is_not_taken_twice_while_it_is_taken(store: Store) -> None:
    jobs = some_jobs(25)
    await store.jobs.put(jobs)
    taken = await take_so_many(store, 25, most=10)
    assert jobs_of(taken) == jobs
    assert list(await store.jobs.take(10)) == []


async def test_jobs_taken_side_by_side_are_different_ones(store: Store) -> None:
    jobs = some_jobs(30)
    await store.jobs.put(jobs)
    taken = await asyncio.gather(*(store.jobs.take(10) for _ in range(3)))
    assert jobs_of([one for some in taken for one in some]) == jobs


async def test_who_waits_gets_the_first_that_comes(store: Store) -> None:
    jobs = some_jobs(1)
    waiting = asyncio.create_task(take_so_many(store, 1))
    await asyncio.sleep(0)
    await store.jobs.put(jobs)
    assert jobs_of(await waiting) == jobs


async def test_jobs_put_while_others_are_taken_come_too(store: Store) -> None:
    first, second = some_jobs(3), some_jobs(3)
    await store.jobs.put(second)
    taken = await take_so_many(store, 3)
    await store.jobs.put(first)
    taken += await take_so_many(store, 3)
    assert jobs_of(taken) == in_order(first + second)


async def test_all_portions_of_the_largest_notification_are_taken(store: Store) -> None:
    jobs = some_jobs(1_000, users=tuple(f"user-{number:08}" for number in range(100)))
    await store.jobs.put(jobs)
    assert jobs_of(await take_so_many(store, 1_000)) == jobs


async def test_one_tenants_many_jobs_do_not_keep_anothers_from_coming(store: Store) -> None:
    many, few = some_jobs(150, tenant="many"), some_jobs(1, tenant="few")
    await store.jobs.put(many)
    await store.jobs.put(few)
    taken = await take_so_many(store, 151)
    assert jobs_of(taken) == in_order(many + few)


async def test_put_twice_is_taken_once(store: Store) -> None:
    jobs = some_jobs(3)
    await store.jobs.put(jobs)
    await store.jobs.put(jobs)
    assert jobs_of(await take_so_many(store, 3)) == jobs
    assert list(await store.jobs.take(10)) == []


async def test_put_again_after_it_was_finished_comes_again(store: Store) -> None:
    jobs = some_jobs(3)
    await store.jobs.put(jobs)
    await finish_all(store, await take_so_many(store, 3))
    await store.jobs.put(jobs[1:])
    assert jobs_of(await take_so_many(store, 2)) == jobs[1:]


async def test_finishing_twice_finishes_no_other(store: Store) -> None:
    first, second = some_jobs(1), some_jobs(1)
    await store.jobs.put(first)
    (taken,) = await take_so_many(store, 1)
    await store.jobs.finish(taken)
    await store.jobs.put(second)
    await store.jobs.finish(taken)
    assert jobs_of(await take_so_many(store, 1)) == second


async def test_after_a_restart_what_was_not_finished_comes_again(engine: Engine) -> None:
    jobs = some_jobs(6)
    async with engine.open() as store:
        await store.jobs.put(jobs)
        taken = await take_so_many(store, 4, most=4)
        done = [one for one in taken if one.job.number % 2]
        await finish_all(store, done)
        await store.jobs.close()
    left = [job for job in jobs if job not in [one.job for one in done]]
    async with engine.open() as store:
        assert jobs_of(await take_so_many(store, len(left))) == left
        assert list(await store.jobs.take(10)) == []


# Jobs set aside.


def aside(aside_id: str, reason: str = "nobody could") -> DeadLetter:
    (job,) = some_jobs(1, category="offers")
    return DeadLetter(aside_id=aside_id, job=job, reason=reason, at=NOW)


async def test_a_job_set_aside_is_found(engine: Engine) -> None:
    one = aside("01A")
    async with engine.open() as store:
        assert await store.dead_letters.get("01A") is None
        assert await store.dead_letters.page(after=None, limit=5) == []
        await store.dead_letters.keep(one)
    async with engine.open() as store:
        assert await store.dead_letters.get("01A") == one
        assert await store.dead_letters.get("01") is None
        assert list(await store.jobs.take(10)) == [], "it is in no queue"


async def test_the_first_under_an_id_is_kept(store: Store) -> None:
    one = aside("01A")
    await store.dead_letters.keep(one)
    await store.dead_letters.keep(one)
    await store.dead_letters.keep(aside("01A", reason="other"))
    assert await store.dead_letters.page(after=None, limit=5) == [one]


async def test_jobs_set_aside_come_in_pages(store: Store) -> None:
    made = [aside(f"{number:02}") for number in range(7)]
    for one in made[::-1]:
        await store.dead_letters.keep(one)
    assert await store.dead_letters.page(after=None, limit=3) == made[:3]
    assert await store.dead_letters.page(after="02", limit=3) == made[3:6]
    assert await store.dead_letters.page(after="05", limit=3) == made[6:]
    assert await store.dead_letters.page(after="06", limit=3) == []


async def test_what_was_dropped_is_gone(store: Store) -> None:
    one, other = aside("01"), aside("02")
    for kept in (one, other):
        await store.dead_letters.keep(kept)
    await store.dead_letters.drop("01")
    await store.dead_letters.drop("01")
    await store.dead_letters.drop("03")
    assert await store.dead_letters.page(after=None, limit=5) == [other]
    assert await store.dead_letters.get("01") is None
