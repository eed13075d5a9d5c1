# SPDX-License-Identifier: Apache-2.0
"""Rate limits: whose buckets a request, a send or a connect takes from.

They are a fence against floods: nobody honest comes near them. What has to be exact is counted in
the store.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from tidings.actions.identity.caller import Caller, TenantCaller, UserCaller
from tidings.model import limits
from tidings.model.addresses import site_of
from tidings.model.ids import UserKey
from tidings.model.refusals import RateLimited
from tidings.ports.buckets import Bucket, Buckets, OwnBuckets, Verdict

log = logging.getLogger("tidings.limits")

Kind = Literal["login", "send"]
"""Requests that have a bucket of their own besides those that all take from."""

CONNECT_WAIT_MS_MAX: Final = 60 * limits.SECOND_MS
HASTY_USERS_MAX: Final = 10_000
HANDSHAKE_WAIT_MS_MAX: Final = 10 * limits.SECOND_MS
"""Over so long those who find too many at the door are spread."""


class Outcome(msgspec.Struct, frozen=True):
    """What a request was counted as, and how much is left."""

    buckets: tuple[Bucket, ...]
    verdict: Verdict


class RateLimits:
    """All rate limits of a process; those that other processes share are in `shared`."""

    def __init__(self, shared: Buckets, own: OwnBuckets) -> None:
        self.refused = 0
        """How many requests, sends and connects were too many."""
        self._shared = shared
        self._own = own
        self._hasty: OrderedDict[UserKey, int] = OrderedDict()
        """How often in a row a user came back too soon."""

    # Requests.

    async def arrival(self, address: str | None, kind: Kind | None) -> Outcome | None:
        """Count a request by where it comes from; None if nobody counts it.

        Asked before anything is looked up for the request, and answered by this process alone:
        what is refused here has cost nobody else anything.
        """
        return await self._take(self._own, _of_address(address, kind))

    async def request(
        self, caller: Caller | None, kind: Kind | None, tokens: int = 1
    ) -> Outcome | None:
        """Take what a request costs from who sent it; None if nobody counts it."""
        outcome = await self._take(self._shared, _of_caller(caller), tokens)
        is_refused = outcome is not None and not outcome.verdict.is_allowed
        if kind != "send" or not isinstance(caller, UserCaller) or is_refused:
            return outcome
        sends = await self._take(self._own, (sends_of(caller.user),))
        return together(sends, outcome)

    async def wrong_credentials(self, address: str | None) -> Outcome | None:
        """Count a request or a hello that could not say who sent it; None if nobody counts it."""
        if address is None:
            # Perhaps behind a proxy that nobody named. It only decides how wrong ones are answered,
            # so nobody is kept out by counting all of them as one.
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
            self._tell(verdict.tightest)
        return Outcome(tuple(buckets), verdict)

    # Sockets. What happens with every message is counted in this process: nobody waits.

    def send(self, bucket: Bucket) -> int:
        """Count a message; returns 0, or how many milliseconds to wait."""
        wait_ms = self._own.take_now(bucket)
        if wait_ms:
            self.refused += 1
        return wait_ms

    async def read(self, user: UserKey, tokens: int = 1) -> int:
        """Take what a read over the socket costs; returns 0, or how many milliseconds to wait.

        From the bucket of the user's requests: which way somebody asks makes it no cheaper.
        """
        outcome = await self._take(self._shared, (_requests_of(user),), tokens)
        return 0 if outcome is None or outcome.verdict.is_allowed else outcome.verdict.wait_ms

    async def connect(self, user: UserKey) -> int:
        """Count a connection of a user; returns 0, or how many milliseconds to wait.

        Who comes back too soon waits twice as long each time.
        """
        bucket = Bucket(
            "connects", user, limits.USER_CONNECTS_PER_SECOND, limits.USER_CONNECTS_BURST
        )
        outcome = await self._take(self._shared, (bucket,))
        if outcome is None or outcome.verdict.is_allowed:
            self._hasty.pop(user, None)
            return 0
        times = self._hasty.pop(user, 0)
        self._hasty[user] = times + 1
        if len(self._hasty) > HASTY_USERS_MAX:
            self._hasty.popitem(last=False)
        return min(CONNECT_WAIT_MS_MAX, limits.SECOND_MS << min(times, 10))

    def handshake(self, address: str | None) -> int:
        """Count a socket that is about to open; returns 0, or how many milliseconds to wait."""
        if address is not None:
            rate = limits.ADDRESS_CONNECTS_PER_SECOND, limits.ADDRESS_CONNECTS_BURST
            for own in _of_place("handshakes", address, *rate):
                if wait_ms := self._own.take_now(own):
                    self._tell(own)
                    return wait_ms
        if wait_ms := self._own.take_now(_HANDSHAKES):
            self.refused += 1
            return max(wait_ms, HANDSHAKE_WAIT_MS_MAX)
        return 0

    def _tell(self, bucket: Bucket) -> None:
        self.refused += 1
        # At debug: whoever floods would else fill the log, too.
        log.debug("too many", extra={"action": "rate_limited", "policy": bucket.policy})


_HANDSHAKES: Final = Bucket("handshakes", "", limits.HANDSHAKES_PER_SECOND, limits.HANDSHAKES_BURST)


def check(outcome: Outcome | None) -> None:
    """Refuse what is too much.

    Raises:
        RateLimited: A bucket was empty.
    """
    if outcome is None or outcome.verdict.is_allowed:
        return
    bucket, wait_ms = outcome.verdict.tightest, outcome.verdict.wait_ms
    raise RateLimited(
        f"{bucket.policy}: more than {bucket.burst} in {bucket.seconds} s", retry_after_ms=wait_ms
    )


def together(one: Outcome | None, other: Outcome | None) -> Outcome | None:
    """Both as one, with the verdict that refuses, else the one that has less left.

    A bucket that was taken from twice is told once.
    """
    if one is None or other is None:
        return one or other
    verdict = min(one.verdict, other.verdict, key=lambda each: (each.is_allowed, each.left))
    return Outcome(tuple(dict.fromkeys((*one.buckets, *other.buckets))), verdict)


def sends_of(user: UserKey) -> Bucket:
    """What a user's messages are counted in, whichever way they come to this process."""
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
    rarely = limits.ADDRESS_LOGINS_PER_SECOND, limits.ADDRESS_LOGINS_BURST
    return (*_of_place("login", address, *rarely), *common)


def _of_place(policy: str, address: str, per_second: float, burst: int) -> tuple[Bucket, ...]:
    """The bucket of an address, and of the larger network that it is in, if it is in one."""
    own = Bucket(policy, address, per_second, burst)
    site = site_of(address)
    if site is None:
        return (own,)
    times = limits.SITE_ADDRESSES
    return (own, Bucket(f"{policy}-48", site, times * per_second, times * burst))
