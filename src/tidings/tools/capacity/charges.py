# SPDX-License-Identifier: Apache-2.0
"""Units, and what they are charged for."""

import math
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
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


class PricesRefused(Exception):
    """A file of prices that cannot be used, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars, in us-east-1, for the standard table class; nothing free is taken off."""

    region: str = "us-east-1"
    million_write_units: float = 0.625
    """On demand, as is the next."""
    million_read_units: float = 0.125
    write_unit_hour: float = 0.00065
    """Provisioned, as is the next."""
    read_unit_hour: float = 0.00013
    gigabyte_month: float = 0.25
    recovery_gigabyte_month: float = 0.20
    """To go back to any moment of the last 35 days."""
    backup_gigabyte_month: float = 0.10


def read_prices(path: Path) -> Prices:
    """The prices in a file; what it leaves out is as built in.

    Raises:
        PricesRefused: It cannot be read, or says what is no price.
    """
    try:
        given = tomllib.loads(path.read_text())
    except OSError as error:
        raise PricesRefused(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PricesRefused(f"{path}: {error}") from error
    known = {field.name for field in fields(Prices)}
    for name, value in given.items():
        if name not in known:
            raise PricesRefused(f"{path}: {name} is no price; known are {', '.join(sorted(known))}")
        is_right = isinstance(value, str) if name == "region" else _is_price(value)
        if not is_right:
            raise PricesRefused(f"{path}: {name} = {value!r} cannot be right")
    return Prices(**given)


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
