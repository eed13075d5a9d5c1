# SPDX-License-Identifier: Apache-2.0
"""DynamoDB's read and write units, the charges a use case adds up, and prices in dollars."""

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
    """Write units and read units, the two things that DynamoDB bills."""

    write: float = 0.0
    read: float = 0.0

    def __add__(self, other: object) -> "Units":
        assert isinstance(other, Units)
        return Units(self.write + other.write, self.read + other.read)

    def times(self, count: float) -> "Units":
        """Multiply by a factor."""
        return Units(self.write * count, self.read * count)


NOTHING: Final = Units()


class Charge(NamedTuple):
    """Units used in one table under one access pattern."""

    pattern: str
    table: str
    units: Units
    requests: float = 1
    """Zero for the further tables of a transaction, which is one request."""


def write_units(size: int) -> int:
    """Return the units to write one item of this many bytes."""
    return max(1, math.ceil(size / KIB))


def strong_units(size: int) -> int:
    """Return the units of a strongly consistent read, of one item or of all items of a query."""
    return max(1, math.ceil(size / READ_BYTES))


def relaxed_units(size: int) -> float:
    """Return the units of a read that may miss the last second: half of a strong read."""
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
    """Prices in US dollars: us-east-1, standard table class, free tier not deducted."""

    region: str = "us-east-1"
    million_write_units: float = 0.625
    """On demand, as the next field."""
    million_read_units: float = 0.125
    write_unit_hour: float = 0.00065
    """Provisioned, as the next field."""
    read_unit_hour: float = 0.00013
    gigabyte_month: float = 0.25
    recovery_gigabyte_month: float = 0.20
    """Point-in-time recovery: a restore to any moment of the last 35 days."""
    backup_gigabyte_month: float = 0.10


def read_prices(path: Path) -> Prices:
    """Read prices from a file; a price that it leaves out keeps its default.

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
