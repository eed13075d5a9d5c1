# SPDX-License-Identifier: Apache-2.0
"""Rate limits: what a request costs, and the token buckets that it is charged to.

The limits protect against floods; ordinary clients stay far below them. Limits that must be exact
are counted in the store instead.

A plain request costs one token. A request with a multiple of that work costs about as many tokens,
so that a bucket bounds the work that a user causes and not only the number of requests.
"""

import logging
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from tidings.actions.identity.caller import Caller, TenantCaller, UserCaller
from tidings.caches import LruCache
from tidings.model import limits
from tidings.model.addresses import site_of
from tidings.model.ids import UserKey
from tidings.model.refusals import RateLimited
from tidings.ports.buckets import Bucket, Buckets, OwnBuckets, Verdict

log = logging.getLogger("tidings.limits")

Kind = Literal["login", "send"]
"""Kinds of requests with an additional bucket."""

CONNECT_WAIT_MS_MAX: Final = 60 * limits.SECOND_MS
HASTY_USERS_MAX: Final = 10_000
HANDSHAKE_WAIT_MS_MAX: Final = 10 * limits.SECOND_MS
"""Time over which the retries of handshakes above the process's limit are spread."""


def page_cost(rows: int) -> int:
    """Return the cost of a page of a log, of history or of an inbox."""
    return _portions(rows, limits.PAGE_ROWS_PER_TOKEN)


def chat_list_cost(rows: int) -> int:
    """Return the cost of a page of the chat list, whose rows have preview, members and unread."""
    return _portions(rows, limits.CHAT_LIST_ROWS_PER_TOKEN)


def group_cost(members: int) -> int:
    """Return the cost of a new chat: each member takes several writes."""
    return _portions(members, limits.GROUP_MEMBERS_PER_TOKEN)


def look_up_cost(names: int) -> int:
    """Return the cost of a request that looks up or marks several things one by one."""
    return _portions(names, limits.LOOK_UPS_PER_TOKEN)


def leave_cost(chats: int) -> int:
    """Return the cost of leaving several chats: each is the work of a plain request."""
    return max(1, chats)


def post_cost(users: int | None) -> int:
    """Return the cost of a notification: one token per delivery job; None means a broadcast."""
    return limits.BROADCAST_TOKENS if users is None else _portions(users, limits.JOB_USERS_MAX)


