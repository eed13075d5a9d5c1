# SPDX-License-Identifier: Apache-2.0
"""The measurements of the quiet neighbours, as their process reports them."""

import msgspec


class Seen(msgspec.Struct):
    """Measurements of the neighbours."""

    messages_ms: list[float] = msgspec.field(default_factory=list)
    lists_ms: list[float] = msgspec.field(default_factory=list)
    unanswered: list[str] = msgspec.field(default_factory=list)
    """Requests and sends that failed, with the reasons."""
    closed: int = 0
    """Number of sockets that the server closed."""

    def add(self, more: "Seen") -> None:
        """Add other measurements to these."""
        self.messages_ms += more.messages_ms
        self.lists_ms += more.lists_ms
        self.unanswered += more.unanswered
        self.closed += more.closed
