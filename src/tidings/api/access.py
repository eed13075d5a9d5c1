# SPDX-License-Identifier: Apache-2.0
"""Rate limits of the REST API: client addresses behind proxies, what requests cost, and headers."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from starlette.types import Scope

from tidings.actions.identity.caller import Caller
from tidings.actions.identity.rate_limits import Kind, Outcome, RateLimits, check, together
from tidings.api.operations import UNCOUNTED, Operation
from tidings.model.addresses import Networks, counted_address, is_trusted
from tidings.ports.buckets import Bucket


def client_address(scope: Scope, trusted: Networks) -> str | None:
    """Return the address that rate limits count for a client; None if it must not be counted.

    Behind one of the `trusted` proxies it is the address that the proxy reports.
    """
    client = scope["client"]
    return counted_address(client[0] if client else None, forwarded_for(scope), trusted)


def forwarded_for(scope: Scope) -> list[str]:
    """Return the values of all `X-Forwarded-For` headers, in their order."""
    return [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"
    ]


def came_encrypted(scope: Scope, trusted: Networks) -> bool:
    """Return whether a trusted proxy reports that the client used HTTPS."""
    client = scope["client"]
    if not trusted or client is None or not is_trusted(client[0], trusted):
        return False
    protocols = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    return len(protocols) == 1 and protocols[0].strip().lower() == b"https"


log = logging.getLogger("tidings.serving")

_WARNING: Final = (
    "a proxy on this machine forwards requests, but TIDINGS_TRUSTED_PROXIES does not list it: "
    "rate limits by address and the start-up checks for a public server are off"
)


class UnnamedProxyWarning:
    """Warning at the first forwarded request while no proxy is trusted; logged once per process."""

    def __init__(self) -> None:
        self._has_warned = False

    def look(self, forwarded: Sequence[str]) -> None:
        """Warn if a request from this machine has these `X-Forwarded-For` headers."""
        if forwarded and not self._has_warned:
            self._has_warned = True
            log.warning(_WARNING, extra={"action": "proxy_not_named"})


_COUNTED: Final = "tidings_counted"
_LOGINS: Final = ("/v1/auth/codes", "/v1/auth/sessions")
"""Paths where guessing could pay. Refreshing is not among them: a whole office does it at once."""
_SEND: Final = ("POST", "/v1/chats/{chat_id}/messages")


@dataclass(frozen=True, slots=True)
class Access:
    """Rate limits, trusted proxies and allowed origins of this process."""

    limits: RateLimits | None = None
    """None if nothing is counted."""
    trusted_proxies: Networks = ()
    allowed_origins: frozenset[str] = frozenset()
    unnamed_proxy: UnnamedProxyWarning = field(default_factory=UnnamedProxyWarning)

    def address(self, scope: Scope) -> str | None:
        """Return the address that rate limits count for a client; None if it is not counted."""
        return client_address(scope, self.trusted_proxies)

    async def count_arrival(self, scope: Scope, operation: Operation | None) -> None:
        """Count a request by its address, before its credentials are checked.

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
        """Take the part of a request's cost that path and query determine from its caller's bucket.

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
        """Take the rest of the cost, for operations where the body determines it.

        Raises:
            RateLimited: The bucket has too few tokens left.
        """
        if self.limits is None or operation.body_cost is None:
            return
        more = operation.body_cost(body) - 1
        if more > 0:
            self._note(scope, await self.limits.request(caller, None, more))

    async def count_wrong(self, scope: Scope) -> None:
        """Count a request whose credentials are not valid.

        Raises:
            RateLimited: The address has no token left; this replaces the answer 401.
        """
        if self.limits is not None:
            self._note(scope, await self.limits.wrong_credentials(self.address(scope)))

    def _note(self, scope: Scope, outcome: Outcome | None) -> None:
        if outcome is not None:
            scope["state"][_COUNTED] = together(outcome, scope["state"].get(_COUNTED))
        check(outcome)


def _kind(operation: Operation | None) -> Kind | None:
    if operation is None:
        return None
    if operation.path in _LOGINS:
        return "login"
    return "send" if (operation.method, operation.path) == _SEND else None


def rate_headers(scope: Scope) -> dict[str, str]:
    """Return the headers that report the limits of a counted request, and what is left of one."""
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
