# SPDX-License-Identifier: Apache-2.0
"""What a region charges. Prices change: they are an input, with those of one region built in."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path


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
