# SPDX-License-Identifier: Apache-2.0
"""Limits on large bodies: few are read at once, since each needs several times its size in memory.

A request that waits for a slot has not been read yet: the rest of its body stays with the client.
Large bodies are decoded and posted one at a time: while a body waits for that, it needs its size
and no more.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext

from starlette.types import Scope

from tidings.api.operations import Operation
from tidings.model import limits
from tidings.model.refusals import RateLimited


class LargeBodies:
    """Slots for large bodies of one process: a few for each tenant, and a few more in total."""

    def __init__(self) -> None:
        self._in_all = asyncio.Semaphore(limits.LARGE_BODIES_MAX)
        self._tenants: dict[str, _Slots] = {}
        self._decoding = asyncio.Semaphore(1)

    def slot(self, scope: Scope, operation: Operation) -> AbstractAsyncContextManager[None]:
        """Return a context that takes a slot if the body may be large, and frees it at the end.

        Entering raises:
            RateLimited: Too many requests wait already, or waiting took too long.
        """
        if operation.body_bytes_max > limits.REQUEST_BODY_BYTES_MAX and _may_be_large(scope):
            return self._slot(scope["path_params"]["tenant"])
        return nullcontext()

    @asynccontextmanager
    async def turn_to_decode(self, body: bytes) -> AsyncIterator[None]:
        """Wait until no other large body is decoded or posted; the turn lasts as the context does.

        Raises:
            RateLimited: Waiting took too long.
        """
        if len(body) <= limits.REQUEST_BODY_BYTES_MAX:
            yield
            return
        async with AsyncExitStack() as stack:
            async with _not_too_long():
                await stack.enter_async_context(self._decoding)
            yield

    @asynccontextmanager
    async def _slot(self, tenant: str) -> AsyncIterator[None]:
        slots = self._tenants.setdefault(tenant, _Slots())
        if slots.users >= limits.TENANT_LARGE_BODIES_MAX + limits.LARGE_BODIES_WAITING_MAX:
            raise _too_many()
        slots.users += 1
        try:
            async with AsyncExitStack() as stack:
                await self._take(stack, slots)
                yield
        finally:
            slots.users -= 1
            if not slots.users:
                self._tenants.pop(tenant, None)

    async def _take(self, stack: AsyncExitStack, slots: "_Slots") -> None:
        async with _not_too_long():
            # The tenant's own slot first, so that no tenant has more than its few in the common
            # queue.
            await stack.enter_async_context(slots.free)
            await stack.enter_async_context(self._in_all)


class _Slots:
    """Slots of one tenant."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(limits.TENANT_LARGE_BODIES_MAX)
        self.users = 0
        """Requests that have a slot or wait for one."""


def _may_be_large(scope: Scope) -> bool:
    """Return True without a length: that of a chunked body is unknown before it is read."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return not value.isdigit() or int(value) > limits.REQUEST_BODY_BYTES_MAX
    return True


@asynccontextmanager
async def _not_too_long() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(limits.LARGE_BODY_WAIT_MS_MAX / limits.SECOND_MS):
            yield
    except TimeoutError:
        raise _too_many() from None


def _too_many() -> RateLimited:
    return RateLimited(f"a tenant may send {limits.TENANT_LARGE_BODIES_MAX} large bodies at once")
