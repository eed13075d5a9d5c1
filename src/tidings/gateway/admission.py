# SPDX-License-Identifier: Apache-2.0
"""Admission of new sockets per address, and rate limits on the frames of one connection."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil

from tidings.actions.rate_limits import RateLimits, sends_of
from tidings.model import limits
from tidings.model.addresses import Networks, counted_address
from tidings.model.ids import UserKey
from tidings.model.refusals import RateLimited
from tidings.ports.buckets import Bucket


class Admission:
    """Limits new sockets per address. A socket is counted from the moment it opens."""

    def __init__(
        self,
        jitter_ms: Callable[[int], int],
        rate_limits: RateLimits | None = None,
        trusted_proxies: Networks = (),
    ) -> None:
        """Set up admission. Without rate limits every socket is admitted."""
        self._jitter_ms = jitter_ms
        self._limits = rate_limits
        self._trusted = trusted_proxies
        self._open: Counter[str] = Counter()
        """Number of open sockets per address."""

    def address(self, peer: str | None, forwarded: Sequence[str]) -> str | None:
        """Return the address under which a client is counted, or None if it is exempt."""
        return counted_address(peer, forwarded, self._trusted)

    def wait_seconds(self, address: str | None) -> int:
        """Count an attempt to open a socket; return 0 if it is admitted, else the seconds to wait.

        The wait is random: clients that are refused together would otherwise come back together.
        """
        if self._limits is None:
            return 0
        if address is not None and self._open[address] >= limits.ADDRESS_SOCKETS_MAX:
            wait_ms = limits.HELLO_MS_MAX
        else:
            wait_ms = self._limits.handshake(address)
        if not wait_ms:
            return 0
        return max(1, ceil(self._jitter_ms(wait_ms) / limits.SECOND_MS))

    def opened(self, address: str | None) -> None:
        """Count an opened socket."""
        if address is not None:
            self._open[address] += 1

    def closed(self, address: str | None) -> None:
        """Stop counting a closed socket."""
        if address is None:
            return
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


class ConnectionCharges:
    """Rate limits of one connection. It is closed if too many requests in a row are refused."""

    def __init__(self, rate_limits: RateLimits | None) -> None:
        self._limits = rate_limits
        self._sends: Bucket | None = None
        """Token bucket for the user's messages; None before the first message."""
        self._sends_refused = 0
        """Number of messages refused in a row."""
        self._reads_refused = 0
        """Number of reads refused in a row. Accepted messages do not reset it."""

    @property
    def is_leaving(self) -> bool:
        """Whether so many requests in a row were refused that the connection must be closed."""
        return (
            self._sends_refused >= limits.SENDS_REFUSED_MAX
            or self._reads_refused >= limits.SENDS_REFUSED_MAX
        )

    def send(self, user: UserKey) -> int:
        """Count a message; return 0 if it is accepted, else the milliseconds to wait."""
        if self._limits is None:
            return 0
        if self._sends is None:
            self._sends = sends_of(user)
        wait_ms = limits.SECOND_MS if self.is_leaving else self._limits.send(self._sends)
        self._sends_refused = self._sends_refused + 1 if wait_ms else 0
        return wait_ms

    async def read(self, user: UserKey, tokens: int = 1) -> None:
        """Charge the cost of a read to the token bucket for the user's requests.

        Raises:
            RateLimited: The bucket has fewer tokens than the read costs, or the connection is being
                closed.
        """
        if self._limits is None:
            return
        wait_ms = limits.SECOND_MS
        if not self.is_leaving:
            wait_ms = await self._limits.read(user, tokens)
        self._reads_refused = self._reads_refused + 1 if wait_ms else 0
        if wait_ms:
            raise RateLimited(retry_after_ms=wait_ms)
