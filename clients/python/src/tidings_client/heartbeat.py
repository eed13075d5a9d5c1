# SPDX-License-Identifier: Apache-2.0
"""Check whether the server still answers. No I/O."""

from typing import Final, Literal

MISSED_PONGS_MAX: Final = 3
WELCOME_SECONDS_MAX: Final = 15.0
"""Time that the server may take to answer hello."""


class Heartbeat:
    """Schedules pings at the interval that the server requested, and counts missing answers."""

    def __init__(self, now: float) -> None:
        self._interval: float | None = None
        self._due = now + WELCOME_SECONDS_MAX
        self._unanswered = 0

    def welcomed(self, now: float, heartbeat_ms: int) -> None:
        """Set the interval that the server requested in `welcome`."""
        self._interval = heartbeat_ms / 1_000
        self._due = now + self._interval

    def pong(self) -> None:
        """Record that the server answered a ping."""
        self._unanswered = 0

    def tick(self, now: float) -> Literal["ping", "dead"] | None:
        """Return `ping` if a ping is due, `dead` if the server does not answer, else None."""
        if now < self._due:
            return None
        if self._interval is None or self._unanswered >= MISSED_PONGS_MAX:
            return "dead"
        self._due = now + self._interval
        self._unanswered += 1
        return "ping"
