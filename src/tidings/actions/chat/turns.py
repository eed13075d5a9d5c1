# SPDX-License-Identifier: Apache-2.0
"""Turns of the processes that append to one busy chat.

The writer of the last entry is the first to know the next slot. Without turns, a busy process would
win nearly every slot, and the messages of the others would be refused. Therefore a process that
knows of others pauses after a few runs, and the others wait until then. They follow each other in
the order of their names.

The log itself shows who wrote the last runs, so no process has to tell the others anything. Turns
only save time. A process that knows nothing of them, or that waits too long or not long enough,
does no harm.
"""

from typing import Final

from tidings.model import limits

WRITER_CHARS: Final = 16
"""Length of a process's name, with which all its marks begin."""
TURN_RUNS: Final = 4
"""Number of runs after which a process pauses."""
STEP_REQUESTS: Final = 2
"""Time within which the next process must begin its turn, as a multiple of the time that a request
takes: it has to read the last run, and to write. After that, it is the turn of the process after
it."""
STEPS_MAX: Final = 4
REQUEST_SECONDS_MAX: Final = 0.1
RIVALS_MS: Final = 1 * limits.SECOND_MS
"""Time after which a process that appends nothing more is forgotten."""
_ADJACENT_REQUESTS: Final = 3
"""Maximum time between two runs of one turn, as a multiple of the time that a request takes."""
_CLOCK_MS: Final = 2
"""Error of the difference between two times of entries."""


class WriterTurn:
    """Computes how long this process waits before it appends to a chat that others append to too.

    A turn is a few runs of one process in a row. The process pauses after its own turn, so that
    others can append, and waits while another process has its turn.
    """

    __slots__ = (
        "_at", "_is_busy", "_request_seconds", "_runs", "_seen_at", "_writer", "rivals_until",
    )  # fmt: skip

    def __init__(self) -> None:
        self.rivals_until = 0
        """Time from which this process need not pause, unless it reads entries of others again."""
        self._writer = ""
        self._runs = 0
        self._at = 0
        self._is_busy = False
        """Whether messages wait for the writer, as far as the log shows this."""
        self._seen_at: dict[str, int] = {}
        self._request_seconds = 0.0
        """Mean duration of the last requests to the store."""

    def request_took(self, seconds: float) -> None:
        """Note how long a request to the store took. All waits are multiples of this time."""
        seconds, mean = min(seconds, REQUEST_SECONDS_MAX), self._request_seconds
        self._request_seconds = mean + (seconds - mean) / 4 if mean else seconds

    def note(self, mark: str, at: int, size: int) -> None:
        """Note the next run in the log: its writer's mark, its time, and its number of entries."""
        writer = mark[:WRITER_CHARS]
        between = at - self._at
        is_adjacent = between <= 1_000 * _ADJACENT_REQUESTS * self._request_seconds + _CLOCK_MS
        is_same_turn = writer == self._writer and is_adjacent
        self._writer, self._at, self._runs = writer, at, self._runs * is_same_turn + 1
        self._is_busy = size > 1 or self._runs > 1
        self._seen_at[writer] = at

    def is_over(self, own: str) -> bool:
        """Return True if the process `own` has appended as many runs in a row as a turn allows."""
        return self._runs >= TURN_RUNS and self._writer == own

    def pause_seconds(self, own: str) -> float:
        """Return how long the process `own` pauses after its turn; its next turn begins then."""
        self._runs = 0
        return STEP_REQUESTS * min(STEPS_MAX, len(self._ring(own))) * self._request_seconds

    def wait_seconds(self, own: str) -> float:
        """Return how long the process `own` waits for the turns of others; 0 if it is its turn."""
        if not self._is_busy:
            return 0.0
        ring = self._ring(own)
        place = (ring.index(own) - ring.index(self._writer)) % len(ring)
        steps = min(STEPS_MAX, max(0, place - 1))
        requests = max(0, TURN_RUNS - self._runs) + STEP_REQUESTS * steps
        return requests * self._request_seconds

    def _ring(self, own: str) -> list[str]:
        """Return the processes that write to the chat now, in the order of their turns."""
        seen_at, since = self._seen_at, self._at - RIVALS_MS
        self._seen_at = {writer: at for writer, at in seen_at.items() if at > since}
        return sorted({*self._seen_at, own})
