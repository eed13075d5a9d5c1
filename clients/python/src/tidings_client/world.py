# SPDX-License-Identifier: Apache-2.0
"""Sources of time and randomness for a client; tests use their own."""

import random
import secrets
import time
from typing import Protocol


class World(Protocol):
    """Time and randomness, which a client gets from its environment."""

    def wall(self) -> float:
        """Return the time in seconds since 1970."""
        ...

    def jitter(self, least: float, most: float) -> float:
        """Return a random number between two numbers."""
        ...

    def new_id(self) -> str:
        """Return an id that is unique everywhere and forever."""
        ...


class SystemWorld:
    """Time and randomness from the system."""

    def wall(self) -> float:
        """Return the time of this machine's clock, in seconds since 1970."""
        return time.time_ns() / 1_000_000_000

    def jitter(self, least: float, most: float) -> float:
        """Return a random number that spreads load; it is not suitable for secrets."""
        return random.uniform(least, most)

    def new_id(self) -> str:
        """Return 128 random bits in hex."""
        return secrets.token_hex(16)


_conforms: type[World] = SystemWorld
