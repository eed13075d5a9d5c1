# SPDX-License-Identifier: Apache-2.0
"""Time in tests: it moves when a test moves it."""

from typing import Final

NOW: Final = 1_800_000_000_000


class ManualClock:
    """Time moves when a test moves it."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> int:
        return self.time
