# SPDX-License-Identifier: Apache-2.0
"""The one layer that repeats requests: full jitter, a deadline for each call, a budget for all.

The budget is a bucket of retries shared by the process. A retry takes one out, ten requests that
got an answer put one back: when the store is in trouble, retries add at most a tenth to what is
asked of it, and the rest is refused at once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from tidings.model.refusals import StoreUnavailable
from tidings.ports.requesters import Lane, Requester
from tidings.ports.world import Chance
from tidings.stores.dynamodb.client.errors import (
    Canceled,
    ConditionFailed,
    Conflicted,
    RequestError,
    Throttled,
    Unanswered,
    Unsent,
)
from tidings.stores.scheduler import Scheduler, wait_for_turn

AT_ONCE: Final = 32
"""How many requests one call makes at once: others want their connections too."""

_R = TypeVar("_R")
_S = TypeVar("_S")


async def gather_bounded(works: Iterable[Callable[[], Awaitable[_R]]]) -> list[_R]:
    """Do all of it at once, within bounds; the results in order. Raises what the first one did."""
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
    """Do two different things at once. Raises what the first one did."""
    try:
        async with asyncio.TaskGroup() as group:
            first, second = group.create_task(one), group.create_task(other)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return first.result(), second.result()


DEADLINE_SECONDS: Final = 5.0
ATTEMPTS_MAX: Final = 6
PAUSE_SECONDS_FIRST: Final = 0.025
PAUSE_SECONDS_MAX: Final = 1.0
BUDGET_RETRIES: Final = 100.0
BUDGET_REFUND: Final = 0.1

_T = TypeVar("_T")


class Budget:
    """How many more retries this process may make."""

    def __init__(self, retries: float = BUDGET_RETRIES) -> None:
        self._most = retries
        self._left = retries

    def take(self) -> bool:
        """Take a retry out; False if there is none left."""
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def refund(self) -> None:
        """A request got an answer: the store is alive."""
        self._left = min(self._most, self._left + BUDGET_REFUND)


class Retrying:
    """Repeats what may be repeated, and says so when the outcome of an attempt is unknown."""

    def __init__(self, chance: Chance, budget: Budget) -> None:
        self._chance = chance
        self._budget = budget

    async def call(self, send: Callable[[float], Awaitable[_T]], *, gives_way: bool = False) -> _T:
        """Send, which is told until when by the loop's time, until there is an answer.

        The same bytes are sent each time: whoever writes has a condition or a token that makes a
        second time harmless. With `gives_way` a conflict with a transaction is an answer.

        Raises:
            ConditionFailed, Canceled, Conflicted, Rejected: The store's answer.
            StoreUnavailable: No answer in time, or no retry left; if it writes, unknown outcome.
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
            except (Throttled, Unsent, Unanswered, Conflicted) as trouble:
                if gives_way and isinstance(trouble, Conflicted):
                    raise
                is_repeat |= isinstance(trouble, Unanswered)
                await self._pause_or_give_up(attempt, ends_at, trouble)
            else:
                self._budget.refund()
                return answer
        raise AssertionError("the last attempt returns or raises")

    async def pause_before_rest(self, attempt: int) -> None:
        """Wait before asking again for what a batch left undone.

        Raises:
            StoreUnavailable: It was asked for often enough.
        """
        ends_at = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        await self._pause_or_give_up(attempt, ends_at, Throttled("part of a batch"))

    async def _pause_or_give_up(self, attempt: int, ends_at: float, trouble: RequestError) -> None:
        pause = self.pause_before(attempt)
        left = ends_at - asyncio.get_running_loop().time()
        if attempt == ATTEMPTS_MAX or pause >= left or not self._budget.take():
            raise StoreUnavailable from trouble
        await asyncio.sleep(pause)

    def pause_before(self, attempt: int) -> float:
        """Anything from nothing to a limit that doubles: waiting writers never march in step."""
        limit: float = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_FIRST * 2 ** (attempt - 1))
        return limit * int.from_bytes(self._chance.token(4), "big") / 2**32


USER_REQUESTS_AT_ONCE: Final = 16
"""Of a user, at most. One read of a chat list is some dozens of requests."""
USER_REQUESTS_WAITING_MAX: Final = 1_024
REQUESTS_WAITING_MAX: Final = 20_000
OWN_CONNECTIONS: Final[dict[Lane, int]] = {"credentials": 6, "revocations": 2}
"""Beside those for users."""


class RequestScheduler:
    """The connections of one client, and who waits for them."""

    def __init__(self, connections: int, retrying: Retrying, chance: Chance) -> None:
        """So many connections are for users, and what they do is repeated by `retrying`."""
        self._schedulers = {
            lane: Scheduler(
                slots=slots,
                user_slots=min(USER_REQUESTS_AT_ONCE, max(1, slots // 2)),
                user_waiting_max=USER_REQUESTS_WAITING_MAX,
                waiting_max=REQUESTS_WAITING_MAX,
            )
            for lane, slots in {**OWN_CONNECTIONS, "users": connections}.items()
        }
        self._retrying: dict[Lane, Retrying] = {
            "users": retrying,
            "credentials": Retrying(chance, Budget()),
            "revocations": Retrying(chance, Budget()),
        }

    def retrying(self, who: Requester) -> Retrying:
        """What repeats requests made on this behalf."""
        return self._retrying[who.lane]

    @asynccontextmanager
    async def turn(self, who: Requester, until: float) -> AsyncIterator[None]:
        """A connection, for as long as this lasts.

        Raises:
            Unsent: None came free until this moment of the loop's time.
            RateLimited, StoreUnavailable: Too many wait.
        """
        scheduler = self._schedulers[who.lane]
        try:
            turn = await wait_for_turn(scheduler, who, until)
        except TimeoutError:
            raise Unsent("no connection came free") from None
        try:
            yield
        finally:
            scheduler.leave(turn)
