# SPDX-License-Identifier: Apache-2.0
"""A writer on a bench: a database with one table, jobs and failpoints that keep a diary."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import apsw

from tidings.logs.requests import Requests
from tidings.ports.world import FailpointName, Failpoints
from tidings.stores.sqlite.engine.checkpoints import Checkpoints
from tidings.stores.sqlite.engine.connections import StoreBroken
from tidings.stores.sqlite.engine.write_jobs import Bulk, JobWritten, UndoWrite, WriteJob
from tidings.stores.sqlite.engine.writer import Writer

INSERT = "INSERT INTO things VALUES (?)"


class Diary:
    """Failpoints and jobs write down what happens, in order; a test may act at a place."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.at: dict[FailpointName, Callable[[], None]] = {}

    def armed(self, place: FailpointName) -> bool:
        return False

    def reach(self, place: FailpointName) -> None:
        self.lines.append(place)
        self.at.get(place, lambda: None)()

    @property
    def commits(self) -> int:
        return self.lines.count("before_commit")


class Thing:
    """A job that puts a thing with a number, together with others or alone."""

    def __init__(
        self,
        number: int,
        diary: Diary,
        *,
        alone: bool = False,
        error: Exception | None = None,
        rows: int = 1,
    ) -> None:
        self._rows = rows
        self._number = number
        self._diary = diary
        self._alone = alone or error is not None
        self._error = error
        self.done = asyncio.Event()
        self.entry_count = 0
        self.requests: Requests = ()

    def prepare(self) -> int:
        return self._rows

    def bulk(self) -> Bulk | None:
        return None if self._alone else [(INSERT, [(self._number,)])]

    def write(self, db: apsw.Connection) -> object:
        try:
            db.execute(INSERT, (self._number,))
        except apsw.ConstraintError:
            raise UndoWrite("taken") from None
        if self._error is not None:
            raise self._error
        return JobWritten

    def settle(self, outcome: object) -> None:
        said = outcome if isinstance(outcome, str) else "written"
        self._diary.lines.append(f"{self._number} {said}")
        self.done.set()

    def fail(self) -> None:
        self._diary.lines.append(f"{self._number} failed")
        self.done.set()


_conforms_diary: type[Failpoints] = Diary
_conforms_thing: type[WriteJob] = Thing


class Bench:
    """A writer on a database with one table, and a second connection to look from."""

    def __init__(self, db: apsw.Connection, checkpoints: Checkpoints, path: Path) -> None:
        self.path = path
        self.diary = Diary()
        self.broken: list[StoreBroken] = []
        self.other = apsw.Connection(str(path))
        self.writer = Writer(db, checkpoints, failpoints=self.diary, broken=self.broken.append)

    def thing(
        self,
        number: int,
        *,
        alone: bool = False,
        error: Exception | None = None,
        rows: int = 1,
    ) -> Thing:
        return Thing(number, self.diary, alone=alone, error=error, rows=rows)

    async def run(self, *jobs: Thing) -> None:
        for job in jobs:
            self.writer.submit(job)
        for job in jobs:
            await job.done.wait()

    def kept(self) -> list[int]:
        rows = self.other.execute("SELECT number FROM things ORDER BY number")
        return [number for (number,) in rows]

    @property
    def settled(self) -> list[str]:
        return [line for line in self.diary.lines if line[0].isdigit()]


@asynccontextmanager
async def a_bench(path: Path) -> AsyncIterator[Bench]:
    db, copier = apsw.Connection(str(path)), apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    db.execute("CREATE TABLE things (number INTEGER PRIMARY KEY)")
    checkpoints = Checkpoints(db, copier)
    bench = Bench(db, checkpoints, path)
    try:
        yield bench
    finally:
        await bench.writer.close()
        checkpoints.close()
        for connection in (bench.other, copier, db):
            connection.close()
