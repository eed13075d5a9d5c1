# SPDX-License-Identifier: Apache-2.0
"""Headers that every answer carries, whatever became of its request."""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidings.api.access import Access, rate_headers
from tidings.api.addresses import came_encrypted
from tidings.api.cors import cors_headers
from tidings.api.request_ids import request_id
from tidings.ports.world import Chance

_ALWAYS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_UNLESS_SET: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
_ENCRYPTED: Final = {"Strict-Transport-Security": "max-age=31536000"}


class HeadersMiddleware:
    """Completes each answer's headers just before they leave."""

    def __init__(self, app: ASGIApp, chance: Chance, access: Access) -> None:
        self._app = app
        self._chance = chance
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})

        async def send_completed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._complete(MutableHeaders(scope=message), scope)
            await send(message)

        await self._app(scope, receive, send_completed)

    def _complete(self, headers: MutableHeaders, scope: Scope) -> None:
        for name, value in _UNLESS_SET.items():
            headers.setdefault(name, value)
        headers.update(_ALWAYS)
        headers.update(rate_headers(scope))
        headers.update(cors_headers(scope, self._access.allowed_origins))
        if came_encrypted(scope, self._access.trusted_proxies):
            headers.update(_ENCRYPTED)
        headers["X-Request-Id"] = request_id(scope, self._chance)
