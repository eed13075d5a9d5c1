# SPDX-License-Identifier: Apache-2.0
"""The runner of tenants' jobs on the embedded store: in turns, at once, and undeterred."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from tests.contract.engines import SqliteEngine, Store
from tests.support.clock import ManualClock
from tests.support.delivery import at_once
from tests.support.waiting import until
from tidings.actions.jobs.starting import StartJob
from tidings.delivery import rounds
from tidings.delivery.rounds import TenantJobRunner
from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.ports.tenant_jobs import NotYet, TenantJob
from tidings.stores.sqlite.identity.tenant_jobs import SqliteTenantJobs


@dataclass
class ThreeSteps:
    """Work that is done after three steps."""

    steps: Counter[str] = field(default_factory=Counter)
    failing: dict[str, Exception] = field(default_factory=dict)

    async def step(self, job: TenantJob) -> TenantJob:
        if job.subject in self.failing:
            raise self.failing[job.subject]
        self.steps[job.subject] += 1
        after = job.counting(steps=1)
        is_over = after.counts["steps"] == 3
        return msgspec.structs.replace(after.at("done"), state="done") if is_over else after


@dataclass
class RunningJobs:
    """A store, and a runner that has not begun."""

    store: Store
    runner: TenantJobRunner
    work: ThreeSteps
    clock: ManualClock
    start: StartJob

    async def begin(self, tenant: str, *subjects: str) -> None:
        for subject in subjects:
            await self.start(tenant, "user.delete", subject)

    async def rest(self) -> set[str]:
        found = await self.store.tenant_jobs.unfinished(after="", tenants=99, jobs=999)
        return {job.subject for jobs in found.values() for job in jobs}


@asynccontextmanager
async def a_job_runner(folder: Path) -> AsyncIterator[RunningJobs]:
    async with SqliteEngine(folder).open() as store:
        clock, work = ManualClock(), ThreeSteps()
        runner = TenantJobRunner(
            jobs=store.tenant_jobs,
            kinds={"user.delete": work},
            clock=clock,
            holder="me",
            back_off=at_once,
        )
        start = StartJob(store.tenant_jobs, clock)
        start.listen(runner.ask)
        yield RunningJobs(store, runner, work, clock, start)
        await runner.close()


async def test_many_jobs_of_one_tenant_do_not_delay_another(tmp_path: Path) -> None:
    async with a_job_runner(tmp_path) as running:
        many = [f"many{number}" for number in range(50)]
        await running.begin("big", *many)
        for number in range(rounds.TENANTS_AT_ONCE):
            await running.begin(f"small{number}", f"one{number}")
        while any(name.startswith("one") for name in await running.rest()):
            assert await running.runner.round()
        assert sum(running.work.steps[name] for name in many) <= 3 * rounds.JOBS_AT_ONCE
        while await running.rest():
            await running.runner.round()
        assert set(running.work.steps.values()) == {3}


async def test_a_new_job_starts_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "POLL_SECONDS", 3_600.0)
    async with a_job_runner(tmp_path) as running:
        running.runner.start()
        await running.begin("acme", "ann")
        await until(lambda: running.work.steps["ann"] == 3)
        await running.begin("acme", "bob")
        await until(lambda: running.work.steps["bob"] == 3)


@pytest.mark.parametrize("trouble", [StoreUnavailable(), ValueError("broken")])
async def test_a_job_that_fails_keeps_no_other(tmp_path: Path, trouble: Exception) -> None:
    async with a_job_runner(tmp_path) as running:
        await running.begin("acme", "bad", "good")
        running.work.failing["bad"] = trouble
        while await running.runner.round():
            pass
        assert await running.rest() == {"bad"} and running.runner.failed_steps == 1
        running.work.failing.clear()
        assert not await running.runner.round()
        running.clock.time += rounds.RETRY_MS
        while await running.runner.round():
            pass
        assert await running.rest() == set()


async def test_a_job_waits_until_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "WAITING_MAX", 1)
    async with a_job_runner(tmp_path) as running:
        await running.begin("acme", "ann", "bob")
        for name in ("ann", "bob"):
            running.work.failing[name] = NotYet(running.clock.now() + 5)
        assert not await running.runner.round()
        running.work.failing.clear()
        assert await running.runner.round()
        assert running.work.steps.total() == 1  # only one can be remembered, either of them
        running.clock.time += 5
        assert await running.runner.round()
        assert sorted(running.work.steps.values()) == [1, 2]


async def test_the_runner_rests_while_the_jobs_of_many_tenants_wait(tmp_path: Path) -> None:
    async with a_job_runner(tmp_path) as running:
        for number in range(rounds.TENANTS_AT_ONCE + 1):
            await running.begin(f"t{number}", f"one{number}")
            running.work.failing[f"one{number}"] = NotYet(running.clock.now() + 5)
        assert await running.runner.round(), "the last tenant has not had its turn"
        assert not await running.runner.round()
        running.work.failing.clear()
        running.clock.time += 5
        while await running.runner.round():
            pass
        assert await running.rest() == set()


async def test_a_job_of_an_unknown_kind_is_left_alone(tmp_path: Path) -> None:
    async with a_job_runner(tmp_path) as running:
        await running.start("acme", "user.export", "ann")
        newer = running.store.tenant_jobs
        job = await newer.get("acme", "export-user-ann")
        assert job is not None
        await newer.create(msgspec.structs.replace(job, job_id="x", kind="x.y", subject="x"))
        await running.begin("other", "bob")
        while await running.runner.round():
            pass
        assert await running.rest() == {"ann", "x"}


async def test_what_another_process_works_on_is_looked_at_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_job_runner(tmp_path) as running:
        await running.begin("acme", "ann")
        lease = SqliteTenantJobs.lease

        async def taken(*_: object) -> None:
            return None

        monkeypatch.setattr(SqliteTenantJobs, "lease", taken)
        assert not await running.runner.round()
        monkeypatch.setattr(SqliteTenantJobs, "lease", lease)
        assert not await running.runner.round()
        running.clock.time += limits.SECOND_MS
        assert await running.runner.round()


async def test_an_outage_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_job_runner(tmp_path) as running:
        found = SqliteTenantJobs.unfinished
        outages = [StoreUnavailable(), StoreUnavailable()]

        async def failing(
            self: SqliteTenantJobs, *, after: str, tenants: int, jobs: int
        ) -> dict[str, list[TenantJob]]:
            if outages:
                raise outages.pop()
            return await found(self, after=after, tenants=tenants, jobs=jobs)

        monkeypatch.setattr(SqliteTenantJobs, "unfinished", failing)
        await running.begin("acme", "ann")
        running.runner.start()
        await until(lambda: running.work.steps["ann"] == 3)
