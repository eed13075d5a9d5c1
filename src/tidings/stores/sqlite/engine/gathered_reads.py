# SPDX-License-Identifier: Apache-2.0
"""Gathers reads of background work that wait for their turn, so that one turn runs many of them.

The way of a read to its thread and back costs several times what a short query costs. What a tenant
reads with its key counts as background work of this tenant, too. Users' reads are not gathered:
each of them has its own turn, and a slow one delays no other.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import apsw

from tidings.model.refusals import Refusal
from tidings.ports.store import Requester
from tidings.stores.scheduler import Scheduler, Turn

READS_IN_TURN: Final = 16

Act = Callable[[apsw.Connection], Any]
_Reads = list[tuple[Act, "asyncio.Future[Any]"]]
_Outcome = tuple[Any, Exception | None]


class GatheredReads:
    """The reads of each requester that wait for the same turn."""

    def __init__(
        self, scheduler: Scheduler, run: Callable[[Act, Turn], "asyncio.Future[Any]"]
    ) -> None:
        """Set up the reads; `run` runs a function in a thread, in a turn that has come."""
        self._scheduler = scheduler
        self._run = run
        self._waiting: dict[Requester, _Reads] = {}

    async def read(self, requester: Requester, act: Act) -> Any:  # noqa: ANN401 - result of `act`
        """Run a function in the next turn of its requester, and return its result, or raise its
        error.

        Raises:
            StoreUnavailable: Too many requests are waiting.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        reads = self._waiting.get(requester)
        if reads is not None and len(reads) < READS_IN_TURN:
            reads.append((act, future))
        else:
            self._ask(requester, [(act, future)])
        return await future

    def _ask(self, requester: Requester, reads: _Reads) -> None:
        """Ask for a turn. Until it comes, further reads may join these."""

        def go(turn: Turn) -> None:
            self._close(requester, reads)
            running = self._run(lambda db: [_outcome(db, *read) for read in reads], turn)
            running.add_done_callback(lambda done: _settle(reads, done))

        def turn_away(refusal: Refusal) -> None:
            self._close(requester, reads)
            for _, future in reads:
                if not future.done():
                    future.set_exception(refusal)

        self._waiting[requester] = reads
        try:
            self._scheduler.enter(requester, go, turn_away)
        except Refusal:
            self._close(requester, reads)
            raise

    def _close(self, requester: Requester, reads: _Reads) -> None:
        """Let no further read join these."""
        if self._waiting.get(requester) is reads:
            del self._waiting[requester]


def _outcome(db: apsw.Connection, act: Act, future: "asyncio.Future[Any]") -> _Outcome:
    if future.cancelled():
        return None, None
    try:
        return act(db), None
    except Exception as error:
        return None, error


def _settle(reads: _Reads, done: "asyncio.Future[list[_Outcome]]") -> None:
    failed = done.exception()
    outcomes = [(None, failed)] * len(reads) if failed else done.result()
    for (_, future), (result, error) in zip(reads, outcomes, strict=True):
        if future.done():
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
