# SPDX-License-Identifier: Apache-2.0
"""Many small pieces of work at once, but not too many."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def side_by_side(works: Iterable[Coroutine[Any, Any, T]], at_once: int) -> list[T]:
    """The results, in the order of the works; if one fails, its own error and no group."""
    turn = asyncio.Semaphore(at_once)

    async def in_turn(work: Coroutine[Any, Any, T]) -> T:
        async with turn:
            return await work

    waiting = list(works)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(in_turn(work)) for work in waiting]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        for work in waiting:
            work.close()  # those that never had their turn
    return [task.result() for task in tasks]
