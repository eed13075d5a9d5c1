# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of messages: a tenant's own fields are checked by the tenant's own rules.

A schema comes from outside and runs on our event loop, so it gets only what takes time in
proportion to its size: no references, which can multiply, nothing that looks at a value twice, and
few small regular expressions without going back.
"""

from functools import lru_cache
from typing import Final

import msgspec
from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from tidings.model import limits
from tidings.model.postings import Json, check_open_json, extras_of
from tidings.model.refusals import Invalid

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
    try:
        _validator(msgspec.json.encode(schema))
    except ValidationError as error:
        raise Invalid(f"message_schema: {_short(error)}", _POINTER) from None


def check_extras(message: Json, schema: Json | None) -> None:
    """Refuse a message whose own fields are not as the schema says; without one it has none."""
    extras = extras_of(message)
    if schema is None:
        for name in extras:
            raise Invalid(f"message: unknown field `{name[:100]}`", f"/message/{name[:100]}")
        return
    try:
        _validator(msgspec.json.encode(schema)).validate(extras)
    except ValidationError as error:
        steps = "".join(f"/{step}" for step in error.instance_path)
        raise Invalid(f"message: {_short(error)}", f"/message{steps}") from None


@lru_cache(maxsize=_COMPILED_MAX)
def _validator(schema: bytes) -> Draft202012Validator:
    return Draft202012Validator(
        msgspec.json.decode(schema), pattern_options=_PATTERNS, offline=True
    )


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
