# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of DynamoDB that forwards requests, or causes planned failures.

A test plans failures for each operation. All other requests are forwarded, if there is an upstream.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Literal
from unittest.mock import patch
from zlib import crc32

import aiohttp
import msgspec
from aiohttp import web

from tidings.stores.dynamodb.client import retrying

Fate = Literal["pass", "throttle", "fail", "conflict", "cut", "lose", "garble"] | dict[str, Any]
"""What happens to a request. `throttle`, `fail` and `conflict` refuse it with that error. `cut`
closes the connection without carrying it out. `lose` carries it out, and closes the connection
instead of answering. `garble` carries it out, and sends a changed answer. A dict is sent as the
answer without carrying it out; with `__type` it is an error."""

_ERRORS = {
    "throttle": (400, "ProvisionedThroughputExceededException"),
    "fail": (500, "InternalServerError"),
    "conflict": (400, "TransactionConflictException"),
}
_PREFIX = "com.amazonaws.dynamodb.v20120810#"
_DEADLINE_SECONDS: Final = 60.0
"""On a busy machine a store would otherwise give up before it has met all planned failures."""


class DynamoProxy:
    """Proxy that carries out a plan of failures, and records all requests."""

    def __init__(self, upstream: str | None) -> None:
        self.upstream = upstream
        self.address = ""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.at_once = 0
        self.most_at_once = 0
        self.gate: asyncio.Event | None = None
        """If it is set, requests wait until this event."""
        self._fates: dict[str, deque[Fate]] = defaultdict(deque)
        self._before: list[tuple[str, str, Callable[[], Awaitable[object]]]] = []

    def plan(self, operation: str, *fates: Fate) -> None:
        """Plan what happens to the next requests for an operation, in order."""
        self._fates[operation].extend(fates)

    def before(self, operation: str, table: str, happens: Callable[[], Awaitable[object]]) -> None:
        """Call `happens` once, before the next request for this operation on a table."""
        self._before.append((operation, table, happens))

    async def _let_happen(self, operation: str, body: bytes) -> None:
        for one in self._before:
            if one[0] == operation and one[1].encode() in body:
                self._before.remove(one)
                await one[2]()
                return

    def count(self, operation: str) -> int:
        """Return the number of requests for an operation."""
        return sum(name == operation for name, _ in self.asked)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        operation = request.headers["X-Amz-Target"].rpartition(".")[2]
        body = await request.read()
        self.asked.append((operation, msgspec.json.decode(body)))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.gate is not None:
                await self.gate.wait()
            await self._let_happen(operation, body)
            fates = self._fates[operation]
            return await self._meet(fates.popleft() if fates else "pass", request, body)
        finally:
            self.at_once -= 1

    async def _meet(self, fate: Fate, request: web.Request, body: bytes) -> web.StreamResponse:
        if isinstance(fate, dict):
            return _answer(400 if "__type" in fate else 200, fate)
        if fate in _ERRORS:
            status, code = _ERRORS[fate]
            return _answer(status, {"__type": _PREFIX + code, "message": "as told"})
        if fate == "cut":
            return _cut(request)
        status, answer = await self._pass_on(request, body)
        if fate == "lose":
            return _cut(request)
        if fate == "garble":
            return web.Response(status=status, body=answer, headers={"x-amz-crc32": "1"})
        return web.Response(status=status, body=answer)

    async def _pass_on(self, request: web.Request, body: bytes) -> tuple[int, bytes]:
        assert self.upstream is not None, "nobody to pass it on to"
        names = ("Content-Type", "X-Amz-Target", "X-Amz-Date", "Authorization")
        headers = {name: request.headers[name] for name in names}
        async with (
            aiohttp.ClientSession() as http,
            http.post(self.upstream, data=body, headers=headers) as response,
        ):
            return response.status, await response.read()


def _answer(status: int, content: dict[str, Any]) -> web.Response:
    body = msgspec.json.encode(content)
    return web.Response(status=status, body=body, headers={"x-amz-crc32": str(crc32(body))})


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:  # else the client has disconnected already
        request.transport.abort()
    return web.Response()


@asynccontextmanager
async def dynamo_proxy(upstream: str | None = None) -> AsyncIterator[DynamoProxy]:
    """Run a proxy on a free port."""
    proxy = DynamoProxy(upstream)
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_post("/", proxy.handle)
    runner = web.AppRunner(app, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        proxy.address = f"http://{host}:{port}"
        with patch.object(retrying, "DEADLINE_SECONDS", _DEADLINE_SECONDS):
            yield proxy
    finally:
        await runner.cleanup()
