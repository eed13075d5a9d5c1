# SPDX-License-Identifier: Apache-2.0
"""What became of a run of a fleet, and whether enough happened for it to mean something."""

from dataclasses import dataclass

from tests.faults.many.fleet import Done
from tests.faults.verdict import Counts


@dataclass(frozen=True, slots=True)
class Enough:
    """How much has to happen. Less, and a run that broke nothing shows nothing."""

    acknowledged: int
    kills_in_flight: int
    reconnects_with_news: int
    kicks: int
    finished_events: int
    guest_told: int = 0
    pauses_felt: int = 0
    replayed_events: int = 0
    replayed_old: int = 0
    flushes: int = 0
    broker_restarts: int = 0
    restarts: int = 0
    store_faults: int = 0


@dataclass(slots=True)
class Report:
    """One run."""

    counts: Counts
    violations: list[str]
    done: Done
    kicks: int = 0
    guest_told: int = 0
    """Chats of which the guest heard something before the removal."""
    finished_events: int = 0
    """Events that workers finished."""
    pauses_felt: int = 0
    """Connections that were open before a pause and after it."""
    replayed_events: int = 0
    replayed_old: int = 0
    """Entries of the rounds that were too old for a push when their events were read again."""
    pushes: int = 0
    """Notices that workers and relay pushed before events were read again."""
    told_again: int = 0
    """Frames that came while events were read again."""

    def lacking(self, enough: Enough) -> list[str]:
        """What did not happen as often as it has to."""
        seen = {
            "acknowledged": self.counts.acknowledged,
            "kills_in_flight": self.counts.kills_in_flight,
            "reconnects_with_news": self.counts.reconnects_with_news,
            "restarts": len(self.done.restarted),
            "kicks": self.kicks,
            "guest_told": self.guest_told,
            "finished_events": self.finished_events,
            "pauses_felt": self.pauses_felt,
            "replayed_events": self.replayed_events,
            "replayed_old": self.replayed_old,
            "flushes": self.done.flushed,
            "broker_restarts": self.done.broker_restarts,
            "store_faults": self.done.store_faults,
        }
        return [
            f"{name}: {number}, not {getattr(enough, name)}"
            for name, number in seen.items()
            if number < getattr(enough, name)
        ]

    def outcome(self, enough: Enough) -> str:
        """valid, invalid or unknown."""
        if self.violations:
            return "invalid"
        return "unknown" if self.lacking(enough) else "valid"

    def __str__(self) -> str:
        lines = [
            str(self.counts),
            f"{self.done}; {self.pauses_felt} connections felt a pause",
            f"{self.kicks} members removed while others wrote, {self.guest_told} of them had heard"
            " something before; workers finished"
            f" {self.finished_events} events, and {self.replayed_events} again from the start,"
            f" {self.replayed_old} entries of such chats old by then; {self.pushes} pushes,"
            f" {self.told_again} frames while events were read again",
            *self.violations[:20],
        ]
        return "\n  ".join(lines)
