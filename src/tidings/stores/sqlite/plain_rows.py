# SPDX-License-Identifier: Apache-2.0
"""Rows of tables whose columns are the fields of a noun."""

from typing import Any, TypeVar

import apsw
import msgspec

_T = TypeVar("_T", bound=msgspec.Struct)


def columns(kind: type[msgspec.Struct]) -> str:
    """The columns, in the order of the fields."""
    return ", ".join(kind.__struct_fields__)


def insert_once(table: str, kind: type[msgspec.Struct]) -> str:
    """The statement that keeps one unless it is there."""
    places = ", ".join("?" * len(kind.__struct_fields__))
    return f"INSERT OR IGNORE INTO {table} ({columns(kind)}) VALUES ({places})"


def insert(db: apsw.Connection, table: str, noun: msgspec.Struct, *, replace: bool = False) -> None:
    """Keep one, within a transaction; one with the same key is in the way, or is replaced."""
    kind, verb = type(noun), "INSERT OR REPLACE" if replace else "INSERT"
    places = ", ".join("?" * len(kind.__struct_fields__))
    db.execute(
        f"{verb} INTO {table} ({columns(kind)}) VALUES ({places})", msgspec.structs.astuple(noun)
    )


def from_row(kind: type[_T], row: tuple[Any, ...]) -> _T:
    """The noun of a row selected with its columns."""
    return kind(**dict(zip(kind.__struct_fields__, row, strict=True)))
