# SPDX-License-Identifier: Apache-2.0
"""The outcome of one run, in the same form for our server and for the other."""

import msgspec

from tidings.tools.load_runs import LOAD_BOUND, Latency


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Number of rows that the other server's archive should have after a run, and the number that
    it has."""

    expected: int
    found: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one run."""

    who: str
    seconds: float
    sent: int
    """Number of completed messages: acknowledged as durable by our server, or delivered by the
    other."""
    delivered: int
    """Number of deliveries."""
    missing: int
    """Number of deliveries that are missing long after the run."""
    latency: Latency
    cpu_seconds: dict[str, float]
    """CPU time of the server, by program."""
    load_cpu: float
    """Share of a core that the load used."""
    rows: Rows | None = None
    """None for our server, which acknowledges only messages that are stored."""
    database: dict[str, str] = {}
    """Settings of the other server's database that decide whether a commit is durable."""
    errors: int = 0
    """Number of errors in the other server's log."""
    others: float = 0.0
    """Number of cores that were used by neither the server nor the load."""

    @property
    def sent_rate(self) -> float:
        """Messages per second that were completed and delivered."""
        return min(self.sent, self.delivered) / self.seconds

    @property
    def delivered_rate(self) -> float:
        """Deliveries per second."""
        return self.delivered / self.seconds

    @property
    def server_cpu(self) -> float:
        """Share of a core that the server used, including its database."""
        return sum(self.cpu_seconds.values()) / self.seconds

    @property
    def faults(self) -> list[str]:
        """Reasons why this run is not valid."""
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
        """Remarks that a reader of the figures has to know."""
        return ", ".join([*self.faults, *(["load-bound"] if self.load_cpu > LOAD_BOUND else [])])
