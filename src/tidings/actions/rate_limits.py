# SPDX-License-Identifier: Apache-2.0
"""Rate limits: the cost of each request, and the token buckets that it is charged to.

The limits protect against floods; ordinary clients stay far below them. Limits that must be exact
are counted in the store instead. The numbers are in `model.limits`.

A plain request costs one token. A request that causes n times the work of a plain request costs
about n tokens. A bucket therefore bounds the work of a user, not only the number of requests.
"""

import logging
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from tidings.actions.identity.caller import Caller, TenantCaller, UserCaller
from tidings.caches import LruCache
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.addresses import site_of
from tidings.model.ids import UserKey
from tidings.model.refusals import RateLimited
from tidings.ports.sessions import Bucket, Buckets, OwnBuckets, Verdict

log = logging.getLogger("tidings.limits")

Kind = Literal["login", "send"]
"""Kinds of requests that are also charged to a second bucket."""

CONNECT_WAIT_MS_MAX: Final = 60 * limits.SECOND_MS
HASTY_USERS_MAX: Final = 10_000
HANDSHAKE_WAIT_MS_MAX: Final = 10 * limits.SECOND_MS
"""Maximum wait that is sent to a client whose handshake exceeds the limit of the process. The wait
is random, so that refused clients do not return together."""
_HANDSHAKES: Final = Bucket("handshakes", "", limits.HANDSHAKES_PER_SECOND, limits.HANDSHAKES_BURST)


def page_cost(rows: int) -> int:
    """Return the cost of reading a page of a log or an inbox with this many rows."""
    return _portions(rows, limits.PAGE_ROWS_PER_TOKEN)


def chat_list_cost(rows: int) -> int:
    """Return the cost of reading a page of the chat list.

    Its rows are expensive: each has a preview, members and an unread count.
    """
    return _portions(rows, limits.CHAT_LIST_ROWS_PER_TOKEN)


def receipts_cost(rows: int) -> int:
    """Return the cost of listing who read a message, which may read all receipts of a chat."""
    return _portions(rows, limits.RECEIPTS_PER_TOKEN)


def group_cost(members: int) -> int:
    """Return the cost of a new chat, which needs several writes per member."""
    return _portions(members, limits.GROUP_MEMBERS_PER_TOKEN)


WEBHOOK_COST: Final = 20
"""Tokens that a request costs if it makes the server post to a webhook endpoint, or replay many
events."""
PULL_COST: Final = 5
"""Tokens that a request for the events of an endpoint costs, which reads up to 100 entries."""
EXPORT_COST: Final = 20
"""Tokens that the export of a person costs, because it reads all chats of the person."""


def look_up_cost(names: int) -> int:
    """Return the cost of a request that looks up or marks several items one by one."""
    return _portions(names, limits.LOOK_UPS_PER_TOKEN)


def leave_cost(chats: int) -> int:
    """Return the cost of leaving several chats, each of which costs as much as a plain request."""
    return max(1, chats)


def post_cost(users: int | None) -> int:
    """Return the cost of posting a notification: one token per delivery job.

    `users` is None for a broadcast, which has a fixed cost.
    """
    return limits.BROADCAST_TOKENS if users is None else _portions(users, limits.JOB_USERS_MAX)


