# SPDX-License-Identifier: Apache-2.0
"""The entrance: how many sockets an address may open, and how many at once may open one at all."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil

from tidings.actions.rate_limits import RateLimits
from tidings.model import limits
from tidings.model.addresses import Networks, counted_address


class Entrance:
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
