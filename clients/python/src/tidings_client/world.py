# SPDX-License-Identifier: Apache-2.0
"""The world around a client: the clock on the wall and chance. Tests bring their own."""

import random
import secrets
import time
from typing import Protocol


class World(Protocol):
    """What a client cannot compute."""

    def wall(self) -> float:
        """Seconds since 1970."""
        ...

    def jitter(self, least: float, most: float) -> float:
        """A random number between two."""
        ...

    def new_id(self) -> str:
        """An id that nobody else will ever make."""
        ...


class SystemWorld:
    """The real one."""

    def wall(self) -> float:
        """By this machine's clock."""
        return time.time_ns() / 1_000_000_000

    def jitter(self, least: float, most: float) -> float:
        """For spreading, not for secrets."""
        return random.uniform(least, most)

    def new_id(self) -> str:
        """128 random bits."""
        return secrets.token_hex(16)


_conforms: type[World] = SystemWorld