def _portions(count: int, size: int) -> int:
    return max(1, -(-count // size))


class Outcome(msgspec.Struct, frozen=True):
    """The buckets that a request was charged to, and their verdict."""

    buckets: tuple[Bucket, ...]
    verdict: Verdict


class RateLimits:
    """Applies all rate limits of a process.

    All processes share the buckets in `shared`; each process has its own buckets in `own`.
    """

    def __init__(self, shared: Buckets, own: OwnBuckets) -> None:
        self.refused = 0
        """Number of refused requests, sends and connects."""
        self._shared = shared
        self._own = own
        self._refused_connects: LruCache[UserKey, int] = LruCache(HASTY_USERS_MAX)
        """Number of consecutive refused connects, by user."""

    # Requests.

    async def arrival(self, address: str | None, kind: Kind | None) -> Outcome | None:
        """Charge a request to the address of its client; return None if the address is unknown.

        This runs before anything is read for the request, and uses only buckets in this process. A
        request that is refused here therefore costs no other process anything.
        """
        return await self._take(self._own, _of_address(address, kind))

    async def request(
        self, caller: Caller | None, kind: Kind | None, tokens: int = 1
    ) -> Outcome | None:
        """Charge the cost of a request to its caller; return None if the caller has no bucket."""
        outcome = await self._take(self._shared, _of_caller(caller), tokens)
        is_refused = outcome is not None and not outcome.verdict.is_allowed
        if kind != "send" or not isinstance(caller, UserCaller) or is_refused:
            return outcome
        sends = await self._take(self._own, (sends_of(caller.user),))
        return combine_outcomes(sends, outcome)

    async def wrong_credentials(self, address: str | None) -> Outcome | None:
        """Charge invalid credentials, in a request or in `hello`, to the address of the client."""
        if address is None:
            # The client may be behind a proxy that is not configured. All such clients share one
            # bucket, which locks nobody out: it only affects answers to invalid credentials.
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

    # Sockets. Messages are charged in this process, so that no message waits for another process.

    def send(self, bucket: Bucket) -> int:
        """Charge a message; return the milliseconds to wait, or 0 if the message is allowed."""
        wait_ms = self._own.take_now(bucket)
        if wait_ms:
            self._count(bucket)
        return wait_ms

    async def read(self, user: UserKey, tokens: int = 1) -> int:
        """Charge a read over the socket; return the milliseconds to wait, or 0 if it is allowed.

        The read is charged to the bucket of the user's HTTP requests, so that reads over a socket
        are not cheaper.
        """
        outcome = await self._take(self._shared, (_requests_of(user),), tokens)
        return 0 if outcome is None or outcome.verdict.is_allowed else outcome.verdict.wait_ms

    async def connect(self, user: UserKey) -> int:
        """Charge a new connection of a user; return the milliseconds to wait, or 0 if allowed.

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
        """Charge the handshake of a socket; return the milliseconds to wait, or 0 if allowed."""
        if address is not None:
            rate = limits.ADDRESS_CONNECTS_PER_SECOND, limits.ADDRESS_CONNECTS_BURST
            for own in _of_place("handshakes", address, *rate):
                if wait_ms := self._own.take_now(own):
                    self._count_refusal(own)
                    return wait_ms
        if wait_ms := self._own.take_now(_HANDSHAKES):
            self._count(_HANDSHAKES)
            return max(wait_ms, HANDSHAKE_WAIT_MS_MAX)
        return 0

    def _count(self, bucket: Bucket) -> None:
        self.refused += 1
        declared.rate_limited.counts[bucket.policy] += 1

    def _count_refusal(self, bucket: Bucket) -> None:
        self._count(bucket)
        # At debug level: otherwise a flood of requests would also flood the log.
        log.debug("rate limit exceeded", extra={"action": "rate_limited", "policy": bucket.policy})


def check(outcome: Outcome | None) -> None:
    """Refuse a request whose outcome is not allowed.

    Raises:
        RateLimited: A bucket had too few tokens.
    """
    if outcome is None or outcome.verdict.is_allowed:
        return
    bucket, wait_ms = outcome.verdict.tightest, outcome.verdict.wait_ms
    raise RateLimited(
        f"{bucket.policy}: more than {bucket.burst} in {bucket.seconds} s", retry_after_ms=wait_ms
    )


def combine_outcomes(one: Outcome | None, other: Outcome | None) -> Outcome | None:
    """Combine two outcomes of the same request.

    The combined verdict is the refusal, if there is one, else the verdict with fewer tokens left. A
    bucket that is in both outcomes is listed once.
    """
    if one is None or other is None:
        return one or other
    verdict = min(one.verdict, other.verdict, key=lambda each: (each.is_allowed, each.left))
    return Outcome(tuple(dict.fromkeys((*one.buckets, *other.buckets))), verdict)


def sends_of(user: UserKey) -> Bucket:
    """Return the bucket that a user's messages are charged to, over HTTP and over sockets."""
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
    """Return the bucket of an address and, for IPv6, the bucket of its /48 network."""
    own = Bucket(policy, address, per_second, burst)
    site = site_of(address)
    if site is None:
        return (own,)
    times = limits.SITE_ADDRESSES
    return (own, Bucket(f"{policy}-48", site, times * per_second, times * burst))
