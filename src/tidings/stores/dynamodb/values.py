# SPDX-License-Identifier: Apache-2.0
"""Plain values as DynamoDB's typed attribute values, and back.

Numbers are whole numbers, and so are the members of a set, which is never empty.
"""

from binascii import a2b_base64
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidings.stores.dynamodb.trouble import Item

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
