# SPDX-License-Identifier: Apache-2.0
"""The marks of a user in an inbox, on DynamoDB: up to where everything is seen, read or archived.

All marks of a user in an inbox are in one item. Each is a time for copies and a sequence for
broadcasts, which only move forward.
"""

from typing import Final, NamedTuple

from tidings.model.notification_states import StateKind
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.inbox.inbox_patterns import MOVE_MARKS


class _MarkNames(NamedTuple):
    """Names of the two attributes of a mark."""

    before: str
    announced: str


MARK_NAMES: Final[dict[StateKind, _MarkNames]] = {
    "seen": _MarkNames("seen_before", "seen_announced"),
    "read": _MarkNames("before", "announced"),
    "archived": _MarkNames("archived_before", "archived_announced"),
}


async def move_mark(dynamo: Dynamo, key: Item, kind: StateKind, time: int, announced: int) -> Item:
    """Move a mark forward, unless it is already there or further on; return the item afterwards.

    `time` is the mark for copies, and `announced` the mark for broadcasts.
    """
    names = MARK_NAMES[kind]
    parts = {names.before: (":time", time), names.announced: (":announced", announced)}
    try:
        return await _move(dynamo, key, parts)
    except ConditionFailed as failed:
        stored = failed.item or {}
    for name, (value, number) in parts.items():
        if stored.get(name, 0) < number:
            try:
                return await _move(dynamo, key, {name: (value, number)})
            except ConditionFailed as failed:
                return failed.item or {}
    return stored


async def _move(dynamo: Dynamo, key: Item, parts: dict[str, tuple[str, int]]) -> Item:
    update = ", ".join(f"#{name} = {value}" for name, (value, _) in parts.items())
    condition = " AND ".join(
        f"(attribute_not_exists(#{name}) OR #{name} <= {value})"
        for name, (value, _) in parts.items()
    )
    values = dict(parts.values())
    return await dynamo.update(MOVE_MARKS, key, f"SET {update}", condition, values)
