# SPDX-License-Identifier: Apache-2.0
"""The entrance: how many sockets an address may open, and how many at once may open one at all."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil

from tidings.actions.identity.rate_limits import RateLimits, sends_of
from tidings.model import limits
from tidings.model.addresses import Networks, counted_address
from tidings.model.ids import UserKey
from tidings.model.refusals import RateLimited
from tidings.ports.buckets import Bucket


class Admission:
    """Counts sockets by address from the moment they open, whether or not they say hello."""

    def __init__(
        self,
        jitter_ms: Callable[[int], int],
        rate_limits: RateLimits | None = None,
        trusted_proxies: Networks = (),
    ) -> None:
        """Without rate limits everyone may come in."""
        self._jitter_ms = jitter_ms
        self._limits = rate_limits
        self._trusted = trusted_proxies
        self._open: Counter[str] = Counter()
        """How many sockets each address has."""

    def address(self, peer: str | None, forwarded: Sequence[str]) -> str | None:
        """As whom a client is counted; None if it is not."""
        return counted_address(peer, forwarded, self._trusted)

    def wait_seconds(self, address: str | None) -> int:
        """Count one who wants to come in; returns 0, or after how many seconds to ask again.

        Not the same for all: those who are sent away together would come back together.
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
        """A socket is there."""
        if address is not None:
            self._open[address] += 1

    def closed(self, address: str | None) -> None:
        """It is gone."""
        if address is None:
            return
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


class ConnectionCharges:
    """Counts for one connection. Who does not stop when refused has to go."""

    def __init__(self, rate_limits: RateLimits | None) -> None:
        self._limits = rate_limits
        self._sends: Bucket | None = None
        """What its messages are counted in; there once it has sent one."""
        self._sends_refused = 0
        """How many in a row were too many."""
        self._reads_refused = 0
        """Likewise, of reads: messages that are taken meanwhile do not excuse them."""

    @property
    def is_leaving(self) -> bool:
        """Whether so many in a row were refused that the connection is about to be closed."""
        return (
            self._sends_refused >= limits.SENDS_REFUSED_MAX
            or self._reads_refused >= limits.SENDS_REFUSED_MAX
        )

    def send(self, user: UserKey) -> int:
        """Count a message; returns 0, or how many milliseconds to wait."""
        if self._limits is None:
            return 0
        if self._sends is None:
            self._sends = sends_of(user)
        wait_ms = limits.SECOND_MS if self.is_leaving else self._limits.send(self._sends)
        self._sends_refused = self._sends_refused + 1 if wait_ms else 0
        return wait_ms

    async def read(self, user: UserKey, tokens: int = 1) -> None:
        """Take what a read of the store costs, from the bucket of the user's requests.

        Raises:
            RateLimited: There is not as much in it.
        """
        if self._limits is None:
            return
        wait_ms = limits.SECOND_MS
        if not self.is_leaving:
            wait_ms = await self._limits.read(user, tokens)
        self._reads_refused = self._reads_refused + 1 if wait_ms else 0
        if wait_ms:
            raise RateLimited(retry_after_ms=wait_ms)