def _portions(count: int, size: int) -> int:
    return max(1, -(-count // size))


class Outcome(msgspec.Struct, frozen=True):
    """The buckets that a request was charged to, and their verdict."""

    buckets: tuple[Bucket, ...]
    verdict: Verdict


class RateLimits:
    """All rate limits of a process; other processes share the buckets in `shared`."""

    def __init__(self, shared: Buckets, own: OwnBuckets) -> None:
        self.refused = 0
        """Number of refused requests, sends and connects."""
        self._shared = shared
        self._own = own
        self._refused_connects: LruCache[UserKey, int] = LruCache(HASTY_USERS_MAX)
        """Number of consecutive refused connects, by user."""

    # Requests.

    async def arrival(self, address: str | None, kind: Kind | None) -> Outcome | None:
        """Charge a request to its address; return None if it has no bucket.

        This runs before anything is read for the request, and in this process alone, so that a
        request that is refused here costs no other process anything.
        """
        return await self._take(self._own, _of_address(address, kind))

    async def request(
        self, caller: Caller | None, kind: Kind | None, tokens: int = 1
    ) -> Outcome | None:
        """Charge the cost of a request to its caller; return None if it has no bucket."""
        outcome = await self._take(self._shared, _of_caller(caller), tokens)
        is_refused = outcome is not None and not outcome.verdict.is_allowed
        if kind != "send" or not isinstance(caller, UserCaller) or is_refused:
            return outcome
        sends = await self._take(self._own, (sends_of(caller.user),))
        return combine_outcomes(sends, outcome)

    async def wrong_credentials(self, address: str | None) -> Outcome | None:
        """Charge a request or hello with invalid credentials to its address."""
        if address is None:
            # Perhaps behind a proxy that is not configured. One bucket for all such addresses locks
            # nobody out, because it only affects the answers to invalid credentials.
            rate = (
                limits.UNKNOWN_WRONG_CREDENTIALS_PER_SECOND,
                limits.UNKNOWN_WRONG_CREDENTIALS_BURST,
            )
            return await self._take(self._shared, (Bucket("credentials", "unknown", *rate),))
        rate = limits.ADDRESS_WRONG_CREDENTIALS_PER_SECOND, limits.ADDRESS_WRONG_CREDENTIALS_BURST
        return await self._take(self._shared, _of_place("credentials", address, *rate))

    async def _take(
        self, where: Buckets, buckets: Sequence[Bucket], tokens: int = 1
    ) -> Outcome | None:
        if not buckets:
            return None
        verdict = await where.take(buckets, tokens)
        if not verdict.is_allowed:
            self._count_refusal(verdict.tightest)
        return Outcome(tuple(buckets), verdict)

    # Sockets. Sends are counted in this process, so that no message waits for another process.

    def send(self, bucket: Bucket) -> int:
        """Charge a message; return 0, or the milliseconds to wait."""
        wait_ms = self._own.take_now(bucket)
        if wait_ms:
            self.refused += 1
        return wait_ms

    async def read(self, user: UserKey, tokens: int = 1) -> int:
        """Charge a read over the socket; return 0, or the milliseconds to wait.

        It takes from the bucket of the user's HTTP requests, so that a socket makes reads no
        cheaper.
        """
        outcome = await self._take(self._shared, (_requests_of(user),), tokens)
        return 0 if outcome is None or outcome.verdict.is_allowed else outcome.verdict.wait_ms

    async def connect(self, user: UserKey) -> int:
        """Charge a connection of a user; return 0, or the milliseconds to wait.

        The wait doubles with each consecutive refusal.
        """
        bucket = Bucket(
            "connects", user, limits.USER_CONNECTS_PER_SECOND, limits.USER_CONNECTS_BURST
        )
        outcome = await self._take(self._shared, (bucket,))
        if outcome is None or outcome.verdict.is_allowed:
            self._refused_connects.pop(user)
            return 0
        times = self._refused_connects.peek(user) or 0
        self._refused_connects.put(user, times + 1)
        return min(CONNECT_WAIT_MS_MAX, limits.SECOND_MS << min(times, 10))

    def handshake(self, address: str | None) -> int:
        """Charge a handshake of a socket; return 0, or the milliseconds to wait."""
        if address is not None:
            rate = limits.ADDRESS_CONNECTS_PER_SECOND, limits.ADDRESS_CONNECTS_BURST
            for own in _of_place("handshakes", address, *rate):
                if wait_ms := self._own.take_now(own):
                    self._count_refusal(own)
                    return wait_ms
        if wait_ms := self._own.take_now(_HANDSHAKES):
            self.refused += 1
            return max(wait_ms, HANDSHAKE_WAIT_MS_MAX)
        return 0

    def _count_refusal(self, bucket: Bucket) -> None:
        self.refused += 1
        # At debug level: otherwise a flood of requests would also flood the log.
        log.debug("rate limit exceeded", extra={"action": "rate_limited", "policy": bucket.policy})


_HANDSHAKES: Final = Bucket("handshakes", "", limits.HANDSHAKES_PER_SECOND, limits.HANDSHAKES_BURST)


def check(outcome: Outcome | None) -> None:
    """Raise the refusal for an outcome that is not allowed.

    Raises:
        RateLimited: A bucket was empty.
    """
    if outcome is None or outcome.verdict.is_allowed:
        return
    bucket, wait_ms = outcome.verdict.tightest, outcome.verdict.wait_ms
    raise RateLimited(
        f"{bucket.policy}: more than {bucket.burst} in {bucket.seconds} s", retry_after_ms=wait_ms
    )


def combine_outcomes(one: Outcome | None, other: Outcome | None) -> Outcome | None:
    """Combine two outcomes; the verdict is the refusal, or else the one with less left.

    A bucket that is in both is listed once.
    """
    if one is None or other is None:
        return one or other
    verdict = min(one.verdict, other.verdict, key=lambda each: (each.is_allowed, each.left))
    return Outcome(tuple(dict.fromkeys((*one.buckets, *other.buckets))), verdict)


def sends_of(user: UserKey) -> Bucket:
    """Return the bucket of a user's messages, over HTTP and over sockets."""
    return Bucket("messages", user, limits.USER_SENDS_PER_SECOND, limits.USER_SENDS_BURST)


def _requests_of(user: UserKey) -> Bucket:
    return Bucket("user", user, limits.USER_REQUESTS_PER_SECOND, limits.USER_REQUESTS_BURST)


def _of_caller(caller: Caller | None) -> tuple[Bucket, ...]:
    match caller:
        case UserCaller(user=user):
            return (_requests_of(user),)
        case TenantCaller(key_id=key_id):
            rate = limits.TENANT_KEY_REQUESTS_PER_SECOND, limits.TENANT_KEY_REQUESTS_BURST
            return (Bucket("tenant-key", key_id, *rate),)
        case _:
            return ()


def _of_address(address: str | None, kind: Kind | None) -> tuple[Bucket, ...]:
    if address is None:
        return ()
    rate = limits.ADDRESS_REQUESTS_PER_SECOND, limits.ADDRESS_REQUESTS_BURST
    common = _of_place("address", address, *rate)
    if kind != "login":
        return common
    login_rate = limits.ADDRESS_LOGINS_PER_SECOND, limits.ADDRESS_LOGINS_BURST
    return (*_of_place("login", address, *login_rate), *common)


def _of_place(policy: str, address: str, per_second: float, burst: int) -> tuple[Bucket, ...]:
    """Return the buckets of an address and, if it has one, of its larger network."""
    own = Bucket(policy, address, per_second, burst)
    site = site_of(address)
    if site is None:
        return (own,)
    times = limits.SITE_ADDRESSES
    return (own, Bucket(f"{policy}-48", site, times * per_second, times * burst))
