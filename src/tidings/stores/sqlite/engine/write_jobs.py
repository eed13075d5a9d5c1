# SPDX-License-Identifier: Apache-2.0
"""Write jobs: units of work that the writer puts into its next transaction."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

import apsw

from tidings.logs.requests import Requests
from tidings.model.refusals import StoreUnavailable
from tidings.stores.sqlite.engine.connections import DISK_TROUBLE

T = TypeVar("T")

Bulk = list[tuple[str, list[tuple[Any, ...]]]]
"""Statements, each with its rows of parameters."""


class JobWritten:
    """Outcome of a write job whose statements ran together with those of others."""


class UndoWrite(Exception):
    """Raised by a job's `write` to roll the job back and settle it with this outcome."""

    def __init__(self, outcome: object) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class WriteJob(Protocol):
    """A unit of work for the next transaction."""

    @property
    def entry_count(self) -> int:
        """Return how many entries the prepared job appends to logs of chats."""
        ...

    @property
    def requests(self) -> Requests:
        """Return the requests that the log names if the job fails; none if a caller awaits the job,
        and so gets the error."""
        ...

    def prepare(self) -> int:
        """Return about how many rows the job will write, or 0 if there is nothing to write.

        The writer calls this once, right before it writes the job.
        """
        ...

    def bulk(self) -> Bulk | None:
        """Return statements to run together with those of other write jobs, or None.

        If this returns None, or if one of the statements violates a constraint, so that all of them
        are rolled back, the writer calls `write` instead.
        """
        ...

    def write(self, db: apsw.Connection) -> object:
        """Write inside the open transaction and return the outcome.

        If this raises UndoWrite, the job is rolled back and settled with the outcome in the
        exception. After any other exception, the job is rolled back and has failed.
        """
        ...

    def settle(self, outcome: Any) -> None:  # noqa: ANN401 - the result of its own write
        """Accept the outcome. This is called on the event loop when the outcome is durable."""
        ...

    def fail(self) -> None:
        """Accept that the outcome is unknown. This is called instead of `settle`."""
        ...


class AwaitedWrite:
    """Write job that calls a function and passes its result to the waiting caller."""

    def __init__(
        self, act: Callable[[apsw.Connection], Any], future: asyncio.Future[Any], rows: int
    ) -> None:
        # A job of no rows would be left out, and its caller would wait forever.
        self._rows = max(rows, 1)
        self._act = act
        self._future = future
        self.entry_count = 0
        self.requests: Requests = ()

    def prepare(self) -> int:
        return self._rows

    def bulk(self) -> Bulk | None:
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


class RowsWrite(AwaitedWrite):
    """Write job of statements that return nothing; they run together with those of other jobs."""

    def __init__(self, bulk: Bulk, future: asyncio.Future[None]) -> None:
        super().__init__(self._run, future, sum(len(rows) for _, rows in bulk))
        self._bulk = bulk

    def bulk(self) -> Bulk:
        return self._bulk

    def _run(self, db: apsw.Connection) -> None:
        for statement, rows in self._bulk:
            db.executemany(statement, rows)

    def settle(self, outcome: Any) -> None:  # noqa: ANN401 - the result of its own write, if any
        super().settle((None, None) if outcome is JobWritten else outcome)


Steps = Generator[None, None, T]
"""A generator that writes in steps: it yields after each step and returns the result."""


class SteppedWrite(AwaitedWrite):
    """A large write that has a transaction of its own and runs one step per event loop turn."""

    def __init__(
        self, begin: Callable[[apsw.Connection], Steps[Any]], future: asyncio.Future[Any], rows: int
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


_conforms: type[WriteJob] = AwaitedWrite
