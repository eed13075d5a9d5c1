# SPDX-License-Identifier: Apache-2.0
"""Check the tenant's own fields in a notification against the inbox's JSON Schema.

In this file, a message is the text of a notification. A schema is untrusted, and validation runs on
the event loop. Only schemas that are fast for any message are therefore accepted: no references, a
bounded number of checks per value, and a few small regular expressions without backtracking. Some
checks run in a separate process instead: those with a schema that was stored before this bound
existed, and those of numbers that are slow to divide.

A validator checks a value once for each schema that applies to it. Schemas for different fields or
items apply to different values, so their checks do not add up. Keywords that apply several schemas
to the same value multiply the checks: an `anyOf` of two `items`, each with an `anyOf` of two,
checks the innermost values four times. The work for a message is at most the maximum number of
checks per value, times the number of values.

References are not allowed, so a schema is a tree, and one walk over it is enough.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec
from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from tidings.model import limits
from tidings.model.notifications import Json, check_open_json, extras_of
from tidings.model.refusals import InboxBusy, Invalid
from tidings.ports.inboxes import Checker, CheckerBusy, TookTooLong

_SAME_VALUE: Final = ("allOf", "anyOf", "oneOf")
_SAME_VALUE_ONE: Final = ("not", "if", "then", "else")
_UNCHECKED: Final = frozenset(
    {
        "$id", "$anchor", "$comment", "$defs", "$vocabulary", "contentEncoding", "contentMediaType",
        "contentSchema", "default", "definitions", "deprecated", "description", "examples",
        "readOnly", "title", "writeOnly",
    }
)  # fmt: skip

# The costs of expensive keywords. The unit is the check of a plain keyword (about 25 ns).
_COMPARED_CHECKS: Final = 12
"""Cost of a comparison with a list or an object, per value in it."""
_SCALARS_A_CHECK: Final = 4
_DIVISION_CHECKS: Final = 50
_STRANGE_DIVISION_CHECKS: Final = 2_000
_PATTERN_CHECKS: Final = 5

KEYWORDS_REFUSED: Final = frozenset(
    {
        "$ref", "$dynamicRef", "$recursiveRef", "$schema", "unevaluatedItems",
        "unevaluatedProperties", "uniqueItems",
    }
)  # fmt: skip
_PATTERNS: Final = RegexOptions(
    size_limit=limits.PATTERN_BYTES_MAX, dfa_size_limit=limits.PATTERN_BYTES_MAX
)
_COMPILED_MAX: Final = 32
_COMPLAINT_CHARS_MAX: Final = 200
_POINTER: Final = "/message_schema"


def checks_per_value(schema: object) -> int:
    """Return the maximum number of checks that validation applies to one value of a message."""
    if not isinstance(schema, dict):
        return 1
    again = sum(checks_per_value(part) for name in _SAME_VALUE for part in _list(schema, name))
    again += sum(checks_per_value(schema[name]) for name in _SAME_VALUE_ONE if name in schema)
    again += sum(map(checks_per_value, _object(schema, "dependentSchemas").values()))
    # Checks of a value and checks of the values inside it do not add up: use the larger number.
    return again + max(_own(schema), _of_items(schema), _of_fields(schema))


def can_divide(schema: object) -> bool:
    """Return True if the schema divides numbers, which is slow for some numbers in a message."""
    if isinstance(schema, dict):
        return "multipleOf" in schema or any(map(can_divide, schema.values()))
    return isinstance(schema, list) and any(map(can_divide, schema))


def has_alternatives(schema: object) -> bool:
    """Return True if the schema has alternatives, which make an error expensive to explain."""
    if isinstance(schema, dict):
        return bool({"anyOf", "oneOf"} & schema.keys()) or any(
            map(has_alternatives, schema.values())
        )
    return isinstance(schema, list) and any(map(has_alternatives, schema))


def is_plain_number(number: float) -> bool:
    """Return True if a number is cheap to divide: neither very large nor very small."""
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


def check_schema(schema: Json) -> None:
    """Refuse a schema that is invalid, or that could be slow."""
    check_open_json(schema, _POINTER)
    if len(msgspec.json.encode(schema)) > limits.MESSAGE_SCHEMA_BYTES_MAX:
        most = limits.MESSAGE_SCHEMA_BYTES_MAX
        raise Invalid(f"message_schema: must have at most {most} bytes of JSON", _POINTER)
    for name in _names_in(schema):
        if name in KEYWORDS_REFUSED:
            raise Invalid(f"message_schema: {name} is not supported", _POINTER)
    if _patterns_in(schema) > limits.MESSAGE_SCHEMA_PATTERNS_MAX:
        most = limits.MESSAGE_SCHEMA_PATTERNS_MAX
        raise Invalid(f"message_schema: must have at most {most} patterns", _POINTER)
    most = limits.MESSAGE_SCHEMA_CHECKS_MAX
    if (checks := checks_per_value(schema)) > most:
        complaint = f"message_schema: at most {most} checks for one value, not {checks}"
        raise Invalid(complaint, _POINTER)
    try:
        _rules(msgspec.json.encode(schema))
    except ValidationError as error:
        raise Invalid(f"message_schema: {_short(error)}", _POINTER) from None


class MessageSchemas(msgspec.Struct, frozen=True):
    """Validates messages against the schemas of their inboxes."""

    checker: Checker
    """Separate process for checks that would block the event loop."""

    async def check(self, message: Json, schema: Json | None) -> None:
        """Refuse a message if the fields that the tenant has added do not match the schema.

        Without a schema, refuse any message with such fields.

        Raises:
            Invalid: The message does not match, or takes too long to check.
            InboxBusy: Too many slow checks are waiting.
        """
        extras = extras_of(message)
        if schema is None:
            for name in extras:
                raise Invalid(f"message: unknown field `{name[:100]}`", f"/message/{name[:100]}")
            return
        rules = _rules(msgspec.json.encode(schema))
        if rules.take_long(extras):
            is_valid = await self._is_valid(schema, extras)
        else:
            is_valid = rules.validator.is_valid(extras)
        if not is_valid:
            raise rules.complaint(extras)

    async def _is_valid(self, schema: Json, extras: Json) -> bool:
        try:
            return await self.checker.is_valid(schema, extras)
        except TookTooLong:
            complaint = "message: takes too long to check against the inbox's message_schema"
            raise Invalid(complaint, "/message") from None
        except CheckerBusy:
            raise InboxBusy from None


class _Rules(msgspec.Struct, frozen=True):
    """A compiled schema, with the properties that determine its cost."""

    validator: Draft202012Validator
    checks: int
    can_divide: bool
    has_alternatives: bool

    def take_long(self, extras: Json) -> bool:
        """Return True if a check of these fields could block the event loop."""
        is_within = self.checks <= limits.MESSAGE_SCHEMA_CHECKS_MAX
        return not is_within or (self.can_divide and not _are_plain(extras))

    def complaint(self, extras: Json) -> Invalid:
        """Return the refusal of an invalid message, with the exact error if that is cheap to find.

        If a schema has alternatives, the library explains for every value why each alternative
        failed. This takes a hundred times as long as finding out that the message is invalid.
        """
        most = limits.EXPLAINED_CHECKS_MAX
        is_cheap = not self.has_alternatives or self.checks * _values_in(extras) <= most
        if is_cheap and not self.take_long(extras):
            try:
                self.validator.validate(extras)
            except ValidationError as error:
                steps = "".join(f"/{step}" for step in error.instance_path)
                return Invalid(f"message: {_short(error)}", f"/message{steps}")
        return Invalid("message: does not match the inbox's message_schema", "/message")


@lru_cache(maxsize=_COMPILED_MAX)
def _rules(schema: bytes) -> _Rules:
    plain = msgspec.json.decode(schema)
    validator = Draft202012Validator(plain, pattern_options=_PATTERNS, offline=True)
    return _Rules(validator, checks_per_value(plain), can_divide(plain), has_alternatives(plain))


def _are_plain(value: object) -> bool:
    """Return True if it is cheap to check `multipleOf` for every number in a value."""
    if isinstance(value, dict):
        return all(map(_are_plain, value.values()))
    if isinstance(value, list):
        return all(map(_are_plain, value))
    return not isinstance(value, int | float) or is_plain_number(value)


def _values_in(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_values_in, value.values()))
    return 1 + sum(map(_values_in, value)) if isinstance(value, list) else 1


def _names_in(value: object) -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in _names_in(item)]
    if isinstance(value, dict):
        return [*value, *(name for item in value.values() for name in _names_in(item))]
    return []


def _patterns_in(value: object) -> int:
    if isinstance(value, list):
        return sum(_patterns_in(item) for item in value)
    if not isinstance(value, dict):
        return 0
    # The value of the keyword `pattern` is text; that of a field named `pattern` is a schema.
    own = 1 if isinstance(value.get("pattern"), str) else 0
    by_name = value.get("patternProperties")
    own += len(by_name) if isinstance(by_name, dict) else 0
    return own + sum(_patterns_in(item) for item in value.values())


def _short(error: ValidationError) -> str:
    return error.message[:_COMPLAINT_CHARS_MAX]
