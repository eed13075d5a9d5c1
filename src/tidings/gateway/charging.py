# SPDX-License-Identifier: Apache-2.0
"""What one connection takes from the buckets of its user: messages, and reads of the store."""

from tidings.actions.rate_limits import RateLimits, sends_of
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.refusals import RateLimited
from tidings.ports.buckets import Bucket


class Charges:
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
