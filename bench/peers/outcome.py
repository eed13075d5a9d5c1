# SPDX-License-Identifier: Apache-2.0
"""What one run of one server came to, the same for ours and for the peer."""

import msgspec

from tidings.tools.load_runs import LOAD_BOUND, Latency


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """What the peer's archive should hold after a run, and what it holds."""

    expected: int
    found: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    who: str
    seconds: float
    sent: int
    """Messages that were done: ours are acknowledged as durable, the peer's delivered."""
    delivered: int
    """Copies that arrived at somebody."""
    missing: int
    """Copies that never arrived, long after the run."""
    latency: Latency
    cpu_seconds: dict[str, float]
    """What the server took, by program."""
    load_cpu: float
    """How much of a core the load took."""
    rows: Rows | None = None
    """None for ours, which acknowledges nothing that is not stored."""
    database: dict[str, str] = {}
    """What the peer's database said about its commits."""
    errors: int = 0
    """Errors in the peer's log."""
    others: float = 0.0
    """How many cores were taken by neither the server nor the load."""

    @property
    def sent_rate(self) -> float:
        """Messages in a second that were both done and delivered."""
        return min(self.sent, self.delivered) / self.seconds

    @property
    def delivered_rate(self) -> float:
        """Deliveries in a second."""
        return self.delivered / self.seconds

    @property
    def server_cpu(self) -> float:
        """How much of a core the server took, with its database."""
        return sum(self.cpu_seconds.values()) / self.seconds

    @property
    def faults(self) -> list[str]:
        """Why this run must not be quoted."""
        found = []
        if self.missing:
            found.append(f"{self.missing} deliveries MISSING")
        if self.rows is not None and self.rows.found != self.rows.expected:
            found.append(f"archive holds {self.rows.found} rows, not {self.rows.expected}")
        if self.errors:
            found.append(f"{self.errors} errors in the log")
        return found

    @property
    def remarks(self) -> str:
        """What has to be known to read the figures."""
        return ", ".join([*self.faults, *(["load-bound"] if self.load_cpu > LOAD_BOUND else [])])
