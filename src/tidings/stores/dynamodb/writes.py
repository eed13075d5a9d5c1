# SPDX-License-Identifier: Apache-2.0
"""Expressions, and the writes a transaction is made of.

An expression names attributes as `#name`, whatever words DynamoDB reserves, and values as `:name`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from tidings.stores.dynamodb.trouble import Item
from tidings.stores.dynamodb.values import item_to_wire

Values = Mapping[str, Any]

_NAME: Final = re.compile(r"#(\w+)")


@dataclass(frozen=True, slots=True)
class Put:
    """Write a whole item."""

    table: str
    item: Item
    condition: str = ""
    values: Values = field(default_factory=dict)

    def to_wire(self, name: str) -> dict[str, Any]:
        return {"Put": {"TableName": name, "Item": item_to_wire(self.item), **_guarded(self)}}


@dataclass(frozen=True, slots=True)
class Update:
    """Change some attributes of an item."""

    table: str
    key: Item
    update: str
    condition: str = ""
    values: Values = field(default_factory=dict)

    def to_wire(self, name: str) -> dict[str, Any]:
        guarded = _guarded(self, self.update)
        return {"Update": {"TableName": name, "Key": item_to_wire(self.key), **guarded}}


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an item."""

    table: str
    key: Item
    condition: str = ""
    values: Values = field(default_factory=dict)

    def to_wire(self, name: str) -> dict[str, Any]:
        return {"Delete": {"TableName": name, "Key": item_to_wire(self.key), **_guarded(self)}}


Write = Put | Update | Delete


def _guarded(write: Write, update: str = "") -> dict[str, Any]:
    return expressions(write.values, condition=write.condition, update=update)


def expressions(
    values: Values | None,
    *,
    where: str = "",
    only: str = "",
    condition: str = "",
    update: str = "",
) -> dict[str, Any]:
    """The parts of a request that say what to look for, what must hold and what to change."""
    request: dict[str, Any] = {}
    if where:
        request["KeyConditionExpression"] = where
    if only:
        request["FilterExpression"] = only
    if condition:
        request["ConditionExpression"] = condition
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    if update:
        request["UpdateExpression"] = update
    if names := _names(f"{where} {only} {condition} {update}"):
        request["ExpressionAttributeNames"] = names
    if values:
        request["ExpressionAttributeValues"] = item_to_wire(values)
    return request


@lru_cache(maxsize=1_024)
def _names(expression: str) -> dict[str, str]:
    return {f"#{name}": name for name in _NAME.findall(expression)}
