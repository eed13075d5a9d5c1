# SPDX-License-Identifier: Apache-2.0
"""Jobs of tenants on DynamoDB, in the table of tenants, and the parts of exports.

A job is one item. While the job is unfinished, a second item lists it in the partition of open
jobs, ordered by tenant. A search for work reads only that partition.

Parts of exports are items in the table of sessions, like login codes, because that table has a TTL.
"""

from contextlib import suppress
from typing import Any, Final

import msgspec

from tidings.model.limits import DELETION_LEASE_MS
from tidings.model.refusals import StoreUnavailable
from tidings.ports.tenant_jobs import ExportPart, ExportParts, TenantJob, TenantJobs
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Canceled, ConditionFailed, Item
from tidings.stores.dynamodb.client.writes import Put
from tidings.stores.dynamodb.identity import identity_patterns as patterns
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

OPEN: Final = "jobs"
"""Partition that lists the unfinished jobs."""
_OF_TENANT: Final = "jobs#"
_PARTS: Final = "e#"
_IS_FREE: Final = "attribute_not_exists(#pk)"
_MAY_LEASE: Final = (
    "#state = :running AND"
    " (attribute_not_exists(#holder) OR #holder = :holder OR #leased_until <= :now)"
)
_SAVE: Final = (
    "SET #phase = :phase, #state = :state, #pending = :pending, #cursor = :cursor,"
    " #counts = :counts, #result = :result, #updated_at = :updated_at"
)


class DynamoTenantJobs:
    """Stores jobs for all processes; leases keep two processes from working on the same job."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def create(self, job: TenantJob) -> TenantJob:
        item, *listing = job_items(job)
        writes = [Put("tenants", item, _IS_FREE), *(Put("tenants", each) for each in listing)]
        async for _ in self._dynamo.retrying.attempts():
            try:
                await self._dynamo.transact(patterns.CREATE_JOB, writes)
            except Canceled as canceled:
                # Otherwise another process is about to create the same job. A stored job that is
                # done may have been removed since.
                if canceled.reasons[0].is_condition and (
                    stored := await self.get(job.tenant, job.job_id)
                ):
                    return stored
            else:
                return job
        raise StoreUnavailable

    async def get(self, tenant: str, job_id: str) -> TenantJob | None:
        item = await self._dynamo.get(patterns.FIND_JOB, _key(tenant, job_id))
        return to_job(item) if item else None

    async def unfinished(
        self, *, after: str, tenants: int, jobs: int
    ) -> dict[str, list[TenantJob]]:
        found: dict[str, list[TenantJob]] = {}
        position = f"{after}$" if after else " "  # `$` follows `#`, and is in no tenant id
        while len(found) < tenants:
            items = await self._listed("#sk > :position", {":position": position}, jobs)
            if not items:
                break
            tenant = items[0]["tenant"]
            same = [item for item in items if item["tenant"] == tenant]
            found[tenant] = [to_job(item) for item in same]
            position = f"{tenant}$"
        return found

    async def running(self, tenant: str, limit: int) -> list[TenantJob]:
        items = await self._listed("begins_with(#sk, :tenant)", {":tenant": f"{tenant}#"}, limit)
        return [to_job(item) for item in items]

    async def _listed(self, where: str, values: Item, limit: int) -> list[Item]:
        return await self._dynamo.query(
            patterns.LIST_JOBS, f"#pk = :open AND {where}", {":open": OPEN, **values}, limit=limit
        )

    async def lease(self, job: TenantJob, holder: str, now: int) -> TenantJob | None:
        update = "SET #holder = :holder, #leased_until = :until"
        values = {
            ":holder": holder, ":now": now, ":until": now + DELETION_LEASE_MS, ":running": "running"
        }  # fmt: skip
        key = _key(job.tenant, job.job_id)
        try:
            item = await self._dynamo.update(patterns.MOVE_JOB, key, update, _MAY_LEASE, values)
        except ConditionFailed as failed:
            if failed.item is None or failed.item["state"] == "done":
                # A process died after it had finished the job and before it removed the listing.
                await self._dynamo.delete(patterns.UNLIST_JOB, _open_key(job))
            return None
        return to_job(item)

    async def save(self, job: TenantJob, holder: str) -> bool:
        fields = _stored(job)
        names = ("phase", "state", "pending", "cursor", "counts", "result", "updated_at")
        values = {":holder": holder, **{f":{name}": fields[name] for name in names}}
        key = _key(job.tenant, job.job_id)
        try:
            await self._dynamo.update(patterns.MOVE_JOB, key, _SAVE, "#holder = :holder", values)
        except ConditionFailed:
            return False
        if job.state == "done":
            await self._dynamo.delete(patterns.UNLIST_JOB, _open_key(job))
        return True

    async def remove(self, tenant: str, job_id: str) -> None:
        # Another request may have removed it already, and started a new job with the same id.
        with suppress(ConditionFailed):
            await self._dynamo.delete(
                patterns.UNLIST_JOB, _key(tenant, job_id), "#state = :done", {":done": "done"}
            )


def job_items(job: TenantJob) -> list[Item]:
    """Build the item of a job and, unless the job is done, the item that lists it as open."""
    item = {**_key(job.tenant, job.job_id), **_stored(job)}
    if job.state == "done":
        return [item]
    fixed = ("tenant", "job_id", "kind", "subject", "created_at", "updated_at")
    return [item, {**_open_key(job), **{name: item[name] for name in fixed}}]


def is_job(item: Item) -> bool:
    """Return True if an item in the table of tenants belongs to a job."""
    pk: str = item["pk"]
    return pk == OPEN or pk.startswith(_OF_TENANT)


def to_job(item: Item) -> TenantJob:
    """Convert a stored item to a job. If the item only lists the job, the progress is missing."""
    fields: dict[str, Any] = {
        name: item[name] for name in TenantJob.__struct_fields__ if name in item
    }
    return msgspec.convert(fields, TenantJob)


def _stored(job: TenantJob) -> Item:
    fields = msgspec.structs.asdict(job)
    return {**fields, "pending": list(job.pending)}


def _key(tenant: str, job_id: str) -> Item:
    return {"pk": f"{_OF_TENANT}{tenant}", "sk": job_id}


def _open_key(job: TenantJob) -> Item:
    return {"pk": OPEN, "sk": f"{job.tenant}#{job.created_at:015d}#{job.job_id}"}


_conforms: type[TenantJobs] = DynamoTenantJobs


class DynamoExportParts:
    """Stores parts of exports, one item each, which DynamoDB removes after they have expired."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def put(self, part: ExportPart) -> None:
        key = _part_key(part.tenant, part.job_id, part.started_at, part.number)
        values = msgspec.structs.asdict(part)
        item = {**key, **values, TTL: ttl_seconds(part.expires_at)}
        await self._dynamo.put(patterns.KEEP_EXPORT_PART, item)

    async def get(self, job: TenantJob, number: int) -> ExportPart | None:
        key = _part_key(job.tenant, job.job_id, job.created_at, number)
        item = await self._dynamo.get(patterns.READ_EXPORT_PART, key)
        if item is None:
            return None
        return ExportPart(**{name: item[name] for name in ExportPart.__struct_fields__})


def _part_key(tenant: str, job_id: str, started_at: int, number: int) -> Item:
    return {"session_id": f"{_PARTS}{tenant}#{job_id}#{started_at}#{number}"}


_parts_conform: type[ExportParts] = DynamoExportParts
