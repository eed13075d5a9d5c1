# SPDX-License-Identifier: Apache-2.0
"""Delivery jobs that nobody could do, on SQLite."""

from typing import Any, Final

import apsw
import msgspec

from tidings.ports.jobs import Job, JobsAside, SetAside
from tidings.stores.sqlite.plain_rows import columns, insert_once
from tidings.stores.sqlite.readers import Readers
from tidings.stores.sqlite.writer import Writer

KEEP_ASIDE: Final = insert_once("jobs_aside", SetAside)
ASIDE: Final = f"SELECT {columns(SetAside)} FROM jobs_aside"

_job = msgspec.json.Decoder(Job)


class SqliteJobsAside:
    """Jobs set aside, by their ids."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def keep(self, aside: SetAside) -> None:
        row = aside_to_row(aside)

        def write(db: apsw.Connection) -> None:
            db.execute(KEEP_ASIDE, row)

        await self._writer.write(write, rows=1)

    async def page(self, *, after: str | None, limit: int) -> list[SetAside]:
        def read(db: apsw.Connection) -> list[SetAside]:
            rows = db.execute(
                f"{ASIDE} WHERE aside_id > ? ORDER BY aside_id LIMIT ?", (after or "", limit)
            )
            return [aside_from_row(row) for row in rows]

        return await self._readers.read(read)

    async def get(self, aside_id: str) -> SetAside | None:
        def read(db: apsw.Connection) -> SetAside | None:
            row = db.execute(f"{ASIDE} WHERE aside_id = ?", (aside_id,)).fetchone()
            return aside_from_row(row) if row else None

        return await self._readers.read(read)

    async def drop(self, aside_id: str) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute("DELETE FROM jobs_aside WHERE aside_id = ?", (aside_id,))

        await self._writer.write(write, rows=1)


def aside_to_row(aside: SetAside) -> tuple[Any, ...]:
    """The columns of one."""
    job = msgspec.json.encode(aside.job).decode()
    return aside.aside_id, job, aside.reason, aside.at


def aside_from_row(row: tuple[Any, ...]) -> SetAside:
    """One selected with its columns."""
    aside_id, job, reason, at = row
    return SetAside(aside_id=aside_id, job=_job.decode(job), reason=reason, at=at)


_conforms: type[JobsAside] = SqliteJobsAside
