# SPDX-License-Identifier: Apache-2.0
"""Generates the tables of docs/reference/tables.md from the declarations."""

from collections.abc import Iterable
from typing import Final

from tidings.stores.dynamodb.client.access import READS
from tidings.stores.dynamodb.patterns import Pattern, declared
from tidings.stores.dynamodb.tables import PITR_DAYS, RANGES, TABLES, Index, Range, TableKey

BEGINS: Final = "<!-- generated: {} -->"
ENDS: Final = "<!-- end -->"


def filled_in(page: str) -> str:
    """Return the page with each generated part written anew."""
    parts = {"tables": _tables(), "ranges": _ranges(), "patterns": _patterns()}
    for name, part in parts.items():
        before, begins, rest = page.partition(BEGINS.format(name))
        _, ends, after = rest.partition(ENDS)
        assert begins and ends, f"the page must have the generated part: {name}"
        page = f"{before}{begins}\n{part}\n{ends}{after}"
    return page


def _tables() -> str:
    return _table(
        ("Table", "Key", "Index", "TTL", "Stream", "PITR", "Backups", "Contents"),
        (
            (
                f"`{table.name}`",
                _key(table.partition, table.sort),
                ", ".join(map(_index, table.indexes)),
                f"`{table.ttl}`" if table.ttl else "",
                "keys" if table.stream == "KEYS_ONLY" else table.stream or "",
                f"{PITR_DAYS} days" if table.pitr else "**off**",
                f"daily, {table.backup_days} days" if table.backup_days else "",
                table.holds,
            )
            for table in TABLES
        ),
    )


def _key(partition: TableKey, sort: TableKey | None) -> str:
    keys = [partition] if sort is None else [partition, sort]
    return ", ".join(f"`{key.name}`{' (N)' if key.type == 'N' else ''}" for key in keys)


def _index(index: Index) -> str:
    return f"`{index.name}`: {_key(index.partition, index.sort)}; {index.projection}"


def _ranges() -> str:
    return _table(
        ("Table", "Read units per second", "Write units per second"),
        (
            (f"`{name}`", _range(capacity.read), _range(capacity.write))
            for name, capacity in RANGES.items()
        ),
    )


def _range(units: Range) -> str:
    return f"{units.least:,} to {units.most:,}"


def _patterns() -> str:
    return _table(
        ("Access pattern", "Table", "Index", "Operation", "Consistency", "For"),
        (
            (
                f"`{pattern.name}`",
                ", ".join(f"`{table}`" for table in pattern.tables),
                f"`{pattern.index}`" if pattern.index else "",
                pattern.operation,
                _consistency(pattern),
                pattern.serves,
            )
            for pattern in sorted(declared(), key=_position)
        ),
    )


def _position(pattern: Pattern) -> tuple[bool, int]:
    """Return a sort key: patterns of operators last, the others by their first table."""
    names = [table.name for table in TABLES]
    return pattern.operation == "Scan", names.index(pattern.tables[0])


def _consistency(pattern: Pattern) -> str:
    if pattern.operation not in READS:
        return ""
    return "strong" if pattern.strong else "eventual"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(cell or "-" for cell in line) + " |" for line in lines)
