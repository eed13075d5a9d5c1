# SPDX-License-Identifier: Apache-2.0
"""Time and chance, as arguments: nothing below the assembly reads a clock or rolls a die."""

from typing import Final, Literal, Protocol

from tidings.model.ids import ulid


class Clock(Protocol):
    """Wall time. Labels and expiry only: no order depends on it."""

    def now(self) -> int:
        """Milliseconds since 1970."""
        ...


class Chance(Protocol):
    """Randomness that nobody can guess."""

    def token(self, size: int) -> bytes:
        """Random bytes."""
        ...


def new_ulid(clock: Clock, chance: Chance) -> str:
    """A fresh ULID."""
    return ulid(clock.now(), chance.token(10))


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
