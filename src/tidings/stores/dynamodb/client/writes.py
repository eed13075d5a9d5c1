# SPDX-License-Identifier: Apache-2.0
"""Expressions, and the writes a transaction is made of.

An expression names attributes as `#name`, whatever words DynamoDB reserves, and values as `:name`.
"""

import re
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from tidings.stores.dynamodb.client.errors import Item

Wire = dict[str, Any]
"""An attribute value as the API writes it: {"S": "text"}."""

_WRITERS: Final[dict[type, Callable[[Any], Wire]]] = {
    str: lambda value: {"S": value},
    int: lambda value: {"N": str(value)},
    bool: lambda value: {"BOOL": value},
    bytes: lambda value: {"B": value},  # the JSON encoder makes base64 of it
    type(None): lambda _: {"NULL": True},
    list: lambda value: {"L": [to_wire(one) for one in value]},
    dict: lambda value: {"M": item_to_wire(value)},
    frozenset: lambda value: {"NS": [str(one) for one in value]},
}
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "S": lambda value: value,
    "N": int,
    "BOOL": lambda value: value,
    "B": a2b_base64,
    "NULL": lambda _: None,
    "L": lambda value: [from_wire(one) for one in value],
    "M": lambda value: item_from_wire(value),
    "NS": lambda value: frozenset(map(int, value)),
}


def to_wire(value: Any) -> Wire:  # noqa: ANN401 - any of the plain values
    """A plain value as an attribute value."""
    return _WRITERS[type(value)](value)


def from_wire(wire: Wire) -> Any:  # noqa: ANN401
    """An attribute value as a plain value."""
    ((kind, value),) = wire.items()
    return _READERS[kind](value)


def item_to_wire(item: Mapping[str, Any]) -> dict[str, Wire]:
    """An item, or the values of an expression, attribute by attribute."""
    return {name: _WRITERS[type(value)](value) for name, value in item.items()}


def item_from_wire(wire: Mapping[str, Wire]) -> Item:
    """An item as it came from the store."""
    item = {}
    for name, value in wire.items():
        for kind, content in value.items():
            item[name] = content if kind == "S" else _READERS[kind](content)
    return item


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
