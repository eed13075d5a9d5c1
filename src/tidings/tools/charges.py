# SPDX-License-Identifier: Apache-2.0
"""DynamoDB's read and write units, the charges of a use case, and prices in dollars."""

import math
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, NamedTuple

from tidings.model.setup_error import SetupError

KIB: Final = 1_024
READ_BYTES: Final = 4 * KIB


class Units(NamedTuple):
    """Write units and read units, which DynamoDB bills."""

    write: float = 0.0
    read: float = 0.0

    def __add__(self, other: object) -> "Units":
        assert isinstance(other, Units)
        return Units(self.write + other.write, self.read + other.read)

    def times(self, count: float) -> "Units":
        """Return these units multiplied by a factor."""
        return Units(self.write * count, self.read * count)


NOTHING: Final = Units()


class Charge(NamedTuple):
    """Units that one access pattern uses in one table."""

    pattern: str
    table: str
    units: Units
    requests: float = 1
    """Number of requests. A transaction is one request: only its first table counts it, its other
    tables have 0."""


def write_units(size: int) -> int:
    """Return the units that it takes to write one item of this many bytes."""
    return max(1, math.ceil(size / KIB))


def strong_units(size: int) -> int:
    """Return the units for a strong read of this many bytes, by key or by query."""
    return max(1, math.ceil(size / READ_BYTES))


def relaxed_units(size: int) -> float:
    """Return the units for an eventually consistent read, which costs half of a strong read."""
    return strong_units(size) / 2


def total(charges: Iterable[Charge]) -> Units:
    """Add up the units of all charges."""
    return sum((charge.units for charge in charges), NOTHING)


def by_pattern(charges: Iterable[Charge]) -> dict[str, Units]:
    """Add up the units by access pattern."""
    found: dict[str, Units] = {}
    for charge in charges:
        found[charge.pattern] = found.get(charge.pattern, NOTHING) + charge.units
    return found


def by_table(charges: Iterable[Charge]) -> dict[str, Units]:
    """Add up the units by table."""
    found: dict[str, Units] = {}
    for charge in charges:
        found[charge.table] = found.get(charge.table, NOTHING) + charge.units
    return found


def requests_by_pattern(charges: Iterable[Charge]) -> dict[str, float]:
    """Add up the requests by access pattern."""
    found: dict[str, float] = {}
    for charge in charges:
        found[charge.pattern] = found.get(charge.pattern, 0) + charge.requests
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices in US dollars.

    The defaults are for us-east-1 and the standard table class; the free tier is not deducted.
    """

    region: str = "us-east-1"
    million_write_units: float = 0.625
    """Price per million write units on demand; the next field is for read units."""
    million_read_units: float = 0.125
    write_unit_hour: float = 0.00065
    """Price per provisioned write unit and hour; the next field is for read units."""
    read_unit_hour: float = 0.00013
    gigabyte_month: float = 0.25
    recovery_gigabyte_month: float = 0.20
    """Price of point-in-time recovery, which can restore any moment of the last 35 days."""
    backup_gigabyte_month: float = 0.10


def read_prices(path: Path) -> Prices:
    """Read prices from a file; a price that is not in the file keeps its default.

    Raises:
        SetupError: The file cannot be read, or contains something that is not a price.
    """
    try:
        given = tomllib.loads(path.read_text())
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SetupError(f"{path}: {error}") from error
    known = {field.name for field in fields(Prices)}
    for name, value in given.items():
        if name not in known:
            raise SetupError(f"{path}: {name} is unknown; known are {', '.join(sorted(known))}")
        is_right = isinstance(value, str) if name == "region" else _is_price(value)
        if not is_right:
            raise SetupError(f"{path}: {name} = {value!r} is not valid")
    return Prices(**given)


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
