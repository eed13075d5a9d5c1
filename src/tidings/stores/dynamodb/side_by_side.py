# SPDX-License-Identifier: Apache-2.0
"""Several requests of one call at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

AT_ONCE: Final = 32
"""How many requests one call makes at once: others want their connections too."""

_T = TypeVar("_T")
_S = TypeVar("_S")


async def together(works: Iterable[Callable[[], Awaitable[_T]]]) -> list[_T]:
    """Do all of it at once, within bounds; the results in order. Raises what the first one did."""
    free = asyncio.Semaphore(AT_ONCE)

    async def do(work: Callable[[], Awaitable[_T]]) -> _T:
        async with free:
            return await work()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(do(work)) for work in works]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def both(one: Coroutine[Any, Any, _T], other: Coroutine[Any, Any, _S]) -> tuple[_T, _S]:
    """Do two different things at once. Raises what the first one did."""
    try:
        async with asyncio.TaskGroup() as group:
            first, second = group.create_task(one), group.create_task(other)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return first.result(), second.result()
