# SPDX-License-Identifier: Apache-2.0
"""Whether the other side is still there. No I/O."""

from typing import Final, Literal

MISSED_PONGS_MAX: Final = 3
WELCOME_SECONDS_MAX: Final = 15.0
"""How long the server may take to answer hello."""


class Heartbeat:
    """Pings at the pace the server asked for, and counts those that were not answered."""

    def __init__(self, now: float) -> None:
        self._interval: float | None = None
        self._due = now + WELCOME_SECONDS_MAX
        self._unanswered = 0

    def welcomed(self, now: float, heartbeat_ms: int) -> None:
        """The server said how often it wants to hear from this client."""
        self._interval = heartbeat_ms / 1_000
        self._due = now + self._interval

    def pong(self) -> None:
        """The server answered."""
        self._unanswered = 0

    def tick(self, now: float) -> Literal["ping", "dead"] | None:
        """What to do by now."""
        if now < self._due:
            return None
        if self._interval is None or self._unanswered >= MISSED_PONGS_MAX:
            return "dead"
        self._due = now + self._interval
        self._unanswered += 1
        return "ping"
