# SPDX-License-Identifier: Apache-2.0
"""What the writer writes: jobs, each with its own outcome."""

from asyncio import Future
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

import apsw

from tidings.model.refusals import StoreUnavailable
from tidings.stores.sqlite.errors import DISK_TROUBLE

T = TypeVar("T")

Bulk = list[tuple[str, list[tuple[Any, ...]]]]
"""Statements, each with the rows to run it for."""


class JobWritten:
    """The outcome of a job that was written and has nothing else to say."""


class UndoWrite(Exception):
    """Raised in a job's write: take back what it wrote and settle it with this outcome."""

    def __init__(self, outcome: object) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class WriteJob(Protocol):
    """Something to write in the next transaction."""

    def prepare(self) -> int:
        """Called once, right before it is written: about how many rows it writes, 0 if none."""
        ...

    def bulk(self) -> Bulk | None:
        """Statements that may be run together with those of other jobs; None if it goes alone.

        If any of them breaks a constraint all of them are taken back, and each job goes alone.
        """
        ...

    def write(self, db: apsw.Connection) -> object:
        """Write inside the open transaction and return the outcome; may raise Undo.

        Any other exception takes back what it wrote as well, and the job has failed.
        """
        ...

    def settle(self, outcome: Any) -> None:  # noqa: ANN401 - what its own write returned
        """Called on the loop once the outcome is durable."""
        ...

    def fail(self) -> None:
        """Called on the loop instead if it could not be written: the outcome is unknown."""
        ...


class AwaitedWrite:
    """A function somebody waits for."""

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
"""A write in steps: it yields after each, and returns its result."""


class SteppedWrite(AwaitedWrite):
    """A function that writes much, in steps: alone in its transaction, one step a turn."""

    def __init__(
        self, begin: Callable[[apsw.Connection], Steps[Any]], future: Future[Any], rows: int
    ) -> None:
        super().__init__(self._go_on, future, rows)
        self._begin = begin
        self._steps: Steps[Any] | None = None

    def _go_on(self, db: apsw.Connection) -> Any:  # noqa: ANN401 - what the last step returns
        if self._steps is None:
            self._steps = self._begin(db)
        try:
            next(self._steps)
        except StopIteration as end:
            return end.value
        raise Unfinished


class Unfinished(Exception):
    """There are more steps."""


class UnawaitedWrite:
    """Statements nobody waits for: whose loss would be made good by later ones."""

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
