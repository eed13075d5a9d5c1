# SPDX-License-Identifier: Apache-2.0
"""The runner of running jobs on the embedded store: every user once, tenants by turns."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.contract.engines import SqliteEngine, Store
from tests.contract.inbox_builders import (
    EXPIRES,
    INBOX,
    TENANT,
    a_copy,
    a_notification,
    a_reachable,
    a_retraction,
    some_jobs,
)
from tests.support.clock import NOW, ManualClock
from tests.support.delivery import at_once
from tests.support.waiting import until
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.delivering import DeliverCopies
from tidings.actions.inbox.posted import DeadLetterJobs
from tidings.buses.in_process import InProcessBus
from tidings.delivery.job_runner import ATTEMPTS_MAX, JOBS_AT_ONCE, JobRunner, TenantRoundRobin
from tidings.model.ids import UserKey, user_key
from tidings.model.push_rules import YOUNG_MS_MAX
from tidings.model.refusals import JobNotFound, StoreUnavailable
from tidings.ports.bus import CopiesMade, Event, Job, JobsUnavailable, Taken

ANN, BOB = user_key(TENANT, "ann"), user_key(TENANT, "bob")


@dataclass
class RunningJobs:
    """A store, a runner of its jobs, and what it told."""

    store: Store
    runner: JobRunner
    clock: ManualClock
    made: list[CopiesMade] = field(default_factory=list)

    def heard(self, event: Event) -> None:
        assert isinstance(event, CopiesMade)
        self.made.append(event)

    async def post(self, *jobs: Job) -> None:
        """What posting a notification leaves behind."""
        for name, tenant in {(job.notification_id, job.tenant) for job in jobs}:
            await self.store.notifications.put(a_notification(name, tenant=tenant))
        await self.store.jobs.put(jobs)

    async def done(self, count: int) -> None:
        """Wait until so many jobs are finished."""
        await until(lambda: self.runner.finished >= count)

    async def progress(self, job: Job) -> set[int]:
        return await self.store.notifications.finished_jobs(
            job.tenant, job.inbox, job.notification_id
        )


@asynccontextmanager
async def a_job_runner(folder: Path) -> AsyncIterator[RunningJobs]:
    """A runner that has not begun."""
    async with SqliteEngine(folder).open() as store:
        bus, clock = InProcessBus(), ManualClock()
        clock.time = NOW
        notifications, views = store.notifications, LogViews(store.notifications, clock)
        deliver = DeliverCopies(
            notifications=notifications, copies=store.copies, reachable=a_reachable(store),
            views=views, bus=bus, clock=clock,
        )  # fmt: skip
        runner = JobRunner(
            jobs=store.jobs, dead_letters=store.dead_letters, deliver=deliver, clock=clock,
            back_off=at_once,
        )  # fmt: skip
        running = RunningJobs(store, runner, clock)
        bus.subscribe(running.heard)
        try:
            yield running
        finally:
            await runner.close()


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningJobs]:
    async with a_job_runner(tmp_path / "data") as made:
        yield made


def failing(
    monkeypatch: pytest.MonkeyPatch, port: object, name: str, fails: Callable[..., Exception | None]
) -> list[tuple[Any, ...]]:
    """Have calls of a port fail as `fails` says; the calls that were made."""
    real, calls = getattr(port, name), []

    async def call(*given: Any) -> Any:
        calls.append(given)
        error = fails(*given)
        if error is not None:
            raise error
        return await real(*given)

    monkeypatch.setattr(port, name, call)
    return calls


async def test_every_user_gets_one_copy_and_progress_is_exact(running: RunningJobs) -> None:
    users = tuple(f"u{number}" for number in range(100))
    jobs = some_jobs(30, users=users, category="offers")
    await running.post(*jobs)
    running.runner.start()
    await running.done(30)

    name = jobs[0].notification_id
    wanted = a_copy(name, category="offers", received_at=NOW, expires_at=EXPIRES)
    for user in (users[0], users[99]):
        copies = running.store.copies.newest(user_key(TENANT, user), INBOX, before=None, limit=10)
        assert await copies == [wanted]
    assert await running.progress(jobs[0]) == set(range(30))
    assert {event.notification_id for event in running.made} == {name}
    assert all(len(event.users) == 100 for event in running.made)
    assert list(await running.store.jobs.take(10)) == []


@pytest.mark.attack("D21")
async def test_one_tenants_many_jobs_do_not_hold_up_anothers_one(
    running: RunningJobs,
) -> None:
    many, one = some_jobs(1_000, tenant="many"), some_jobs(1, tenant="one")
    await running.post(*many)
    running.runner.start()
    await until(lambda: len(running.made) >= 10)
    began = len(running.made)
    await running.post(*one)
    await running.done(1_001)

    place = [event.tenant for event in running.made].index("one")
    # Besides what was done before, what went on while it was written and taken.
    assert place < began + 300


@pytest.mark.attack("D21")
def test_tenants_take_turns() -> None:
    turns: TenantRoundRobin[str] = TenantRoundRobin()
    for number in range(1_000):
        turns.put("a", f"a{number}")
    assert [turns.next() for _ in range(2)] == ["a0", "a1"]
    turns.put("b", "b0")
    turns.put("c", "c0")
    turns.put("b", "b1")
    assert [turns.next() for _ in range(6)] == ["a2", "b0", "c0", "a3", "b1", "a4"]
    for _ in range(995):
        turns.next()
    assert turns.next() is None


async def test_no_more_jobs_are_held_than_may_be(
    running: RunningJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.runner, "_jobs_max", 20)
    asked: list[int] = []
    real = running.store.jobs.take

    async def take(most: int) -> Sequence[Taken]:
        asked.append(most)
        assert 0 < most <= 20 - running.runner._taken
        return await real(most)

    monkeypatch.setattr(running.store.jobs, "take", take)
    await running.post(*some_jobs(200))
    running.runner.start()
    await running.done(200)
    assert asked[0] == 20


async def test_a_stop_waits_for_no_job_that_has_not_begun(
    running: RunningJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    async def deliver(*_given: object) -> list[UserKey]:
        begun.append("a job")
        if len(begun) <= JOBS_AT_ONCE:
            await asyncio.Event().wait()
        return []

    monkeypatch.setattr(running.store.copies, "deliver", deliver)
    await running.post(*some_jobs(100))
    running.runner.start()
    await until(lambda: len(begun) == JOBS_AT_ONCE)
    await running.runner.close()
    assert len(begun) == JOBS_AT_ONCE, "ended at the step that each of them was at"
    assert running.runner.finished == 0


# Trouble.


@pytest.mark.attack("F11")
async def test_a_job_that_cannot_be_done_is_set_aside_and_the_others_are_done(
    running: RunningJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    (poison,) = some_jobs(1, users=("cat",))
    good = some_jobs(20)

    def fails(users: Sequence[str], *_: object) -> Exception | None:
        return ValueError("cannot be") if list(users) == [f"{TENANT}:cat"] else None

    calls = failing(monkeypatch, running.store.copies, "deliver", fails)
    await running.post(poison, *good)
    running.runner.start()
    await running.done(20)
    await until(lambda: running.runner.set_aside == 1)

    (aside,) = await running.store.dead_letters.page(after=None, limit=10)
    assert aside.job == poison
    assert aside.reason == "ValueError: cannot be"
    assert sum(list(users) == [f"{TENANT}:cat"] for users, *_ in calls) == ATTEMPTS_MAX
    assert await running.progress(poison) == set()
    assert await running.progress(good[0]) == set(range(20))
    assert list(await running.store.jobs.take(10)) == []


@pytest.mark.attack("F11")
async def test_jobs_that_fail_do_not_keep_others_from_being_done(
    running: RunningJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as run at once, and none of them ever done."""
    stuck = some_jobs(JOBS_AT_ONCE, users=("cat",), tenant="stuck")

    def fails(users: Sequence[str], *_: object) -> Exception | None:
        return StoreUnavailable() if list(users) == ["stuck:cat"] else None

    failing(monkeypatch, running.store.copies, "deliver", fails)
    await running.post(*stuck)
    running.runner.start()
    await until(lambda: running.runner.failed_attempts > 2 * JOBS_AT_ONCE)
    await running.post(*some_jobs(20))
    await running.done(20)
    assert running.runner.set_aside == 0


