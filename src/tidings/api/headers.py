# SPDX-License-Identifier: Apache-2.0
"""Headers of every answer: security, rate limits, CORS and the request id."""

from collections.abc import Iterable
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidings.api.access import Access, came_encrypted, rate_headers
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
    """Middleware that completes the headers of each answer."""

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


METHODS: Final = "DELETE, GET, PATCH, POST, PUT"
HEADERS: Final = "Authorization, Content-Type, Idempotency-Key, X-Request-Id"
EXPOSED: Final = "Idempotent-Replay, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"
REMEMBERED_SECONDS: Final = 600

_PREFLIGHT: Final = Response(
    status_code=204,
    headers={
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Allow-Headers": HEADERS,
        "Access-Control-Max-Age": str(REMEMBERED_SECONDS),
    },
)


def cors_headers(scope: Scope, allowed: frozenset[str]) -> dict[str, str]:
    """Return the CORS headers of the answer to a request from a web page."""
    if not allowed:
        return {}
    origin = _allowed_origin(scope["headers"], allowed)
    if origin is None:
        return {"Vary": "Origin"}
    return {
        "Vary": "Origin",
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": EXPOSED,
    }


class PreflightMiddleware:
    """Middleware that answers CORS preflight requests from the allowed origins.

    A preflight request from any other origin is answered like any other request with that method.
    """

    def __init__(self, app: ASGIApp, allowed: frozenset[str]) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = _PREFLIGHT if _is_preflight(scope, self._allowed) else self._app
        await app(scope, receive, send)


def _is_preflight(scope: Scope, allowed: frozenset[str]) -> bool:
    if scope.get("method") != "OPTIONS" or _allowed_origin(scope["headers"], allowed) is None:
        return False
    return any(name == b"access-control-request-method" for name, _ in scope["headers"])


def _allowed_origin(headers: Iterable[tuple[bytes, bytes]], allowed: frozenset[str]) -> str | None:
    """Return the origin of a request if it is exactly one of these."""
    given = [value for name, value in headers if name == b"origin"]
    if len(given) != 1:
        return None
    origin = given[0].decode("latin-1")
    return origin if origin in allowed else None
