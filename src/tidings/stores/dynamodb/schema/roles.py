# SPDX-License-Identifier: Apache-2.0
"""What each role may do, as values: exactly the operations that its access patterns declare.

A policy is for one kind of process; a process that is of two kinds gets both. What the server may
do follows from the patterns that serve. Nobody but the operator who makes the tables may change
them, and nobody may delete one. Entries of a log can be deleted by nobody either.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tidings.stores.dynamodb.patterns import Pattern, declared
from tidings.stores.dynamodb.tables import TABLES

_TABLE_ACTIONS: Final = (
    "CreateTable",
    "DescribeContinuousBackups",
    "DescribeTable",
    "DescribeTimeToLive",
    "UpdateContinuousBackups",
    "UpdateTable",
    "UpdateTimeToLive",
)


@dataclass(frozen=True, slots=True)
class Right:
    """Some actions on some resources."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    """Tables without their prefix, with what belongs to them: `chats`, `messages/stream/*`."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rights of one kind of process."""

    name: str
    says: str
    rights: tuple[Right, ...]


def policies() -> tuple[Policy, ...]:
    """All policies."""
    serving = [one for one in declared() if one.operation != "Scan"]
    scanning = [one for one in declared() if one.operation == "Scan"]
    streamed = tuple(table.name for table in TABLES if table.stream)
    names = tuple(table.name for table in TABLES)
    return (
        Policy("serve", "Every process that serves users.", tuple(_rights(serving))),
        Policy(
            "relay",
            "Whoever reads the streams; it serves as well.",
            (
                Right("FindStreams", _named(("DescribeTable",)), streamed),
                Right(
                    "ReadStreams",
                    _named(("DescribeStream", "GetRecords", "GetShardIterator")),
                    tuple(f"{name}/stream/*" for name in streamed),
                ),
            ),
        ),
        Policy(
            "operate",
            "Whoever rotates the master key, exports or imports; it serves as well.",
            tuple(_rights(scanning)),
        ),
        Policy(
            "schema",
            "Whoever makes and checks the tables; it cannot delete one.",
            (Right("ManageTables", _named(_TABLE_ACTIONS), names),),
        ),
    )


def _rights(patterns: Iterable[Pattern]) -> Iterator[Right]:
    """One right for each table and index, so that none has an action it does not need."""
    actions: defaultdict[str, set[str]] = defaultdict(set)
    for pattern in patterns:
        for table in pattern.tables:
            resource = f"{table}/index/{pattern.index}" if pattern.index else table
            actions[resource].update(_actions(pattern, table))
    for resource, some in sorted(actions.items()):
        words = resource.replace("/index/", "_").replace("-", "_").split("_")
        yield Right("".join(map(str.capitalize, words)), _named(sorted(some)), (resource,))


def _actions(pattern: Pattern, table: str) -> Iterator[str]:
    if pattern.operation != "TransactWriteItems":
        yield pattern.operation
        return
    yield from ("PutItem", "UpdateItem")
    if table in pattern.deletes:
        yield "DeleteItem"


def _named(actions: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"dynamodb:{action}" for action in actions)
