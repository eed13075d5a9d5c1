# SPDX-License-Identifier: Apache-2.0
"""IAM policies of each role, as values: exactly the operations that its access patterns declare.

A policy is for one kind of process; a process of two kinds gets both. The server's rights follow
from the access patterns that it uses. Only the operator who creates the tables may change them,
and nobody may delete a table or an entry of a log.
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
    """Actions that are allowed on some resources."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    """Tables without their prefix, or parts of them: `chats`, `messages/stream/*`."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Rights of one kind of process."""

    name: str
    says: str
    """Description in AWS. IAM cannot change it: another text replaces a deployed policy."""
    rights: tuple[Right, ...]


def policies() -> tuple[Policy, ...]:
    """Return all policies."""
    serving = [pattern for pattern in declared() if pattern.operation != "Scan"]
    scanning = [pattern for pattern in declared() if pattern.operation == "Scan"]
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
    """Yield one right for each table and index, so that none allows an action it does not need."""
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
