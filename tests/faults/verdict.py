# SPDX-License-Identifier: Apache-2.0
"""What became of a run, and how much happened in it, without which the former says little."""

from dataclasses import dataclass
from typing import Final, Literal

from tests.faults.history import History

ACKNOWLEDGED_MIN: Final = 1_000
KILLS_IN_FLIGHT_MIN: Final = 20
RECONNECTS_WITH_NEWS_MIN: Final = 50
LIARS_CATCH_UP_SECONDS: Final = 1.0
"""A server that lost what it had promised never gets devices to where they were: none waits."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much happened."""

    acknowledged: int
    refused: int
    unknown: int
    repeated: int
    kills: int
    kills_in_flight: int
    reconnects: int
    reconnects_with_news: int

    @property
    def is_enough(self) -> bool:
        """Whether so much happened that breaking nothing means something."""
        return (
            self.acknowledged >= ACKNOWLEDGED_MIN
            and self.kills_in_flight >= KILLS_IN_FLIGHT_MIN
            and self.reconnects_with_news >= RECONNECTS_WITH_NEWS_MIN
        )

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} sends acknowledged, {self.refused} refused,"
            f" {self.unknown} left open, {self.repeated} repeated;"
            f" {self.kills} crashes, {self.kills_in_flight} of them hit a send in flight;"
            f" {self.reconnects} reconnects, {self.reconnects_with_news} of them had missed entries"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a run."""

    outcome: Literal["valid", "invalid", "unknown"]
    violations: list[str]
    counts: Counts

    def __str__(self) -> str:
        shown = [f"  {violation}" for violation in self.violations[:20]]
        return "\n".join([f"{self.outcome}: {self.counts}", *shown])


def count(history: History) -> Counts:
    """Count what happened."""
    attempts = history.attempts
    acknowledged = [a.body for a in attempts if a.outcome == "ok"]
    lost = [a for a in attempts if a.outcome == "info"]
    return Counts(
        acknowledged=len(set(acknowledged)),
        refused=sum(a.outcome == "fail" for a in attempts),
        unknown=len(lost),
        repeated=len(acknowledged) - len(set(acknowledged)),
        kills=len(history.kills),
        kills_in_flight=sum(any(a.invoked < t < a.ended for a in lost) for t in history.kills),
        reconnects=len(history.reconnects),
        reconnects_with_news=sum(missed > 0 for missed in history.reconnects),
    )
