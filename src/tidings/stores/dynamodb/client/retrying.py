# SPDX-License-Identifier: Apache-2.0
"""Retries requests to DynamoDB, limits how many run at once, and classifies their errors.

The class of an error says whether the request may have changed data.

Only this layer repeats requests. It uses pauses with full jitter, a deadline for each call and a
common budget of retries. Each retry uses one from the budget, and ten answered requests add one.
While the store fails, retries therefore add at most a tenth to its load. When the budget is empty,
failures are not retried.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, Self, TypeVar

from tidings.aws.transport import Rejected as Rejected
from tidings.aws.transport import RequestError as RequestError
from tidings.aws.transport import Throttled as Throttled
from tidings.aws.transport import Unanswered as Unanswered
from tidings.aws.transport import Unsent as Unsent
from tidings.model.refusals import StoreUnavailable
from tidings.ports.store import CallClass, Requester
from tidings.ports.world import Chance
from tidings.stores.scheduler import Scheduler, wait_for_turn

Item = dict[str, Any]
"""Plain values by attribute name: str, int, bytes, bool, None, list, dict, frozenset of int."""

AT_ONCE: Final = 32
"""Maximum number of concurrent requests of one call, because other calls need connections too."""

_R = TypeVar("_R")
_S = TypeVar("_S")
DEADLINE_SECONDS: Final = 5.0
ATTEMPTS_MAX: Final = 6
RACE_ATTEMPTS_MAX: Final = 8
"""Maximum number of attempts at a change that fails if another writer is faster."""
PAUSE_SECONDS_FIRST: Final = 0.025
PAUSE_SECONDS_MAX: Final = 1.0
BUDGET_RETRIES: Final = 100.0
BUDGET_REFUND: Final = 0.1
USER_REQUESTS_AT_ONCE: Final = 16
"""Maximum number of concurrent requests per user; one chat list takes dozens of requests."""
USER_REQUESTS_WAITING_MAX: Final = 1_024
REQUESTS_WAITING_MAX: Final = 20_000
OWN_CONNECTIONS: Final[dict[CallClass, int]] = {"credentials": 6, "revocations": 2}
"""Connections reserved for the server itself, in addition to those for users."""


class Conflicted(RequestError):
    """Another transaction has locked the item, so nothing was written."""


class ConditionFailed(RequestError):
    """The condition of a write failed, so this attempt wrote nothing."""

    def __init__(self, item: Item | None) -> None:
        super().__init__("condition failed")
        self.item = item
        """The stored item, or None if the item does not exist."""
        self.is_repeat = False
        """True if an earlier attempt of the same call may have written the item."""


class Reason:
    """Why one write of a transaction failed; `code` is empty if this write was not the cause."""

    __slots__ = ("code", "item")

    def __init__(self, code: str, item: Item | None) -> None:
        self.code = code
        self.item = item

    @property
    def is_condition(self) -> bool:
        """True if the condition failed; `item` is then the stored item."""
        return self.code == "ConditionalCheckFailed"

    @property
    def is_conflict(self) -> bool:
        """True if another transaction had locked the item."""
        return self.code == "TransactionConflict"


class Canceled(RequestError):
    """A transaction was cancelled, so nothing was written."""

    def __init__(self, reasons: list[Reason]) -> None:
        super().__init__("transaction canceled: " + ", ".join(r.code or "-" for r in reasons))
        self.reasons = reasons
        """One reason for each write, in order."""


async def gather_bounded(works: Iterable[Callable[[], Awaitable[_R]]]) -> list[_R]:
    """Call all functions in `works`, at most `AT_ONCE` concurrently.

    Returns the results in order, or raises the first error.
    """
    free = asyncio.Semaphore(AT_ONCE)

    async def do(work: Callable[[], Awaitable[_R]]) -> _R:
        async with free:
            return await work()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(do(work)) for work in works]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def gather_two(one: Coroutine[Any, Any, _R], other: Coroutine[Any, Any, _S]) -> tuple[_R, _S]:
    """Run two coroutines concurrently; raise the first error."""
    try:
        async with asyncio.TaskGroup() as group:
            first, second = group.create_task(one), group.create_task(other)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return first.result(), second.result()


_T = TypeVar("_T")


class Budget:
    """Limits the number of retries; answered requests refill it."""

    def __init__(self, retries: float = BUDGET_RETRIES) -> None:
        self._most = retries
        self._left = retries

    def take(self) -> bool:
        """Use up one retry; return False if none is left."""
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def refund(self) -> None:
        """Add a fraction of a retry, because a request was answered."""
        self._left = min(self._most, self._left + BUDGET_REFUND)


class Retrying:
    """Repeats failed requests. If the condition of a repeated write fails, it sets
    `ConditionFailed.is_repeat`, because an earlier attempt may have written the item."""

    def __init__(self, chance: Chance, budget: Budget) -> None:
        self._chance = chance
        self._budget = budget

    async def call(self, send: Callable[[float], Awaitable[_T]], *, gives_way: bool = False) -> _T:
        """Call `send(deadline)` until the store answers; `deadline` is on the event loop's clock.

        Each attempt sends the same bytes, so each write needs a condition or a token that makes a
        repeat harmless. With `gives_way`, a conflict with a transaction is not retried, but raised.

        Raises:
            ConditionFailed, Canceled, Conflicted, Rejected: The store answered with this error.
            StoreUnavailable: No answer came in time, or no retry is left. The outcome of a write
                is unknown.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + DEADLINE_SECONDS
        is_repeat = False
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                answer = await send(ends_at)
            except (ConditionFailed, Canceled) as failed:
                self._budget.refund()
                if isinstance(failed, ConditionFailed):
                    failed.is_repeat = is_repeat
                raise
            except (Throttled, Unsent, Unanswered, Conflicted) as error:
                if gives_way and isinstance(error, Conflicted):
                    raise
                is_repeat |= isinstance(error, Unanswered)
                await self._pause_or_give_up(attempt, ends_at, error)
            else:
                self._budget.refund()
                return answer
        raise AssertionError("the last attempt returns or raises")

    def attempts(self, most: int = RACE_ATTEMPTS_MAX) -> "Attempts":
        """Return an iterator over attempts, for a change that fails if another writer is faster."""
        return Attempts(self, most)

    async def pause_before_rest(self, attempt: int) -> None:
        """Wait before repeating the part of a batch that the store did not process.

        Raises:
            StoreUnavailable: No attempt or no retry is left.
        """
        ends_at = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        await self._pause_or_give_up(attempt, ends_at, Throttled("part of a batch"))

    async def _pause_or_give_up(self, attempt: int, ends_at: float, error: RequestError) -> None:
        pause = self.pause_before(attempt)
        left = ends_at - asyncio.get_running_loop().time()
        if attempt == ATTEMPTS_MAX or pause >= left or not self._budget.take():
            raise StoreUnavailable from error
        await asyncio.sleep(pause)

    def pause_before(self, attempt: int) -> float:
        """Return a random pause; its upper limit doubles with each attempt.

        The pause is random so that callers do not all retry at the same moment.
        """
        limit: float = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_FIRST * 2 ** (attempt - 1))
        return limit * int.from_bytes(self._chance.token(4), "big") / 2**32


