# SPDX-License-Identifier: Apache-2.0
"""Wrappers for ports, which delay or observe their calls."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class Intercepted:
    """Wrapper that passes each asynchronous call of a port to the function `around`."""

    def __init__(
        self, port: object, around: Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
    ) -> None:
        self._port = port
        self._around = around

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._port, name)
        if not asyncio.iscoroutinefunction(value):
            return value
        return lambda *given, **named: self._around(name, lambda: value(*given, **named))


class Gate:
    """Blocks the first call of one method, before or after its work, until `opened` is set."""

    def __init__(self, name: str, *, after: bool = False) -> None:
        self._name = name
        self._after = after
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name != self._name or self.reached.is_set():
            return await call()
        if self._after:
            result = await call()
            await self._hold()
            return result
        await self._hold()
        return await call()

    async def _hold(self) -> None:
        self.reached.set()
        await self.opened.wait()


class SlowDisk:
    """Delays the calls of one method. A delayed write is done even if its caller has given up."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.writes: list[asyncio.Future[Any]] = []

    async def __call__(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name != self._name:
            return await call()
        write = asyncio.ensure_future(self._write(call))
        self.writes.append(write)
        self.begun.set()
        return await asyncio.shield(write)

    async def _write(self, call: Callable[[], Awaitable[Any]]) -> Any:
        await self.may_end.wait()
        return await call()
