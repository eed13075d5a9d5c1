# SPDX-License-Identifier: Apache-2.0
"""Vigil: how long this process may write to sockets without having looked around.

A process that was stopped for a while and goes on in the middle of what it did does not know what
happened meanwhile: who was removed from a chat, whose access was revoked. So each write asks first.
"""

import math
from collections.abc import Callable
from time import monotonic

from tidings.wire.codes import Close


class Vigil:
    """Two times by which something has to be heard of again; by default there are none."""

    def __init__(
        self,
        *,
        pause_seconds_max: float = math.inf,
        blind_seconds_max: float = math.inf,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """The clock is asked for each time: a loop's own goes on only when the loop does."""
        self.is_blind = False
        """Whether revocations cannot be read: no new socket is let in, and nothing can be sent."""
        self.now = now
        self._pause_seconds_max = pause_seconds_max
        self._blind_seconds_max = blind_seconds_max
        self._awake_until = now() + pause_seconds_max
        self._sees_until = now() + blind_seconds_max
        self._until = min(self._awake_until, self._sees_until)
        self._held: dict[Callable[[], None], None] = {}
        """What waits for the next look, in order."""

    @property
    def was_away(self) -> bool:
        """Whether the process did not run for longer than it is remembered elsewhere."""
        return self.now() > self._awake_until

    @property
    def is_over(self) -> bool:
        """Whether nothing more may be written."""
        return self.now() > self._until

    def verdict(self) -> Close:
        """What sockets are closed with once it is over."""
        return Close.RESTARTING if self.was_away else Close.OVERLOADED

    def hold(self, write: Callable[[], None]) -> None:
        """Write later, once revocations were read again.

        Load alone may make a process late. Nothing is written until it has looked, and who is
        still allowed to be here is not sent away for it.
        """
        self._held[write] = None

    def beat(self) -> None:
        """The process is awake."""
        self._awake_until = self.now() + self._pause_seconds_max
        self._until = min(self._awake_until, self._sees_until)

    def saw(self, at: float) -> None:
        """It has read all revocations up to this moment of its clock."""
        self._sees_until = at + self._blind_seconds_max
        self._until = min(self._awake_until, self._sees_until)
        held, self._held = self._held, {}
        for write in held:
            write()
