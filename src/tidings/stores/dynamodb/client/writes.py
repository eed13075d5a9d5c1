# SPDX-License-Identifier: Apache-2.0
"""Converts values to the wire format, and builds expressions and the writes in a transaction.

Expressions name values as `:name` and attributes as `#name`. The `#` is necessary because DynamoDB
reserves some names.
"""

import re
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from tidings.stores.dynamodb.client.retrying import Item

Wire = dict[str, Any]
"""An attribute value in the API's format, such as {"S": "text"}."""

_WRITERS: Final[dict[type, Callable[[Any], Wire]]] = {
    str: lambda value: {"S": value},
    int: lambda value: {"N": str(value)},
    bool: lambda value: {"BOOL": value},
    bytes: lambda value: {"B": value},  # the JSON encoder converts it to base64
    type(None): lambda _: {"NULL": True},
    list: lambda value: {"L": [to_wire(element) for element in value]},
    dict: lambda value: {"M": item_to_wire(value)},
    frozenset: lambda value: {"NS": [str(number) for number in value]},
}
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "S": lambda value: value,
    "N": int,
    "BOOL": lambda value: value,
    "B": a2b_base64,
    "NULL": lambda _: None,
    "L": lambda value: [from_wire(element) for element in value],
    "M": lambda value: item_from_wire(value),
    "NS": lambda value: frozenset(map(int, value)),
}
_NAME: Final = re.compile(r"#(\w+)")


def to_wire(value: Any) -> Wire:  # noqa: ANN401 - any of the plain values
    """Convert a plain value to an attribute value."""
    return _WRITERS[type(value)](value)


def from_wire(wire: Wire) -> Any:  # noqa: ANN401
    """Convert an attribute value to a plain value."""
    ((kind, value),) = wire.items()
    return _READERS[kind](value)


def item_to_wire(item: Mapping[str, Any]) -> dict[str, Wire]:
    """Convert an item, or the values of an expression, to attribute values."""
    return {name: _WRITERS[type(value)](value) for name, value in item.items()}


def item_from_wire(wire: Mapping[str, Wire]) -> Item:
    """Convert an item in an answer to plain values."""
    item = {}
    for name, value in wire.items():
        for kind, content in value.items():
            item[name] = content if kind == "S" else _READERS[kind](content)
    return item


Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Put:
    """A write of a whole item."""

    table: str
    item: Item
    condition: str = ""
    values: Values = field(default_factory=dict)

    def to_wire(self, name: str) -> dict[str, Any]:
        return {"Put": {"TableName": name, "Item": item_to_wire(self.item), **_guarded(self)}}


@dataclass(frozen=True, slots=True)
class Update:
    """A change of some attributes in an item."""

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
    """A deletion of an item."""

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
    shown: str = "",
    condition: str = "",
    update: str = "",
) -> dict[str, Any]:
    """Build the expressions of a request, with their attribute names and values."""
    request: dict[str, Any] = {}
    if where:
        request["KeyConditionExpression"] = where
    if only:
        request["FilterExpression"] = only
    if shown:
        request["ProjectionExpression"] = shown
    if condition:
        request["ConditionExpression"] = condition
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    if update:
        request["UpdateExpression"] = update
    if names := _names(f"{where} {only} {shown} {condition} {update}"):
        request["ExpressionAttributeNames"] = names
    if values:
        request["ExpressionAttributeValues"] = item_to_wire(values)
    return request


@lru_cache(maxsize=1_024)
def _names(expression: str) -> dict[str, str]:
    return {f"#{name}": name for name in _NAME.findall(expression)}
