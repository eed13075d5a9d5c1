# SPDX-License-Identifier: Apache-2.0
"""Jobs of tenants, and the parts of exports, on SQLite."""

from typing import Any, Final

import apsw
import msgspec

from tidings.ports.tenant_jobs import ExportPart, ExportParts, TenantJob, TenantJobs
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, insert_once
from tidings.stores.sqlite.engine.writer import Writer

_JOB: Final = f"SELECT {columns(TenantJob)} FROM tenant_jobs"
JOBS: Final = f"{_JOB} ORDER BY tenant, job_id"
KEEP_JOB: Final = insert_once("tenant_jobs", TenantJob)
_GET: Final = f"{_JOB} WHERE tenant = ? AND job_id = ?"
_NEXT_TENANT: Final = """
SELECT tenant FROM tenant_jobs WHERE state = 'running' AND tenant > ? ORDER BY tenant LIMIT 1
"""
_UNFINISHED: Final = f"""
{_JOB} WHERE state = 'running' AND tenant = ? ORDER BY created_at, job_id LIMIT ?
"""
_SAVE: Final = """
UPDATE tenant_jobs SET phase = ?, state = ?, pending = ?, cursor = ?, counts = ?, result = ?,
    updated_at = ?
WHERE tenant = ? AND job_id = ?
"""
_PART_FIELDS: Final = ExportPart.__struct_fields__
_PUT_PART: Final = f"REPLACE INTO export_parts ({columns(ExportPart)}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_PART: Final = f"""
SELECT {columns(ExportPart)} FROM export_parts
WHERE tenant = ? AND job_id = ? AND started_at = ? AND number = ?
"""


class SqliteTenantJobs:
    """Stores jobs. A lease is always granted, since only one process uses the store."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def create(self, job: TenantJob) -> TenantJob:
        def write(db: apsw.Connection) -> TenantJob:
            db.execute(KEEP_JOB, to_job_row(job))
            stored = _job(db, job.tenant, job.job_id)
            assert stored is not None, "a job that was stored exists"
            return stored

        return await self._writer.write(write)

    async def get(self, tenant: str, job_id: str) -> TenantJob | None:
        return await self._readers.read(lambda db: _job(db, tenant, job_id))

    async def unfinished(
        self, *, after: str, tenants: int, jobs: int
    ) -> dict[str, list[TenantJob]]:
        def read(db: apsw.Connection) -> dict[str, list[TenantJob]]:
            found: dict[str, list[TenantJob]] = {}
            tenant = after
            while len(found) < tenants and (row := db.execute(_NEXT_TENANT, (tenant,)).fetchone()):
                (tenant,) = row
                rows = db.execute(_UNFINISHED, (tenant, jobs))
                found[tenant] = [from_job_row(row) for row in rows]
            return found

        return await self._readers.read(read)

    async def running(self, tenant: str, limit: int) -> list[TenantJob]:
        return await self._readers.read(
            lambda db: [from_job_row(row) for row in db.execute(_UNFINISHED, (tenant, limit))]
        )

    async def lease(self, job: TenantJob, holder: str, now: int) -> TenantJob | None:
        found = await self.get(job.tenant, job.job_id)
        return found if found is not None and found.state == "running" else None

    async def save(self, job: TenantJob, holder: str) -> bool:
        _, _, _, _, *progress, _, updated_at = to_job_row(job)
        values = (*progress, updated_at, job.tenant, job.job_id)

        def write(db: apsw.Connection) -> bool:
            db.execute(_SAVE, values)
            if job.state == "done":
                # The write-ahead log must not keep what the job has removed.
                self._writer.empty_log_after_commit()
            return db.changes() > 0

        return await self._writer.write(write)

    async def remove(self, tenant: str, job_id: str) -> None:
        def write(db: apsw.Connection) -> None:
            # Another request may have removed it already, and started a new job with the same id.
            db.execute(
                "DELETE FROM tenant_jobs WHERE tenant = ? AND job_id = ? AND state = 'done'",
                (tenant, job_id),
            )

        await self._writer.write(write)


def to_job_row(job: TenantJob) -> tuple[Any, ...]:
    """Convert a job to a row, in the order of its fields."""
    fields = msgspec.structs.asdict(job)
    for name in ("pending", "counts"):
        fields[name] = msgspec.json.encode(fields[name], order="sorted").decode()
    return tuple(fields.values())


def from_job_row(row: tuple[Any, ...]) -> TenantJob:
    """Convert a row that was selected with `columns` to a job."""
    fields = dict(zip(TenantJob.__struct_fields__, row, strict=True))
    for name in ("pending", "counts"):
        fields[name] = msgspec.json.decode(fields[name])
    return msgspec.convert(fields, TenantJob)


def _job(db: apsw.Connection, tenant: str, job_id: str) -> TenantJob | None:
    row = db.execute(_GET, (tenant, job_id)).fetchone()
    return from_job_row(row) if row else None


_conforms: type[TenantJobs] = SqliteTenantJobs


class SqliteExportParts:
    """Stores the parts of exports; the sweeper removes expired ones."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, part: ExportPart) -> None:
        row = msgspec.structs.astuple(part)

        def write(db: apsw.Connection) -> None:
            db.execute(_PUT_PART, row)

        await self._writer.write(write)

    async def get(self, job: TenantJob, number: int) -> ExportPart | None:
        key = (job.tenant, job.job_id, job.created_at, number)

        def read(db: apsw.Connection) -> ExportPart | None:
            row = db.execute(_PART, key).fetchone()
            return ExportPart(**dict(zip(_PART_FIELDS, row, strict=True))) if row else None

        return await self._readers.read(read)


_parts_conform: type[ExportParts] = SqliteExportParts