@pytest.mark.parametrize("port", ["copies.deliver", "notifications.finish_job", "jobs.finish"])
async def test_what_does_not_answer_is_waited_for(
    running: RunningJobs, monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    away = [True]
    of, name = port.split(".")
    trouble = JobsUnavailable if of == "jobs" else StoreUnavailable

    calls = failing(
        monkeypatch,
        getattr(running.store, of),
        name,
        lambda *_: trouble() if away[0] else None,
    )
    jobs = some_jobs(3)
    await running.post(*jobs)
    running.runner.start()
    await until(lambda: len(calls) > 3 * ATTEMPTS_MAX)
    assert running.runner.finished == 0
    away[0] = False
    await running.done(3)

    assert await running.progress(jobs[0]) == {0, 1, 2}
    assert running.runner.set_aside == 0
    assert len(await running.store.copies.newest(ANN, INBOX, before=None, limit=10)) == 1


async def test_what_is_delivered_and_not_finished_is_not_delivered_again(
    running: RunningJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [3]

    def fails(*_: object) -> Exception | None:
        left[0] -= 1
        return JobsUnavailable() if left[0] >= 0 else None

    failing(monkeypatch, running.store.jobs, "finish", fails)
    delivered = failing(monkeypatch, running.store.copies, "deliver", lambda *_: None)
    await running.post(*some_jobs(1))
    running.runner.start()
    await running.done(1)
    assert len(delivered) == 1


async def test_a_queue_that_is_away_is_asked_again(
    running: RunningJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [4]

    def fails(*_: object) -> Exception | None:
        left[0] -= 1
        return (JobsUnavailable() if left[0] % 2 else ValueError("odd")) if left[0] > 0 else None

    failing(monkeypatch, running.store.jobs, "take", fails)
    await running.post(*some_jobs(2))
    running.runner.start()
    await running.done(2)


# What was taken back, what is old.


@pytest.mark.attack("W08")
async def test_nobody_gets_a_copy_of_what_was_taken_back_or_has_expired(
    running: RunningJobs,
) -> None:
    gone, old = some_jobs(2), some_jobs(1, tenant="other")
    retraction = a_retraction(1, gone[0].notification_id)
    assert await running.store.notifications.append_broadcast(retraction)
    await running.post(*gone)
    running.runner.start()
    await running.done(2)
    running.clock.time = EXPIRES
    await running.post(*old)
    await running.done(3)

    assert await running.progress(gone[0]) == {0, 1}
    assert await running.progress(old[0]) == {0}
    assert await running.store.copies.newest(ANN, INBOX, before=None, limit=10) == []
    other = user_key("other", "ann")
    assert await running.store.copies.newest(other, INBOX, before=None, limit=10) == []
    assert running.made == []


async def test_a_job_done_again_tells_everyone_while_it_is_news_and_later_only_who_is_new(
    running: RunningJobs,
) -> None:
    (job,) = some_jobs(1)
    copy = a_copy(job.notification_id)
    await running.store.copies.deliver([ANN], INBOX, copy)
    running.runner.start()
    for count, time in ((1, NOW + YOUNG_MS_MAX), (2, NOW + YOUNG_MS_MAX + 1)):
        if count == 2:
            await running.store.copies.deliver([ANN, BOB], INBOX, copy)
        running.clock.time = time
        await running.post(job)
        await running.done(count)
    assert [event.users for event in running.made] == [(ANN, BOB)]


# The operator's part.


async def test_the_operator_has_a_job_done_after_all_or_drops_it(
    running: RunningJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_broken = [True]
    failing(
        monkeypatch,
        running.store.copies,
        "deliver",
        lambda *_: ValueError("not yet") if is_broken[0] else None,
    )
    jobs = some_jobs(3)
    await running.post(*jobs)
    running.runner.start()
    await until(lambda: running.runner.set_aside == 3)
    is_broken[0] = False

    look_after = DeadLetterJobs(running.store.dead_letters, running.store.jobs)
    first, cursor = await look_after.page(None, 2)
    second, end = await look_after.page(cursor, 2)
    assert (len(first), len(second), end) == (2, 1, None)
    assert (await look_after.replay(first[0].aside_id)).job == first[0].job
    await running.done(1)
    await look_after.drop(first[1].aside_id)

    assert await look_after.page(None, 10) == (second, None)
    assert await running.progress(jobs[0]) == {first[0].job.number}
    for act in (look_after.replay, look_after.drop):
        for unknown in (first[0].aside_id, "../x", ""):
            with pytest.raises(JobNotFound):
                await act(unknown)


async def test_after_a_crash_what_was_not_finished_is_done(tmp_path: Path) -> None:
    jobs = some_jobs(50)
    async with a_job_runner(tmp_path / "data") as running:
        await running.post(*jobs)
        running.runner.start()
        await until(lambda: running.runner.finished >= 5)
    async with a_job_runner(tmp_path / "data") as running:
        running.runner.start()

        async def is_done() -> bool:
            return await running.progress(jobs[0]) == set(range(50))

        await until(is_done)
