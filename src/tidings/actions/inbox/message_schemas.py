# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of messages: a tenant's own fields are checked by the tenant's own rules.

A schema comes from outside and runs on our event loop, so it gets only what takes little time for
any message: no references, a bounded number of checks for each value, and few small regular
expressions without going back. What was kept before there was such a bound, and numbers that are
dear to divide, are checked in a process of their own.
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
    """Refuse what is not a schema that we enforce."""
    check_open_json(schema, _POINTER)
    if len(msgspec.json.encode(schema)) > limits.MESSAGE_SCHEMA_BYTES_MAX:
        most = limits.MESSAGE_SCHEMA_BYTES_MAX
        raise Invalid(f"message_schema: at most {most} bytes of JSON", _POINTER)
    for name in _names_in(schema):
        if name in KEYWORDS_REFUSED:
            raise Invalid(f"message_schema: {name} is not taken here", _POINTER)
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
    """Checks messages by the schemas of their inboxes."""

    checker: Checker
    """For what would hold everybody else up."""

    async def check(self, message: Json, schema: Json | None) -> None:
        """Refuse a message whose own fields are not as the schema says; without one it has none.

        Raises:
            Invalid: They are not.
            InboxBusy: Too many such checks wait already.
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
            complaint = "message: takes too long to check by the inbox's message_schema"
            raise Invalid(complaint, "/message") from None
        except CheckerBusy:
            raise InboxBusy from None


@dataclass(frozen=True, slots=True)
class _Rules:
    """A schema, compiled, and what is known about its work."""

    validator: Draft202012Validator
    checks: int
    can_divide: bool
    has_alternatives: bool

    def take_long(self, extras: Json) -> bool:
        """Whether checking could hold the loop up."""
        is_within = self.checks <= limits.MESSAGE_SCHEMA_CHECKS_MAX
        return not is_within or (self.can_divide and not _are_plain(extras))

    def complaint(self, extras: Json) -> Invalid:
        """What is wrong, as exactly as can be said without much work.

        Of alternatives the library tells what is wrong with each, of every value: a hundred times
        the work of finding out that something is.
        """
        most = limits.EXPLAINED_CHECKS_MAX
        is_cheap = not self.has_alternatives or self.checks * _values_in(extras) <= most
        if is_cheap and not self.take_long(extras):
            try:
                self.validator.validate(extras)
            except ValidationError as error:
                steps = "".join(f"/{step}" for step in error.instance_path)
                return Invalid(f"message: {_short(error)}", f"/message{steps}")
        return Invalid("message: not as the inbox's message_schema says", "/message")


@lru_cache(maxsize=_COMPILED_MAX)
def _rules(schema: bytes) -> _Rules:
    plain = msgspec.json.decode(schema)
    validator = Draft202012Validator(plain, pattern_options=_PATTERNS, offline=True)
    return _Rules(validator, checks_per_value(plain), can_divide(plain), has_alternatives(plain))


def _are_plain(value: object) -> bool:
    """Whether all numbers in it are cheap to divide."""
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
        return [name for one in value for name in _names_in(one)]
    if isinstance(value, dict):
        return [*value, *(name for one in value.values() for name in _names_in(one))]
    return []


def _patterns_in(value: object) -> int:
    if isinstance(value, list):
        return sum(_patterns_in(one) for one in value)
    if not isinstance(value, dict):
        return 0
    # A field that is itself called so has a schema where the keyword has a text.
    own = 1 if isinstance(value.get("pattern"), str) else 0
    by_name = value.get("patternProperties")
    own += len(by_name) if isinstance(by_name, dict) else 0
    return own + sum(_patterns_in(one) for one in value.values())


def _short(error: ValidationError) -> str:
    return error.message[:_COMPLAINT_CHARS_MAX]
