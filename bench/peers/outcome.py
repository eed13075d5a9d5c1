# SPDX-License-Identifier: Apache-2.0
"""The outcome of one run, in the same form for every server."""

from typing import Final

import msgspec

from tidings.tools.load_runs import LOAD_BOUND, Latency

PAIRS: Final = "1:1"
GROUP: Final = "group"


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Number of rows that a server's archive should have after its runs, and the number that it
    has."""

    expected: int
    found: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one run."""

    who: str
    seconds: float
    sent: int
    """Number of completed messages: answered or, by servers that do not answer, delivered."""
    delivered: int
    """Number of deliveries."""
    missing: int
    """Number of answers and deliveries that are missing long after the run, or too many."""
    latency: Latency
    cpu_seconds: dict[str, float]
    """CPU time of the server and its database, by program."""
    load_cpu: float
    """Share of a core that the load used."""
    kind: str = PAIRS
    shape: str = ""
    round: int = 0
    rows: Rows | None = None
    """Rows of all runs of a server; None except in the last one, and if an answer means that a
    message is stored."""
    database: dict[str, str] = {}
    """Settings of the server's database that decide whether a commit is durable."""
    errors: int = 0
    """Number of errors in the server's log."""
    others: float = 0.0
    """Number of cores that were used by neither the server nor the load."""

    @property
    def rate(self) -> float:
        """Messages per second that were completed and delivered; in a group, deliveries per
        second."""
        done = min(self.sent, self.delivered) if self.kind == PAIRS else self.delivered
        return done / self.seconds

    @property
    def server_cpu(self) -> float:
        """Share of a core that the server used, including its database."""
        return sum(self.cpu_seconds.values()) / self.seconds

    @property
    def cost_us(self) -> float:
        """CPU time of the server and its database per message or, in a group, per delivery."""
        return self.server_cpu / self.rate * 1e6 if self.rate else float("inf")

    @property
    def faults(self) -> list[str]:
        """Reasons why this run is not valid."""
        found = []
        if not self.rate:
            found.append(f"{self.kind}, {self.shape}: no message was completed")
        if self.missing:
            found.append(f"{self.missing} deliveries MISSING")
        if self.rows is not None and self.rows.found != self.rows.expected:
            found.append(f"archive holds {self.rows.found} rows, not {self.rows.expected}")
        if self.errors:
            found.append(f"{self.errors} errors in the log")
        return [f"{self.who}: {fault}" for fault in found]

    @property
    def remarks(self) -> str:
        """Remarks that a reader of the figures has to know."""
        return ", ".join([*self.faults, *(["load-bound"] if self.load_cpu > LOAD_BOUND else [])])
