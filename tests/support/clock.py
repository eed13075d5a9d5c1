# SPDX-License-Identifier: Apache-2.0
"""A clock for tests, which a test sets."""

from datetime import timedelta
from typing import Final

from tidings.model.ids import EPOCH

NOW: Final = 1_800_000_000_000


def next_year(time: int) -> int:
    """The same date and time a year later; not of 29 February."""
    at = EPOCH + timedelta(milliseconds=time)
    return (at.replace(year=at.year + 1) - EPOCH) // timedelta(milliseconds=1)


class ManualClock:
    """Clock whose time changes only when a test changes it."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> int:
        return self.time
