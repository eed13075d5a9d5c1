# SPDX-License-Identifier: Apache-2.0
"""Converts refusals to HTTP statuses, defines close codes, and explains decoding errors.

The decoder's errors name its own types ("Expected `int` <= 100"). This module rewrites them for
clients, as "limit must be at most 100", or "limit is not valid" for an error that it does not know.
"""

import re
from enum import IntEnum
from typing import Final

from tidings.model import refusals

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

_STATUS: Final[tuple[tuple[type[refusals.Refusal], int], ...]] = (
    (refusals.Unauthenticated, 401),
    (refusals.Forbidden, 403),
    (refusals.NotFound, 404),
    (refusals.Invalid, 400),
    (refusals.TooLarge, 413),
    (refusals.Conflict, 409),
    (refusals.ChatBusy, 429),
    (refusals.InboxBusy, 429),
    (refusals.TooMany, 429),
    (refusals.Unavailable, 503),
)

RETRY_AFTER_SECONDS: Final = 1


def explain(complaint: str, whole: str = "the body") -> tuple[str, str]:
    """Return an explanation for clients, and the JSON pointer to the field that is wrong.

    `complaint` is the text of a `msgspec.ValidationError`. `whole` names the decoded text, and is
    the subject of the explanation if no particular field is wrong.
    """
    at = _AT.search(complaint)
    path = at[1] if at else ""
    what = complaint[: at.start()] if at else complaint
    steps = [name or index for name, index in _STEP.findall(path)]
    if field := _UNKNOWN.fullmatch(what):
        return f"{_name(path, field[1])} is not a known field", _pointer([*steps, field[1]])
    if field := _MISSING.fullmatch(what):
        return f"{_name(path, field[1])} is missing", _pointer([*steps, field[1]])
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


def http_status(refusal: refusals.Refusal) -> int:
    """Return the HTTP status of a refusal."""
    return next(status for kind, status in _STATUS if isinstance(refusal, kind))


class Close(IntEnum):
    """Reasons for which the server closes a socket."""

    PROTOCOL_ERROR = 1002
    INVALID_TEXT = 1007
    RESTARTING = 1012
    OVERLOADED = 1013
    BAD_FRAME = 4400
    NOT_AUTHENTICATED = 4401
    FORBIDDEN = 4403
    SILENT = 4408
    TOO_MANY_CONNECTIONS = 4409
    FRAME_TOO_LARGE = 4413
    TOO_FAST = 4429


RECONNECT: Final = frozenset(
    {
        Close.RESTARTING,
        Close.OVERLOADED,
        Close.SILENT,
        Close.TOO_MANY_CONNECTIONS,
        Close.TOO_FAST,
    }
)
"""Codes after which a client reconnects automatically. After any other code, a new connection would
be closed again unless something changes."""
