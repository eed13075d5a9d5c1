# SPDX-License-Identifier: Apache-2.0
"""Ports for the clock, for randomness, and for the failpoints that tests set.

They are passed as arguments: no code below the assembly reads a clock or draws a random number.
"""

from typing import Final, Literal, Protocol

from tidings.model.ids import ulid


class Clock(Protocol):
    """Wall clock. It is used only for timestamps and expiry; no order depends on it."""

    def now(self) -> int:
        """Return the milliseconds since 1970."""
        ...


class Chance(Protocol):
    """Source of unpredictable random bytes."""

    def token(self, size: int) -> bytes:
        """Return this many random bytes."""
        ...


def new_ulid(clock: Clock, chance: Chance) -> str:
    """Return a new ULID."""
    return ulid(clock.now(), chance.token(10))


FailpointName = Literal["between_key_and_entry", "before_commit", "after_commit_before_answer"]

PLACES: Final[tuple[FailpointName, ...]] = (
    "between_key_and_entry",
    "before_commit",
    "after_commit_before_answer",
)


class Failpoints(Protocol):
    """Hooks that the code calls at named places, where a test may stop or delay the process."""

    def armed(self, name: FailpointName) -> bool:
        """Return True if a test has set this failpoint; the code may then use a slower path."""
        ...

    def reach(self, name: FailpointName) -> None:
        """Delay or stop the process if a test has set this failpoint; otherwise return at once."""
        ...


class NoFailpoints:
    """Failpoints of a production server, which never act."""

    def armed(self, name: FailpointName) -> bool:
        """Return False, because a production server sets no failpoints."""
        return False

    def reach(self, name: FailpointName) -> None:
        """Do nothing, because a production server sets no failpoints."""


_conforms: type[Failpoints] = NoFailpoints
