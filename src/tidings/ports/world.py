# SPDX-License-Identifier: Apache-2.0
"""Time and chance, as arguments: nothing below the assembly reads a clock or rolls a die."""

from typing import Protocol

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
