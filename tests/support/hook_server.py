# SPDX-License-Identifier: Apache-2.0
"""A server of a tenant that is asked about messages, and answers as a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


class HookServer:
    """Answers each request with `answer`; the requests are kept."""

    def __init__(self) -> None:
        self.url = ""
        self.answer: web.Response | dict[str, Any] | None = None
        """None for an empty answer, which allows the message."""
        self.status = 200
        self.held: dict[str, asyncio.Event] = {}
        """Contents whose answers wait for an event."""
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Handle a request."""
        body = await request.read()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        told = json.loads(body)["data"]
        self.asked.append(told)
        if (held := self.held.get(told.get("content", ""))) is not None:
            await held.wait()
        if self.status != 200:
            return web.Response(status=self.status)
        if isinstance(self.answer, web.Response):
            own = self.answer
            return web.Response(status=own.status, body=own.body, headers=own.headers)
        return web.Response() if self.answer is None else web.json_response(self.answer)


@asynccontextmanager
async def open_hook() -> AsyncIterator[HookServer]:
    """Run the server."""
    hook = HookServer()
    app = web.Application()
    app.router.add_post("/hook", hook.take)
    async with TestServer(app) as server:
        hook.url = str(server.make_url("/hook"))
        yield hook
        for held in hook.held.values():
            held.set()