class Attempts:
    """Iterator over the numbers of attempts, from 1 on; it pauses before each except the first.

    It is not a generator, because a loop that ends early would have to close a generator.
    """

    def __init__(self, retrying: Retrying, most: int) -> None:
        self._retrying = retrying
        self._most = most
        self._made = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> int:
        if self._made == self._most:
            raise StopAsyncIteration
        if self._made:
            await asyncio.sleep(self._retrying.pause_before(self._made))
        self._made += 1
        return self._made


class RequestScheduler:
    """Assigns the connections of one client to requests, which wait in queues."""

    def __init__(self, connections: int, retrying: Retrying, chance: Chance) -> None:
        """Set up the scheduler; `connections` and `retrying` are for users' requests only."""
        self._schedulers = {
            call_class: Scheduler(
                f"requests of {call_class}",
                slots=slots,
                user_slots=min(USER_REQUESTS_AT_ONCE, max(1, slots // 2)),
                user_waiting_max=USER_REQUESTS_WAITING_MAX,
                waiting_max=REQUESTS_WAITING_MAX,
            )
            for call_class, slots in {**OWN_CONNECTIONS, "users": connections}.items()
        }
        self._retrying: dict[CallClass, Retrying] = {
            "users": retrying,
            "credentials": Retrying(chance, Budget()),
            "revocations": Retrying(chance, Budget()),
        }

    def retrying(self, who: Requester) -> Retrying:
        """Return the retry policy for requests from this requester."""
        return self._retrying[who.call_class]

    @asynccontextmanager
    async def turn(self, who: Requester, deadline: float) -> AsyncIterator[None]:
        """Reserve a connection for the duration of the context.

        Raises:
            Unsent: No connection became free before `deadline`, a time on the event loop's clock.
            RateLimited, StoreUnavailable: Too many requests are waiting.
        """
        scheduler = self._schedulers[who.call_class]
        try:
            turn = await wait_for_turn(scheduler, who, deadline)
        except TimeoutError:
            raise Unsent("no connection became free") from None
        try:
            yield
        finally:
            scheduler.leave(turn)
