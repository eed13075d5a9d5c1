# SPDX-License-Identifier: Apache-2.0
"""A server of a tenant that takes events, and answers as a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.test_utils import TestServer
from standardwebhooks import Webhook


class Received(NamedTuple):
    """An event that the receiver was sent."""

    webhook_id: str
    type: str
    data: dict[str, Any]

    @property
    def place(self) -> tuple[str, int]:
        """Stream and sequence of the event."""
        _, stream, sequence = self.webhook_id.split(".")
        return stream, int(sequence)


Answer = Callable[[Received], Awaitable[web.StreamResponse] | web.StreamResponse | int]


class WebhookReceiver:
    """Checks the signature of each request, keeps its event, and answers with `answer`."""

    def __init__(self) -> None:
        self.url = ""
        self.secret = ""
        self.answer: Answer | None = None
        """Returns a status or a response; None takes everything."""
        self.asked: list[Received] = []
        """The events of all requests."""
        self.taken: list[Received] = []
        """The events that were answered with success."""
        self.signatures: list[str] = []
        self.at_once = 0
        self.most_at_once = 0

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Handle a request."""
        body = await request.read()
        told = json.loads(body)
        received = Received(request.headers["webhook-id"], told["type"], told["data"])
        self.signatures.append(request.headers["webhook-signature"])
        if not self._is_genuine(request, body):
            return web.Response(status=401)
        self.asked.append(received)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            answer: Any = 200 if self.answer is None else self.answer(received)
            if asyncio.iscoroutine(answer):
                answer = await answer
        finally:
            self.at_once -= 1
        response = web.Response(status=answer) if isinstance(answer, int) else answer
        if 200 <= response.status < 300:
            self.taken.append(received)
        return response

    def _is_genuine(self, request: web.Request, body: bytes) -> bool:
        """Check the signature as `Webhook.verify` does, but not the time, which tests set."""
        at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
        name = request.headers["webhook-id"]
        right = Webhook(self.secret).sign(name, at, body.decode())
        return right in request.headers["webhook-signature"].split(" ")

    def types(self) -> list[str]:
        """The types of the events that were taken."""
        return [one.type for one in self.taken]


@asynccontextmanager
async def open_receiver() -> AsyncIterator[WebhookReceiver]:
    """Run the server."""
    receiver = WebhookReceiver()
    app = web.Application()
    app.router.add_post("/events", receiver.take)
    async with TestServer(app) as server:
        receiver.url = str(server.make_url("/events"))
        yield receiver
