# SPDX-License-Identifier: Apache-2.0
"""Pages of other origins that may ask the API: exactly those on the list, never with cookies."""

from collections.abc import Iterable
from typing import Final

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

METHODS: Final = "DELETE, GET, PATCH, POST, PUT"
HEADERS: Final = "Authorization, Content-Type, Idempotency-Key, X-Request-Id"
EXPOSED: Final = "Idempotent-Replay, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"
REMEMBERED_SECONDS: Final = 600


def cors_headers(scope: Scope, allowed: frozenset[str]) -> dict[str, str]:
    """What the answer to a page's request says about who may read it."""
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


def answering_preflights(app: ASGIApp, allowed: frozenset[str]) -> ASGIApp:
    """The application, with browsers' questions before a request answered for the list's origins.

    Everyone else's are answered like any other request with that method.
    """

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or not _is_preflight(scope, allowed):
            await app(scope, receive, send)
            return
        told = {
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": HEADERS,
            "Access-Control-Max-Age": str(REMEMBERED_SECONDS),
        }
        headers = [(name.lower().encode(), value.encode()) for name, value in told.items()]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return answering


def _is_preflight(scope: Scope, allowed: frozenset[str]) -> bool:
    if scope.get("method") != "OPTIONS" or _allowed_origin(scope["headers"], allowed) is None:
        return False
    return any(name == b"access-control-request-method" for name, _ in scope["headers"])


def _allowed_origin(headers: Iterable[tuple[bytes, bytes]], allowed: frozenset[str]) -> str | None:
    """The one origin of a request, if it is letter by letter one of these."""
    given = [value for name, value in headers if name == b"origin"]
    if len(given) != 1:
        return None
    origin = given[0].decode("latin-1")
    return origin if origin in allowed else None
