# SPDX-License-Identifier: Apache-2.0
"""Jobs of tenants: stored once, found in turns, worked on by one process at a time."""

import msgspec
import pytest

from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tidings.model.limits import DAY_MS, DELETION_LEASE_MS
from tidings.ports.tenant_jobs import ExportPart, TenantJob


def a_job(tenant: str = "acme", name: str = "one", created_at: int = NOW) -> TenantJob:
    return TenantJob(
        tenant=tenant,
        job_id=name,
        kind="user.delete",
        subject="ann",
        created_at=created_at,
        updated_at=created_at,
    )


async def unfinished(store: Store, after: str = "", tenants: int = 9, jobs: int = 9) -> list[str]:
    found = await store.tenant_jobs.unfinished(after=after, tenants=tenants, jobs=jobs)
    return [f"{tenant}/{job.job_id}" for tenant, some in found.items() for job in some]


async def test_a_job_is_stored_once_and_keeps_its_progress(engine: Engine) -> None:
    job = a_job()
    async with engine.open() as store:
        assert await store.tenant_jobs.get("acme", "one") is None
        assert await store.tenant_jobs.create(job) == job
        assert await store.tenant_jobs.lease(job, "me", NOW) == job
        further = job.counting(groups=2).counting(groups=1, copies=4)
        further = msgspec.structs.replace(
            further, phase="half", pending=("a", "b"), cursor="c", updated_at=NOW + 1
        )
        assert await store.tenant_jobs.save(further, "me")

    async with engine.open() as store:
        assert await store.tenant_jobs.create(job) == further
        assert await store.tenant_jobs.get("acme", "one") == further
        assert further.counts == {"groups": 3, "copies": 4}
        assert await store.tenant_jobs.get("other", "one") is None
        begun = further.at("next")
        assert (begun.phase, begun.pending, begun.cursor) == ("next", (), None)


async def test_no_tenant_hides_the_jobs_of_another(store: Store) -> None:
    for tenant, name, at in (
        ("a", "late", NOW + 2), ("a", "early", NOW), ("a", "middle", NOW + 1),
        ("a-b", "one", NOW), ("b", "one", NOW),
    ):  # fmt: skip
        await store.tenant_jobs.create(a_job(tenant, name, at))
    assert await unfinished(store, jobs=2) == ["a/early", "a/middle", "a-b/one", "b/one"]
    assert await unfinished(store, tenants=1) == ["a/early", "a/middle", "a/late"]
    assert await unfinished(store, after="a") == ["a-b/one", "b/one"]
    assert await unfinished(store, after="a-b") == ["b/one"]
    assert await unfinished(store, after="b") == []


async def test_a_finished_job_is_found_by_its_id_only(store: Store) -> None:
    job = a_job()
    await store.tenant_jobs.create(job)
    assert await store.tenant_jobs.lease(job, "me", NOW) == job
    await store.tenant_jobs.remove("acme", "one")
    assert await store.tenant_jobs.get("acme", "one") == job, "only a finished job is removed"
    done = msgspec.structs.replace(job, state="done", result="receipt")
    assert await store.tenant_jobs.save(done, "me")
    assert await unfinished(store) == []
    assert await store.tenant_jobs.lease(job, "me", NOW) is None
    assert await store.tenant_jobs.get("acme", "one") == done
    await store.tenant_jobs.remove("acme", "one")
    await store.tenant_jobs.remove("acme", "one")
    assert await store.tenant_jobs.get("acme", "one") is None
    assert await store.tenant_jobs.lease(job, "me", NOW) is None


@pytest.mark.parametrize("engine", ["dynamodb"], indirect=True)
async def test_two_processes_do_not_share_a_job(store: Store) -> None:
    job = a_job()
    await store.tenant_jobs.create(job)
    assert await store.tenant_jobs.lease(job, "me", NOW) == job
    assert await store.tenant_jobs.lease(job, "me", NOW) == job
    assert await store.tenant_jobs.lease(job, "you", NOW) is None
    assert await unfinished(store) == ["acme/one"]
    assert await store.tenant_jobs.lease(job, "you", NOW + DELETION_LEASE_MS) == job
    assert not await store.tenant_jobs.save(job.at("next"), "me")
    assert await store.tenant_jobs.get("acme", "one") == job


async def test_parts_of_an_export_outlive_a_restart_and_belong_to_one_run(engine: Engine) -> None:
    job = a_job()
    later = a_job(created_at=NOW + 1)
    part = ExportPart(
        tenant="acme",
        job_id="one",
        started_at=NOW,
        number=3,
        box=b"first",
        box_key=1,
        expires_at=NOW + DAY_MS,
    )
    async with engine.open() as store:
        await store.export_parts.put(part)
        again = msgspec.structs.replace(part, box=b"again")
        await store.export_parts.put(again)

    async with engine.open() as store:
        assert await store.export_parts.get(job, 3) == again
        assert await store.export_parts.get(job, 2) is None
        assert await store.export_parts.get(later, 3) is None
