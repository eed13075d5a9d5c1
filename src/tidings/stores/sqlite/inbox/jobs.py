# SPDX-License-Identifier: Apache-2.0
"""The queue of delivery jobs and the table of dead letters, on SQLite.

For each tenant, the position of the last taken job is stored only in memory. This is enough,
because positions only grow and no other process takes jobs. Taking a job therefore writes nothing,
and after a restart all unfinished jobs are taken again.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import apsw
import msgspec

from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import DeadLetter, DeadLetters, Job, Jobs, JobsUnavailable, Taken
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, insert_once
from tidings.stores.sqlite.engine.writer import Writer

PUT_AT_ONCE: Final = 100
"""Maximum number of jobs in one write, a few hundred kilobytes. Other writes run in between."""
WAIT_SECONDS: Final = 0.5
"""How long `take` waits for a job before it returns none."""

PUT_JOB: Final = insert_once("jobs", Job)
_NEXT: Final = f"""
SELECT place, {columns(Job)} FROM jobs WHERE tenant = ? AND place > ? ORDER BY place LIMIT ?
"""
_FINISH: Final = """
DELETE FROM jobs WHERE tenant = ? AND inbox = ? AND notification_id = ? AND number = ?
"""

_users = msgspec.json.Decoder(tuple[str, ...])
KEEP_DEAD_LETTER: Final = insert_once("jobs_aside", DeadLetter)
ASIDE: Final = f"SELECT {columns(DeadLetter)} FROM jobs_aside"


class SqliteJobs:
    """Stores the queue of delivery jobs. Tenants take turns; each tenant's oldest job comes
    first."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers
        self._taking = asyncio.Lock()
        self._taken_to: dict[str, int] = {}
        self._last_tenant = ""
        self._may_have_some = asyncio.Event()
        self._may_have_some.set()
        self._is_closed = False

    async def put(self, jobs: Sequence[Job]) -> None:
        try:
            with _as_jobs_unavailable():
                for start in range(0, len(jobs), PUT_AT_ONCE):
                    some = [job_to_row(job) for job in jobs[start : start + PUT_AT_ONCE]]
                    await self._writer.write(partial(_put, rows=some), rows=len(some))
        finally:
            self._may_have_some.set()

    async def take(self, most: int) -> Sequence[Taken]:
        async with self._taking:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._may_have_some.wait()
            if self._is_closed or not self._may_have_some.is_set():
                return []
            self._may_have_some.clear()
            found = None
            try:
                found = await self._take(most)
            finally:
                if found != []:  # there may be more jobs, or the call was interrupted
                    self._may_have_some.set()
            return found

    async def finish(self, taken: Taken) -> None:
        job = taken.job
        name = (job.tenant, job.inbox, job.notification_id, job.number)

        def write(db: apsw.Connection) -> None:
            db.execute(_FINISH, name)

        with _as_jobs_unavailable():
            await self._writer.write(write, rows=1)

    async def close(self) -> None:
        self._is_closed = True
        self._may_have_some.set()  # wake a waiting `take`

    async def _take(self, most: int) -> list[Taken]:
        with _as_jobs_unavailable():
            tenants, rows = await self._readers.read(
                lambda db: _next(db, self._taken_to, self._last_tenant, most)
            )
        # A tenant without jobs need not be remembered: its next jobs have higher positions anyway.
        self._taken_to = {name: to for name, to in self._taken_to.items() if name in tenants}
        for position, tenant, *_ in rows:
            self._taken_to[tenant] = position
            self._last_tenant = tenant
        return [Taken(job_from_row(row[1:]), str(row[0]), 1) for row in rows]


@contextmanager
def _as_jobs_unavailable() -> Iterator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise JobsUnavailable(str(error)) from error


def _put(db: apsw.Connection, rows: list[tuple[Any, ...]]) -> None:
    db.executemany(PUT_JOB, rows)


def _next(
    db: apsw.Connection, taken_to: Mapping[str, int], last_tenant: str, most: int
) -> tuple[set[str], list[tuple[Any, ...]]]:
    """Return all tenants that have jobs, taken or not, and the rows of the next jobs to take."""
    tenants = list(_tenants(db))
    by_turns = [name for name in tenants if name > last_tenant]
    by_turns += [name for name in tenants if name <= last_tenant]
    waiting = [
        name for name in by_turns if list(db.execute(_NEXT, (name, taken_to.get(name, 0), 1)))
    ]
    share = -(-most // max(1, len(waiting)))
    queues = [
        list(db.execute(_NEXT, (name, taken_to.get(name, 0), share))) for name in waiting[:most]
    ]
    rows = [row for turn in zip_longest(*queues) for row in turn if row is not None]
    return set(tenants), rows[:most]


def _tenants(db: apsw.Connection) -> Iterator[str]:
    """Yield the tenants that have jobs, with one index lookup for each tenant."""
    name = ""
    while name := db.execute("SELECT min(tenant) FROM jobs WHERE tenant > ?", (name,)).get:
        yield name


def job_to_row(job: Job) -> tuple[Any, ...]:
    """Convert a job to a row."""
    users = msgspec.json.encode(job.users).decode()
    return msgspec.structs.astuple(msgspec.structs.replace(job, users=users))


def job_from_row(row: tuple[Any, ...]) -> Job:
    """Convert a row that has the columns of `Job` to a job."""
    fields = dict(zip(Job.__struct_fields__, row, strict=True))
    return Job(**{**fields, "users": _users.decode(fields["users"])})


_conforms: type[Jobs] = SqliteJobs


_job = msgspec.json.Decoder(Job)


class SqliteDeadLetters:
    """Stores dead letters, sorted by id."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def keep(self, dead_letter: DeadLetter) -> None:
        row = dead_letter_to_row(dead_letter)

        def write(db: apsw.Connection) -> None:
            db.execute(KEEP_DEAD_LETTER, row)

        await self._writer.write(write, rows=1)

    async def page(self, *, after: str | None, limit: int) -> list[DeadLetter]:
        def read(db: apsw.Connection) -> list[DeadLetter]:
            rows = db.execute(
                f"{ASIDE} WHERE aside_id > ? ORDER BY aside_id LIMIT ?", (after or "", limit)
            )
            return [dead_letter_from_row(row) for row in rows]

        return await self._readers.read(read)

    async def get(self, aside_id: str) -> DeadLetter | None:
        def read(db: apsw.Connection) -> DeadLetter | None:
            row = db.execute(f"{ASIDE} WHERE aside_id = ?", (aside_id,)).fetchone()
            return dead_letter_from_row(row) if row else None

        return await self._readers.read(read)

    async def drop(self, aside_id: str) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute("DELETE FROM jobs_aside WHERE aside_id = ?", (aside_id,))

        await self._writer.write(write, rows=1)


def dead_letter_to_row(dead_letter: DeadLetter) -> tuple[Any, ...]:
    """Convert a dead letter to a row."""
    job = msgspec.json.encode(dead_letter.job).decode()
    return dead_letter.aside_id, job, dead_letter.reason, dead_letter.at


def dead_letter_from_row(row: tuple[Any, ...]) -> DeadLetter:
    """Convert a row that has the columns of `DeadLetter` to a dead letter."""
    aside_id, job, reason, at = row
    return DeadLetter(aside_id=aside_id, job=_job.decode(job), reason=reason, at=at)


_dead_letters_conform: type[DeadLetters] = SqliteDeadLetters
