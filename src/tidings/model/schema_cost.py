# SPDX-License-Identifier: Apache-2.0
"""How much work a JSON Schema can make: the checks that one value may be put to.

A validator looks at a value once for each schema that stands at the value's place. Side by side,
fields and items add nothing to each other: a value is in one of them. What multiplies is what looks
at the same value again: `anyOf` of two `items`, each an `anyOf` of two, puts the innermost values
to four checks. So the work of a message is at most this number times how many values it holds.

Without references, which are not taken, a schema is a tree and this walks it once.
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

# What dear keywords cost, in checks of a plain one (about 25 ns).
_COMPARED_CHECKS: Final = 12
"""To compare with one value that is a list or an object."""
_SCALARS_A_CHECK: Final = 4
_DIVISION_CHECKS: Final = 50
_STRANGE_DIVISION_CHECKS: Final = 2_000
_PATTERN_CHECKS: Final = 5


def checks_per_value(schema: object) -> int:
    """The most checks that validating makes for each value of a message."""
    if not isinstance(schema, dict):
        return 1
    again = sum(checks_per_value(one) for name in _SAME_VALUE for one in _list(schema, name))
    again += sum(checks_per_value(schema[name]) for name in _SAME_VALUE_ONE if name in schema)
    again += sum(map(checks_per_value, _object(schema, "dependentSchemas").values()))
    # A value has its own checks, and those below it are other values: so the larger counts.
    return again + max(_own(schema), _of_items(schema), _of_fields(schema))


def can_divide(schema: object) -> bool:
    """Whether a number may be divided: what that costs depends on the number, too."""
    if isinstance(schema, dict):
        return "multipleOf" in schema or any(map(can_divide, schema.values()))
    return isinstance(schema, list) and any(map(can_divide, schema))


def has_alternatives(schema: object) -> bool:
    """Whether a complaint has to say what is wrong with each of several alternatives."""
    if isinstance(schema, dict):
        return bool({"anyOf", "oneOf"} & schema.keys()) or any(
            map(has_alternatives, schema.values())
        )
    return isinstance(schema, list) and any(map(has_alternatives, schema))


def is_plain_number(number: float) -> bool:
    """Whether dividing it is cheap: neither vast nor minute."""
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
    if all(isinstance(one, str) for one in values):
        return 0  # looked up, not compared
    scalars = sum(not isinstance(one, list | dict) for one in values)
    others = (one for one in values if isinstance(one, list | dict))
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
