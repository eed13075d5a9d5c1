# SPDX-License-Identifier: Apache-2.0
"""Write jobs, the units that the writer puts into a transaction, each with its own outcome."""

from asyncio import Future
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

import apsw

from tidings.model.refusals import StoreUnavailable
from tidings.stores.sqlite.engine.connections import DISK_TROUBLE

T = TypeVar("T")

Bulk = list[tuple[str, list[tuple[Any, ...]]]]
"""Statements, each with its rows of parameters."""


class JobWritten:
    """Outcome of a job that was written together with others."""


class UndoWrite(Exception):
    """Raised in a job's write, to roll the job back and settle it with this outcome."""

    def __init__(self, outcome: object) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class WriteJob(Protocol):
    """A unit of work for the next transaction."""

    def prepare(self) -> int:
        """Return about how many rows the job writes, 0 if none; called once, right before."""
        ...

    def bulk(self) -> Bulk | None:
        """Return statements to run together with those of other jobs; None to write alone.

        If any statement violates a constraint all are rolled back, and each job is written alone.
        """
        ...

    def write(self, db: apsw.Connection) -> object:
        """Write inside the open transaction and return the outcome; may raise UndoWrite.

        Any other exception rolls the job back as well, and the job has failed.
        """
        ...

    def settle(self, outcome: Any) -> None:  # noqa: ANN401 - the result of its own write
        """Take the outcome, once it is durable; called on the loop."""
        ...

    def fail(self) -> None:
        """Take the failure instead, if the outcome is unknown; called on the loop."""
        ...


class AwaitedWrite:
    """A function whose caller awaits the result."""

    def __init__(
        self, act: Callable[[apsw.Connection], Any], future: Future[Any], rows: int
    ) -> None:
        self._rows = rows
        self._act = act
        self._future = future

    def prepare(self) -> int:
        return self._rows

    def bulk(self) -> None:
        return None

    def write(self, db: apsw.Connection) -> object:
        try:
            return self._act(db), None
        except (*DISK_TROUBLE, Unfinished):
            raise
        except Exception as error:
            raise UndoWrite((None, error)) from error

    def settle(self, outcome: tuple[Any, Exception | None]) -> None:
        result, error = outcome
        if self._future.done():
            return
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)

    def fail(self) -> None:
        if not self._future.done():
            self._future.set_exception(StoreUnavailable())


Steps = Generator[None, None, T]
"""A write in steps: it yields after each step, and returns its result."""


class SteppedWrite(AwaitedWrite):
    """A large write in steps: alone in its transaction, one step per turn of the loop."""

    def __init__(
        self, begin: Callable[[apsw.Connection], Steps[Any]], future: Future[Any], rows: int
    ) -> None:
        super().__init__(self._next_step, future, rows)
        self._begin = begin
        self._steps: Steps[Any] | None = None

    def _next_step(self, db: apsw.Connection) -> Any:  # noqa: ANN401 - result of the last step
        if self._steps is None:
            self._steps = self._begin(db)
        try:
            next(self._steps)
        except StopIteration as end:
            return end.value
        raise Unfinished


class Unfinished(Exception):
    """Raised after a step of a write that has more steps."""


class UnawaitedWrite:
    """Statements that no caller awaits; if they are lost, later statements make up for it."""

    def __init__(self, statements: Bulk) -> None:
        self._statements = statements

    def prepare(self) -> int:
        return sum(len(rows) for _, rows in self._statements)

    def bulk(self) -> Bulk:
        return self._statements

    def write(self, db: apsw.Connection) -> None:
        for statement, rows in self._statements:
            db.executemany(statement, rows)

    def settle(self, outcome: object) -> None:
        pass

    def fail(self) -> None:
        pass


_conforms_call: type[WriteJob] = AwaitedWrite
_conforms_soon: type[WriteJob] = UnawaitedWrite
