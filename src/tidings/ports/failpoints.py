# SPDX-License-Identifier: Apache-2.0
"""Named places where a test may stop the world: the pauses that models found to matter.

An operator can set `TIDINGS_FAILPOINTS=name:n` to have the process die at the n-th visit to one
of them, which is how the crash matrix is walked on the real server.
"""

from typing import Final, Literal, Protocol

Place = Literal["between_key_and_entry", "before_commit", "after_commit_before_answer"]

PLACES: Final[tuple[Place, ...]] = (
    "between_key_and_entry",
    "before_commit",
    "after_commit_before_answer",
)


class Failpoints(Protocol):
    """Told of every visit to a place."""

    def armed(self, place: Place) -> bool:
        """Whether anything would happen there: code may take a slower, more visible way."""
        ...

    def reach(self, place: Place) -> None:
        """Pass the place, or never return, or return late."""
        ...


class NoFailpoints:
    """The usual case: every place is passed."""

    def armed(self, place: Place) -> bool:
        """Nothing is armed."""
        return False

    def reach(self, place: Place) -> None:
        """Pass."""


_conforms: type[Failpoints] = NoFailpoints
