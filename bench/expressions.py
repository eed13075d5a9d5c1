# SPDX-License-Identifier: Apache-2.0
"""Evaluates DynamoDB's conditions and updates, for tables in memory.

Only the syntax that the server uses is supported: attributes are written as `#name`, values as
`:name`.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from tidings.stores.dynamodb.client.retrying import Item

Values = Mapping[str, Any]
Evaluated = Callable[[Item, Values], Any]
Change = Callable[[Item, Item, Values], None]
"""Function that changes a new item; the second argument is the item before the update."""

_TOKEN: Final = re.compile(r"[:#]?\w+|<=|>=|<>|[=<>(),\[\]+-]")
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_SECTIONS: Final = frozenset({"SET", "REMOVE", "ADD", "DELETE"})
_NOTHING: Final = object()
"""Value of an attribute that the item does not have."""


@lru_cache(maxsize=1_024)
def condition(text: str) -> Evaluated:
    """Return a function that checks whether an item meets a condition. Every item meets an empty
    condition."""
    return _Parser(text).condition() if text else lambda _item, _values: True


@lru_cache(maxsize=1_024)
def update(text: str) -> Callable[[Item, Values], Item]:
    """Return a function that applies an update expression to an item."""
    changes = list(_Parser(text).changes())

    def updated(item: Item, values: Values) -> Item:
        new = dict(item)
        for change in changes:
            change(new, item, values)
        return new

    return updated


class _Parser:
    """Parses an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._tokens.reverse()

    def _next(self) -> str:
        return self._tokens[-1] if self._tokens else ""

    def _take(self, expected: str = "") -> str:
        token: str = self._tokens.pop()
        assert not expected or token == expected, f"{token} instead of {expected}"
        return token

    def _takes(self, token: str) -> bool:
        """Return whether this token is next; if so, remove it."""
        is_next = self._next() == token
        if is_next:
            self._take()
        return is_next

    # Conditions.

    def condition(self) -> Evaluated:
        found = [self._all()]
        while self._takes("OR"):
            found.append(self._all())
        return lambda item, values: any(one(item, values) for one in found)

    def _all(self) -> Evaluated:
        found = [self._one()]
        while self._takes("AND"):
            found.append(self._one())
        return lambda item, values: all(one(item, values) for one in found)

    def _one(self) -> Evaluated:
        if self._takes("NOT"):
            inner = self._one()
            return lambda item, values: not inner(item, values)
        if self._takes("("):
            inner = self.condition()
            self._take(")")
            return inner
        left = self._value()
        if self._takes("BETWEEN"):
            low = self._value()
            self._take("AND")
            return _between(left, low, self._value())
        sign = _COMPARISONS.get(self._next())
        if sign is None:
            return left  # a function such as attribute_exists
        self._take()
        return _compared(sign, left, self._value())

    def _value(self) -> Evaluated:
        found = self._term()
        while self._next() in {"+", "-"}:
            found = _summed(1 if self._take() == "+" else -1, found, self._term())
        return found

    def _term(self) -> Evaluated:
        token = self._take()
        if token.startswith(":"):
            return lambda _item, values: values[token]
        if token.startswith("#"):
            return self._attribute(token[1:])
        self._take("(")
        given = [self._value()]
        while self._takes(","):
            given.append(self._value())
        self._take(")")
        function = _FUNCTIONS[token]
        return lambda item, values: function(*(one(item, values) for one in given))

    def _attribute(self, name: str) -> Evaluated:
        if not self._takes("["):
            return lambda item, _values: item.get(name, _NOTHING)
        at = int(self._take())
        self._take("]")
        return lambda item, _values: item[name][at] if name in item else _NOTHING

    # Updates.

    def changes(self) -> Iterator[Change]:
        while self._tokens:
            section = self._take()
            assert section in _SECTIONS, section
            while self._tokens and self._next() not in _SECTIONS:
                yield getattr(self, f"_{section.lower()}")()
                self._takes(",")

    def _set(self) -> Change:
        name, at = self._take()[1:], None
        if self._takes("["):
            at = int(self._take())
            self._take("]")
        self._take("=")
        return _assigned(name, at, self._value())

    def _remove(self) -> Change:
        name = self._take()[1:]

        def change(new: Item, _old: Item, _values: Values) -> None:
            new.pop(name, None)

        return change

    def _add(self) -> Change:
        name, value = self._take()[1:], self._take()

        def change(new: Item, old: Item, values: Values) -> None:
            added = values[value]
            is_set = isinstance(added, frozenset)
            before = old.get(name, frozenset() if is_set else 0)
            new[name] = before | added if is_set else before + added

        return change

    def _delete(self) -> Change:
        name, value = self._take()[1:], self._take()

        def change(new: Item, old: Item, values: Values) -> None:
            if left := old.get(name, frozenset()) - values[value]:
                new[name] = left
            else:
                new.pop(name, None)

        return change


def _assigned(name: str, at: int | None, value: Evaluated) -> Change:
    def change(new: Item, old: Item, values: Values) -> None:
        if at is None:
            new[name] = value(old, values)
        else:
            new[name] = [*new[name][:at], value(old, values), *new[name][at + 1 :]]

    return change


def _compared(sign: Callable[[Any, Any], Any], left: Evaluated, right: Evaluated) -> Evaluated:
    def compared(item: Item, values: Values) -> bool:
        one, other = left(item, values), right(item, values)
        if one is _NOTHING or other is _NOTHING:
            return sign is operator.ne
        return bool(sign(one, other))

    return compared


def _between(value: Evaluated, low: Evaluated, high: Evaluated) -> Evaluated:
    at_least, at_most = _compared(operator.ge, value, low), _compared(operator.le, value, high)
    return lambda item, values: at_least(item, values) and at_most(item, values)


def _summed(sign: int, left: Evaluated, right: Evaluated) -> Evaluated:
    return lambda item, values: left(item, values) + sign * right(item, values)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "attribute_exists": lambda value: value is not _NOTHING,
    "attribute_not_exists": lambda value: value is _NOTHING,
    "begins_with": lambda value, start: value is not _NOTHING and value.startswith(start),
    "contains": lambda value, part: value is not _NOTHING and part in value,
    "if_not_exists": lambda value, other: other if value is _NOTHING else value,
    "list_append": lambda value, more: [*value, *more],
    "size": len,
}
