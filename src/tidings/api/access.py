# SPDX-License-Identifier: Apache-2.0
"""Applies rate limits to the REST API, and adds headers for limits, security, CORS and request
id."""

import logging
import re
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

import msgspec
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidings.actions.identity.caller import Caller
from tidings.actions.rate_limits import Kind, Outcome, RateLimits, check, combine_outcomes
from tidings.api.operations import UNCOUNTED, Operation
from tidings.logs.requests import set_requests
from tidings.model.addresses import Networks, counted_address, is_trusted
from tidings.ports.sessions import Bucket
from tidings.ports.world import Chance

REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_REQUEST_ID: Final = "tidings_request_id"

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

log = logging.getLogger("tidings.serving")

_WARNING: Final = (
    "a proxy on this machine forwards requests, but TIDINGS_TRUSTED_PROXIES does not list it: "
    "rate limits by address and the start-up checks for a public server are off"
)
_COUNTED: Final = "tidings_counted"
_LOGINS: Final = ("/v1/auth/codes", "/v1/auth/sessions")
"""Paths with a lower rate limit per address, because an attacker could guess login codes there.
Refreshing a session is not one of them, because all users of an office may do it at the same
time."""
_SEND: Final = ("POST", "/v1/chats/{chat_id}/messages")
METHODS: Final = "DELETE, GET, HEAD, PATCH, POST, PUT"
HEADERS: Final = (
    "Authorization, Content-Type, Idempotency-Key, Range, Tidings-After, Traceparent,"
    " Upload-Offset, X-Request-Id"
)
EXPOSED: Final = (
    "Content-Disposition, Content-Range, Idempotent-Replay, RateLimit, RateLimit-Policy,"
    " Retry-After, Upload-Length, Upload-Offset, X-Request-Id"
)
REMEMBERED_SECONDS: Final = 600
_PREFLIGHT: Final = Response(
    status_code=204,
    headers={
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Allow-Headers": HEADERS,
        "Access-Control-Max-Age": str(REMEMBERED_SECONDS),
    },
)


def client_address(scope: Scope, trusted: Networks) -> str | None:
    """Return the address to which a client's rate limits apply; None if unknown or local.

    If the request came through one of the `trusted` proxies, this is the address that the proxy
    reports.
    """
    client = scope["client"]
    return counted_address(client[0] if client else None, forwarded_for(scope), trusted)


def forwarded_for(scope: Scope) -> list[str]:
    """Return the values of all `X-Forwarded-For` headers, in their order."""
    return [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"
    ]


def came_encrypted(scope: Scope, trusted: Networks) -> bool:
    """Return True if the client used HTTPS: with this process, or with a trusted proxy, which
    reports it."""
    if scope["scheme"] == "https":
        return True
    client = scope["client"]
    if not trusted or client is None or not is_trusted(client[0], trusted):
        return False
    protocols = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    return len(protocols) == 1 and protocols[0].strip().lower() == b"https"


class UnnamedProxyWarning:
    """Logs a warning, once per process, if requests are forwarded but no proxy is trusted."""

    def __init__(self) -> None:
        self._has_warned = False

    def look(self, forwarded: Sequence[str]) -> None:
        """Warn if a request from this machine has any `X-Forwarded-For` header."""
        if forwarded and not self._has_warned:
            self._has_warned = True
            log.warning(_WARNING, extra={"action": "proxy_not_named"})


