# SPDX-License-Identifier: Apache-2.0
"""Units, and what they are charged for."""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

KIB: Final = 1_024
READ_BYTES: Final = 4 * KIB


class Units(NamedTuple):
    """What DynamoDB bills: write units and read units."""

    write: float = 0.0
    read: float = 0.0

    def __add__(self, other: object) -> "Units":
        assert isinstance(other, Units)
        return Units(self.write + other.write, self.read + other.read)

    def times(self, count: float) -> "Units":
        """So often the same."""
        return Units(self.write * count, self.read * count)


NOTHING: Final = Units()


class Charge(NamedTuple):
    """Units used in one table under one access pattern."""

    pattern: str
    table: str
    units: Units
    requests: float = 1
    """None for the further tables of a transaction: it is one request."""


def write_units(size: int) -> int:
    """What one item of so many bytes costs to write."""
    return max(1, math.ceil(size / KIB))


def strong_units(size: int) -> int:
    """What so many bytes cost to read strongly, as one item or as the sum of one query."""
    return max(1, math.ceil(size / READ_BYTES))


def relaxed_units(size: int) -> float:
    """What so many bytes cost to read when the last second may be missing: half as much."""
    return strong_units(size) / 2


def total(charges: Iterable[Charge]) -> Units:
    """All of it."""
    return sum((charge.units for charge in charges), NOTHING)


def by_pattern(charges: Iterable[Charge]) -> dict[str, Units]:
    """What each access pattern uses."""
    found: dict[str, Units] = {}
    for charge in charges:
        found[charge.pattern] = found.get(charge.pattern, NOTHING) + charge.units
    return found


def by_table(charges: Iterable[Charge]) -> dict[str, Units]:
    """What each table is charged."""
    found: dict[str, Units] = {}
    for charge in charges:
        found[charge.table] = found.get(charge.table, NOTHING) + charge.units
    return found


def requests_by_pattern(charges: Iterable[Charge]) -> dict[str, float]:
    """How often each access pattern is used."""
    found: dict[str, float] = {}
    for charge in charges:
        found[charge.pattern] = found.get(charge.pattern, 0) + charge.requests
    return found
