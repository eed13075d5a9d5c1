# SPDX-License-Identifier: Apache-2.0
"""Who may ask how often, from where: what the guard counts and what answers tell of it."""

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
    """As whom the client is counted where addresses are; None if it is not to be counted.

    Behind one of the `trusted` proxies it is who they say it is.
    """
    client = scope["client"]
    return counted_address(client[0] if client else None, forwarded_for(scope), trusted)


def forwarded_for(scope: Scope) -> list[str]:
    """What each `X-Forwarded-For` header of a request says, in their order."""
    return [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"
    ]


def came_encrypted(scope: Scope, trusted: Networks) -> bool:
    """Whether a trusted proxy says that the client asked it over HTTPS."""
    client = scope["client"]
    if not trusted or client is None or not is_trusted(client[0], trusted):
        return False
    said = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    return len(said) == 1 and said[0].strip().lower() == b"https"


log = logging.getLogger("tidings.serving")

_TOLD: Final = (
    "a proxy on this machine forwards requests, and TIDINGS_TRUSTED_PROXIES does not name it: "
    "limits by address are off, and the checks for a public server were not made"
)


class UnnamedProxyWarning:
    """Warns at the first forwarded request, where no proxy is trusted; silent after that."""

    def __init__(self) -> None:
        self._is_told = False

    def look(self, forwarded: Sequence[str]) -> None:
        """A request from this machine came with these forwarding headers."""
        if forwarded and not self._is_told:
            self._is_told = True
            log.warning(_TOLD, extra={"action": "proxy_not_named"})


_COUNTED: Final = "tidings_counted"
_LOGINS: Final = ("/v1/auth/codes", "/v1/auth/sessions")
"""Where guessing could pay. Sessions are refreshed all the time, by a whole office at once."""
_SEND: Final = ("POST", "/v1/chats/{chat_id}/messages")


@dataclass(frozen=True, slots=True)
class Access:
    """Who may come in, as the settings say."""

    limits: RateLimits | None = None
    """None: nothing is counted."""
    trusted_proxies: Networks = ()
    allowed_origins: frozenset[str] = frozenset()
    unnamed_proxy: UnnamedProxyWarning = field(default_factory=UnnamedProxyWarning)

    def address(self, scope: Scope) -> str | None:
        """As whom a client is counted; None if it is not."""
        return client_address(scope, self.trusted_proxies)

    async def count_arrival(self, scope: Scope, operation: Operation | None) -> None:
        """Count a request by its address, before anybody asks whose it is.

        Raises:
            RateLimited: It is one too many.
        """
        if self.limits is None or (operation is not None and operation.path in UNCOUNTED):
            return
        address = self.address(scope)
        if address is None and not self.trusted_proxies:
            self.unnamed_proxy.look(forwarded_for(scope))
        self._note(scope, await self.limits.arrival(address, _kind(operation)))

    async def count(self, scope: Scope, operation: Operation | None, caller: Caller | None) -> None:
        """Take what a request costs from its caller, as far as its address tells.

        Raises:
            RateLimited: It is too much.
        """
        if self.limits is None:
            return
        tokens = 1 if operation is None else operation.cost_of(scope["query_string"])
        self._note(scope, await self.limits.request(caller, _kind(operation), tokens))

    async def count_body(
        self, scope: Scope, operation: Operation, caller: Caller | None, body: object
    ) -> None:
        """Take what a request costs beyond that, if only its body tells.

        Raises:
            RateLimited: It is too much.
        """
        if self.limits is None or operation.body_cost is None:
            return
        more = operation.body_cost(body) - 1
        if more > 0:
            self._note(scope, await self.limits.request(caller, None, more))

    async def count_wrong(self, scope: Scope) -> None:
        """Count a request whose credentials do not hold.

        Raises:
            RateLimited: It is one too many: the caller is not told again that they do not.
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
    """What a counted request's answer tells: the limits there are, and what is left of one."""
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
