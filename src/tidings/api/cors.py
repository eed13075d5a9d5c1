# SPDX-License-Identifier: Apache-2.0
"""Pages of other origins that may ask the API: exactly those on the list, never with cookies."""

from collections.abc import Iterable
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

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


class PreflightMiddleware:
    """Answers browsers' questions before a request, for the list's origins.

    Everyone else's are answered like any other request with that method.
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
    """The one origin of a request, if it is letter by letter one of these."""
    given = [value for name, value in headers if name == b"origin"]
    if len(given) != 1:
        return None
    origin = given[0].decode("latin-1")
    return origin if origin in allowed else None
