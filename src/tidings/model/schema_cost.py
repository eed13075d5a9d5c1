# SPDX-License-Identifier: Apache-2.0
"""Cost of a JSON Schema: the most checks that it can apply to one value.

A validator checks a value once for each schema that applies to it. Different fields and items do
not add up, since a value is in only one of them. Keywords that check the same value again multiply:
`anyOf` of two `items`, each an `anyOf` of two, applies four checks to the innermost values. The
work for a message is at most this number times the number of its values.

References are not allowed, so a schema is a tree, and one walk is enough.
"""

from collections.abc import Iterable
from typing import Final

_SAME_VALUE: Final = ("allOf", "anyOf", "oneOf")
_SAME_VALUE_ONE: Final = ("not", "if", "then", "else")
_UNCHECKED: Final = frozenset(
    {
        "$id", "$anchor", "$comment", "$defs", "$vocabulary", "contentEncoding", "contentMediaType",
        "contentSchema", "default", "definitions", "deprecated", "description", "examples",
        "readOnly", "title", "writeOnly",
    }
)  # fmt: skip

# Cost of expensive keywords, in checks of a plain keyword (about 25 ns).
_COMPARED_CHECKS: Final = 12
"""Cost of a comparison, per value within a list or an object."""
_SCALARS_A_CHECK: Final = 4
_DIVISION_CHECKS: Final = 50
_STRANGE_DIVISION_CHECKS: Final = 2_000
_PATTERN_CHECKS: Final = 5


def checks_per_value(schema: object) -> int:
    """Return the most checks that validation applies to each value of a message."""
    if not isinstance(schema, dict):
        return 1
    again = sum(checks_per_value(part) for name in _SAME_VALUE for part in _list(schema, name))
    again += sum(checks_per_value(schema[name]) for name in _SAME_VALUE_ONE if name in schema)
    again += sum(map(checks_per_value, _object(schema, "dependentSchemas").values()))
    # The checks of a value and those of the values below it do not add up: take the larger.
    return again + max(_own(schema), _of_items(schema), _of_fields(schema))


def can_divide(schema: object) -> bool:
    """Return whether the schema divides numbers, whose cost also depends on the number."""
    if isinstance(schema, dict):
        return "multipleOf" in schema or any(map(can_divide, schema.values()))
    return isinstance(schema, list) and any(map(can_divide, schema))


def has_alternatives(schema: object) -> bool:
    """Return whether an explanation has to cover several alternatives."""
    if isinstance(schema, dict):
        return bool({"anyOf", "oneOf"} & schema.keys()) or any(
            map(has_alternatives, schema.values())
        )
    return isinstance(schema, list) and any(map(has_alternatives, schema))


def is_plain_number(number: float) -> bool:
    """Return whether a division by it is cheap: it is neither very large nor very small."""
    return number == 0 or 1e-9 <= abs(number) <= 1e15


def _own(schema: dict[str, object]) -> int:
    return sum(_of_keyword(name, value) for name, value in schema.items() if name not in _UNCHECKED)


def _of_keyword(name: str, value: object) -> int:
    match name, value:
        case "enum", list():
            return 1 + _compared(value)
        case "const", _:
            return 1 + _compared([value])
        case "multipleOf", int() | float():
            return _DIVISION_CHECKS if is_plain_number(value) else _STRANGE_DIVISION_CHECKS
        case "pattern", _:
            return _PATTERN_CHECKS
        case "patternProperties", dict():
            return _PATTERN_CHECKS * len(value)
        case (("dependentRequired" | "dependentSchemas"), dict()):
            return 1 + len(value)
        case _:
            return 1


def _compared(values: list[object]) -> int:
    if all(isinstance(value, str) for value in values):
        return 0  # looked up, not compared
    scalars = sum(not isinstance(value, list | dict) for value in values)
    others = (value for value in values if isinstance(value, list | dict))
    return scalars // _SCALARS_A_CHECK + _COMPARED_CHECKS * sum(map(_size, others))


def _size(value: object) -> int:
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    return 1 + sum(map(_size, inner))


def _of_items(schema: dict[str, object]) -> int:
    places = [*_list(schema, "prefixItems"), *_one(schema, "items")]
    return max(map(checks_per_value, places), default=0) + sum(
        map(checks_per_value, _one(schema, "contains"))
    )


def _of_fields(schema: dict[str, object]) -> int:
    named = max(map(checks_per_value, _object(schema, "properties").values()), default=0)
    named += sum(map(checks_per_value, _object(schema, "patternProperties").values()))
    others = max(map(checks_per_value, _one(schema, "additionalProperties")), default=0)
    return max(named, others) + sum(map(checks_per_value, _one(schema, "propertyNames")))


def _one(schema: dict[str, object], name: str) -> list[object]:
    return [schema[name]] if name in schema else []


def _list(schema: dict[str, object], name: str) -> list[object]:
    value = schema.get(name)
    return value if isinstance(value, list) else []


def _object(schema: dict[str, object], name: str) -> dict[str, object]:
    value = schema.get(name)
    return value if isinstance(value, dict) else {}
