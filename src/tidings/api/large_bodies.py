# SPDX-License-Identifier: Apache-2.0
"""Large bodies: few are read at once, because each takes several times its size in memory.

Whoever waits for a slot has not been read yet: the rest of the body stays with the client. Decoded
and posted they are one by one: a body that waits for that takes its size and no more.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from litestar.types import ASGIApp, Receive, Scope, Send

from tidings.model import limits
from tidings.model.refusals import RateLimited

_HELD: Final = "tidings_held"
"""Where what a request holds until it is answered is kept."""
_DECODING: Final = "tidings_decoding"
"""Where a request that has a slot finds what lets one of them be decoded at a time."""


class LargeBodies:
    """The slots of one process: few for each tenant, and a few more in all."""

    def __init__(self) -> None:
        self._in_all = asyncio.Semaphore(limits.LARGE_BODIES_MAX)
        self._tenants: dict[str, _Slots] = {}
        self._decoding = asyncio.Semaphore(1)

    async def enter(self, scope: Scope, body_bytes_max: int, tenant: str) -> None:
        """Wait for a slot, if the body may be large; it is kept until the request is answered.

        `body_bytes_max` is what the operation takes.

        Raises:
            RateLimited: Too many wait already, or waiting took too long.
        """
        if body_bytes_max <= limits.REQUEST_BODY_BYTES_MAX:
            return
        scope["state"][_DECODING] = self._decoding
        if _may_be_large(scope):
            held: AsyncExitStack = scope["state"][_HELD]
            await held.enter_async_context(self._slot(tenant))

    @asynccontextmanager
    async def _slot(self, tenant: str) -> AsyncIterator[None]:
        slots = self._tenants.setdefault(tenant, _Slots())
        if slots.users >= limits.TENANT_LARGE_BODIES_MAX + limits.LARGE_BODIES_WAITING_MAX:
            raise _too_many()
        slots.users += 1
        try:
            async with AsyncExitStack() as taken:
                await self._take(taken, slots)
                yield
        finally:
            slots.users -= 1
            if not slots.users:
                self._tenants.pop(tenant, None)

    async def _take(self, taken: AsyncExitStack, slots: "_Slots") -> None:
        async with _not_too_long():
            # The tenant's own first: so no tenant has more than its few in the common queue.
            await taken.enter_async_context(slots.free)
            await taken.enter_async_context(self._in_all)


class _Slots:
    """Those of one tenant."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(limits.TENANT_LARGE_BODIES_MAX)
        self.users = 0
        """Requests that have a slot or wait for one."""


async def wait_to_decode(scope: Scope) -> None:
    """Wait until no other large body is being decoded or posted; until the answer it is our turn.

    Raises:
        RateLimited: That took too long.
    """
    async with _not_too_long():
        await scope["state"][_HELD].enter_async_context(scope["state"][_DECODING])


def giving_back(app: ASGIApp) -> ASGIApp:
    """The application, with what a request holds given back once it is answered, or broke off."""

    async def holding(scope: Scope, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as held:
            scope["state"][_HELD] = held
            await app(scope, receive, send)

    return holding


def _may_be_large(scope: Scope) -> bool:
    """Without a length, which a body in chunks does not have, nobody knows before it is read."""
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
    return RateLimited(f"large bodies: {limits.TENANT_LARGE_BODIES_MAX} at once for a tenant")
