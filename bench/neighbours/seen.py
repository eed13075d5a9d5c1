# SPDX-License-Identifier: Apache-2.0
"""What the quiet neighbours notice, as their process tells it."""

import msgspec


class Seen(msgspec.Struct):
    """What the neighbours noticed."""

    messages_ms: list[float] = msgspec.field(default_factory=list)
    lists_ms: list[float] = msgspec.field(default_factory=list)
    unanswered: list[str] = msgspec.field(default_factory=list)
    """Requests and sends that were not taken, and why."""
    closed: int = 0
    """Sockets that the server closed."""

    def add(self, more: "Seen") -> None:
        """What somebody else noticed, or the same later on."""
        self.messages_ms += more.messages_ms
        self.lists_ms += more.lists_ms
        self.unanswered += more.unanswered
        self.closed += more.closed
