# SPDX-License-Identifier: Apache-2.0
"""Check the tenant's own fields of a message against the JSON Schema of the inbox.

A schema is untrusted and runs on our event loop, so we accept only what is fast for any message:
no references, a bounded number of checks per value, and a few small regular expressions without
backtracking. Schemas that were stored before this bound existed, and numbers that are expensive to
divide, are checked in a separate process.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec
from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from tidings.model import limits
from tidings.model.postings import Json, check_open_json, extras_of
from tidings.model.refusals import InboxBusy, Invalid
from tidings.model.schema_cost import (
    can_divide,
    checks_per_value,
    has_alternatives,
    is_plain_number,
)
from tidings.ports.checking import Checker, CheckerBusy, TookTooLong

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


def check_schema(schema: Json) -> None:
    """Refuse a schema that is invalid, or that could be slow."""
    check_open_json(schema, _POINTER)
    if len(msgspec.json.encode(schema)) > limits.MESSAGE_SCHEMA_BYTES_MAX:
        most = limits.MESSAGE_SCHEMA_BYTES_MAX
        raise Invalid(f"message_schema: at most {most} bytes of JSON", _POINTER)
    for name in _names_in(schema):
        if name in KEYWORDS_REFUSED:
            raise Invalid(f"message_schema: {name} is not supported", _POINTER)
    if _patterns_in(schema) > limits.MESSAGE_SCHEMA_PATTERNS_MAX:
        most = limits.MESSAGE_SCHEMA_PATTERNS_MAX
        raise Invalid(f"message_schema: at most {most} patterns", _POINTER)
    most = limits.MESSAGE_SCHEMA_CHECKS_MAX
    if (checks := checks_per_value(schema)) > most:
        complaint = f"message_schema: at most {most} checks for one value, not {checks}"
        raise Invalid(complaint, _POINTER)
    try:
        _rules(msgspec.json.encode(schema))
    except ValidationError as error:
        raise Invalid(f"message_schema: {_short(error)}", _POINTER) from None


@dataclass(frozen=True, slots=True)
class MessageSchemas:
    """Validation of messages against the schemas of their inboxes."""

    checker: Checker
    """Separate process for checks that would block the event loop."""

    async def check(self, message: Json, schema: Json | None) -> None:
        """Refuse a message whose own fields do not match the schema, or exist without a schema.

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


@dataclass(frozen=True, slots=True)
class _Rules:
    """A compiled schema, with what determines its cost."""

    validator: Draft202012Validator
    checks: int
    can_divide: bool
    has_alternatives: bool

    def take_long(self, extras: Json) -> bool:
        """Return whether checking these fields could block the event loop."""
        is_within = self.checks <= limits.MESSAGE_SCHEMA_CHECKS_MAX
        return not is_within or (self.can_divide and not _are_plain(extras))

    def complaint(self, extras: Json) -> Invalid:
        """Return a refusal, with the exact error if that is cheap to find.

        For alternatives the library explains the failure of each, for every value: a hundred times
        the work of finding out that the message is invalid.
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
    """Return whether all numbers in a value are cheap to divide."""
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
    # The keyword has a text; a field that is named `pattern` has a schema.
    own = 1 if isinstance(value.get("pattern"), str) else 0
    by_name = value.get("patternProperties")
    own += len(by_name) if isinstance(by_name, dict) else 0
    return own + sum(_patterns_in(item) for item in value.values())


def _short(error: ValidationError) -> str:
    return error.message[:_COMPLAINT_CHARS_MAX]