class Access(msgspec.Struct, frozen=True):
    """Applies rate limits to requests, and knows the trusted proxies and allowed origins."""

    limits: RateLimits | None = None
    """None if rate limits are off."""
    trusted_proxies: Networks = ()
    allowed_origins: frozenset[str] = frozenset()
    unnamed_proxy: UnnamedProxyWarning = msgspec.field(default_factory=UnnamedProxyWarning)

    def address(self, scope: Scope) -> str | None:
        """Return the address to which a client's rate limits apply; None if unknown or local."""
        return client_address(scope, self.trusted_proxies)

    async def count_arrival(self, scope: Scope, operation: Operation | None) -> None:
        """Charge a request to the address of its client, before its credentials are checked.

        Raises:
            RateLimited: The address has no token left.
        """
        if self.limits is None or (operation is not None and operation.path in UNCOUNTED):
            return
        address = self.address(scope)
        if address is None and not self.trusted_proxies:
            self.unnamed_proxy.look(forwarded_for(scope))
        self._note(scope, await self.limits.arrival(address, _kind(operation)))

    async def count(self, scope: Scope, operation: Operation | None, caller: Caller | None) -> None:
        """Charge the caller for the part of a request's cost that depends on path and query.

        Raises:
            RateLimited: The bucket has too few tokens left.
        """
        if self.limits is None:
            return
        tokens = 1 if operation is None else operation.cost_of(scope["query_string"])
        self._note(scope, await self.limits.request(caller, _kind(operation), tokens))

    async def count_body(
        self, scope: Scope, operation: Operation, caller: Caller | None, body: object
    ) -> None:
        """Charge the caller for the part of a request's cost that depends on the body.

        Raises:
            RateLimited: The bucket has too few tokens left.
        """
        if self.limits is None or operation.body_cost is None:
            return
        more = operation.body_cost(body) - 1
        if more > 0:
            self._note(scope, await self.limits.request(caller, None, more))

    async def count_wrong(self, scope: Scope) -> None:
        """Charge a request with invalid credentials to the address of its client.

        Raises:
            RateLimited: The address has no token left. The client then gets 429 instead of 401.
        """
        if self.limits is not None:
            self._note(scope, await self.limits.wrong_credentials(self.address(scope)))

    def _note(self, scope: Scope, outcome: Outcome | None) -> None:
        if outcome is not None:
            scope["state"][_COUNTED] = combine_outcomes(outcome, scope["state"].get(_COUNTED))
        check(outcome)


def _kind(operation: Operation | None) -> Kind | None:
    if operation is None:
        return None
    if operation.path in _LOGINS:
        return "login"
    return "send" if (operation.method, operation.path) == _SEND else None


def rate_headers(scope: Scope) -> dict[str, str]:
    """Return the rate-limit headers: all limits of a request, and the state of the tightest one."""
    outcome: Outcome | None = scope.get("state", {}).get(_COUNTED)
    if outcome is None:
        return {}
    tightest, left = outcome.verdict.tightest, outcome.verdict.left
    full_in = ceil((tightest.burst - left) / tightest.per_second)
    return {
        "RateLimit-Policy": ", ".join(_policy(bucket) for bucket in outcome.buckets),
        "RateLimit": f'"{tightest.policy}";r={left};t={full_in}',
    }


def _policy(bucket: Bucket) -> str:
    return f'"{bucket.policy}";q={bucket.burst};w={bucket.seconds}'


def request_id(scope: Scope, chance: Chance) -> str:
    """Return the request id from the client if it is well-formed, else a new id.

    All calls for one request return the same id.
    """
    state = scope["state"]
    known: str | None = state.get(_REQUEST_ID)
    if known is None:
        known = state[_REQUEST_ID] = _given(scope) or chance.token(8).hex()
    return known


def known_request_id(scope: Scope) -> str:
    """Return the request id that `request_id` has returned before."""
    known: str = scope["state"][_REQUEST_ID]
    return known


def _given(scope: Scope) -> str | None:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    for name, value in headers:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
            return value.decode()
    return None


class HeadersMiddleware:
    """Middleware that adds the common headers to each answer, and names the request in the log."""

    def __init__(self, app: ASGIApp, chance: Chance, access: Access) -> None:
        self._app = app
        self._chance = chance
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})
        set_requests((request_id(scope, self._chance),))

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
        if self._access.allowed_origins:
            headers.add_vary_header("Origin")
            headers.update(cors_headers(scope, self._access.allowed_origins))
        if came_encrypted(scope, self._access.trusted_proxies):
            headers.update(_ENCRYPTED)
        headers["X-Request-Id"] = request_id(scope, self._chance)


def cors_headers(scope: Scope, allowed: frozenset[str]) -> dict[str, str]:
    """Return the CORS headers of the answer to a request from a web page."""
    origin = _allowed_origin(scope["headers"], allowed)
    if origin is None:
        return {}
    return {
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
    """Return the origin of a request if it is one of the allowed origins."""
    given = [value for name, value in headers if name == b"origin"]
    if len(given) != 1:
        return None
    origin = given[0].decode("latin-1")
    return origin if origin in allowed else None
