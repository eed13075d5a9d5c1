# SPDX-License-Identifier: Apache-2.0
"""Explains to clients why the decoder refuses what they sent.

The decoder's errors name its own types ("Expected `int` <= 100"). This module rewrites them for
clients, as "limit must be at most 100", or "limit is not valid" for an error that it does not know.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import inspect

_AT: Final = re.compile(r" - at `\$(.*)`$", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_TYPE: Final = re.compile(r"Expected `([a-z |]+)`(?:, got `\w+`)?")
_BOUND: Final = re.compile(r"Expected `(int|float)` (>=|<=) (\S+)")
_LENGTH: Final = re.compile(r"Expected `(str|array|object)` of length (>=|<=) (\d+)")
_CHOICE: Final = re.compile(r"Invalid (?:enum )?value .*", re.DOTALL)

_TYPES: Final = {
    "array": "an array",
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "null": "null",
    "object": "an object",
    "str": "a string",
}
_BOUNDS: Final = {">=": "at least", "<=": "at most"}
_PARTS: Final = {"array": "elements", "object": "fields", "str": "characters"}

LISTED_MAX: Final = 12
"""Number of fields or values up to which an explanation lists them all."""


def explain(complaint: str, whole: str = "the body", kind: object = None) -> tuple[str, str]:
    """Return an explanation for clients, and the JSON pointer to the field that is wrong.

    `complaint` is the text of a `msgspec.ValidationError`. `whole` names the decoded text, and is
    the subject of the explanation if no particular field is wrong. If `kind`, the expected type, is
    given, the explanation lists the known fields or the allowed values.
    """
    at = _AT.search(complaint)
    path = at[1] if at else ""
    what = complaint[: at.start()] if at else complaint
    steps = [name or index for name, index in _STEP.findall(path)]
    if field := _UNKNOWN.fullmatch(what):
        known = _listed("; known fields:", _fields(kind, steps))
        text = f"{_name(path, field[1])} is not a known field{known}"
        return text, _pointer([*steps, field[1]])
    if field := _MISSING.fullmatch(what):
        return f"{_name(path, field[1])} is missing", _pointer([*steps, field[1]])
    if _CHOICE.fullmatch(what) and (values := _values(kind, steps)):
        return f"{_name(path)} must be{_listed('', values, 'or')}", _pointer(steps)
    return f"{_name(path) or whole} {_rule(what)}", _pointer(steps)


def _rule(what: str) -> str:
    if bound := _BOUND.fullmatch(what):
        return f"must be {_BOUNDS[bound[2]]} {bound[3]}"
    if length := _LENGTH.fullmatch(what):
        return f"must have {_BOUNDS[length[2]]} {length[3]} {_PARTS[length[1]]}"
    if types := _TYPE.fullmatch(what):
        names = types[1].split(" | ")
        if all(name in _TYPES for name in names):
            return f"must be {' or '.join(_TYPES[name] for name in names)}"
    if _CHOICE.fullmatch(what):
        return "is not one of the allowed values"
    return "is not valid"


def _name(path: str, field: str = "") -> str:
    return f"{path}.{field}".strip(".")


def _pointer(steps: list[str]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def _listed(what: str, names: Sequence[str], last: str = "and") -> str:
    """Return a list of names for a sentence; nothing if there are none or too many."""
    if not 1 <= len(names) <= LISTED_MAX:
        return ""
    *others, end = names
    return f"{what} {', '.join(others)} {last} {end}" if others else f"{what} {end}"


def _fields(kind: object, steps: Sequence[str]) -> list[str]:
    """Return the names of the fields that an object at this place may have."""
    structs = [found for found in _found(kind, steps) if isinstance(found, inspect.StructType)]
    names = [field.encode_name for struct in structs for field in struct.fields]
    tags = [struct.tag_field for struct in structs if struct.tag_field]
    return list(dict.fromkeys(tags + names))


def _values(kind: object, steps: Sequence[str]) -> list[str]:
    """Return the values that are allowed at this place; none if they are not listed one by one."""
    allowed: list[object] = []
    for found in _found(kind, steps):
        if isinstance(found, inspect.LiteralType):
            allowed += found.values
    if not allowed and steps:
        allowed = [
            found.tag
            for found in _found(kind, steps[:-1])
            if isinstance(found, inspect.StructType) and found.tag_field == steps[-1]
        ]
    return [str(value) for value in allowed]


def _found(kind: object, steps: Sequence[str]) -> list[inspect.Type]:
    """Return the types that the decoder expects at this place."""
    found = [] if kind is None else list(_alternatives(inspect.type_info(kind)))
    for step in steps:
        found = [inner for outer in found for inner in _inside(outer, step)]
    return found


def _inside(outer: inspect.Type, step: str) -> Iterator[inspect.Type]:
    match outer:
        case inspect.StructType():
            for field in outer.fields:
                if field.encode_name == step:
                    yield from _alternatives(field.type)
        case inspect.ListType():
            yield from _alternatives(outer.item_type)
        case inspect.DictType():
            yield from _alternatives(outer.value_type)
        case _:
            pass


def _alternatives(kind: inspect.Type) -> Iterator[inspect.Type]:
    match kind:
        case inspect.UnionType():
            for each in kind.types:
                yield from _alternatives(each)
        case inspect.Metadata():
            yield from _alternatives(kind.type)
        case _:
            yield kind
