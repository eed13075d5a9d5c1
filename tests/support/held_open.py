# SPDX-License-Identifier: Apache-2.0
"""Keeps an asynchronous context open for all tests of a module, whose event loops are others."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def held_open(opening: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Open an asynchronous context on an event loop of its own, and close it on exit."""
    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        opened = runner.run(stack.enter_async_context(opening))
        try:
            yield opened
        finally:
            runner.run(stack.aclose())
