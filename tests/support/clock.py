# SPDX-License-Identifier: Apache-2.0
"""A clock for tests, which a test sets."""

from typing import Final

NOW: Final = 1_800_000_000_000


class ManualClock:
    """Clock whose time changes only when a test changes it."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> int:
        return self.time
