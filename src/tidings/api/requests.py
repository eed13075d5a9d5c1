# SPDX-License-Identifier: Apache-2.0
"""Reading requests strictly: paths, queries and JSON bodies mean one thing or are refused."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar, cast
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from tidings.api.problems import MediaTypeUnsupported
from tidings.model import limits
from tidings.model.refusals import Invalid, NotFound, TooLarge
from tidings.wire.mistakes import explain

B = TypeVar("B")
Q = TypeVar("Q", bound="Query")

QUERY_PARAMETERS_MAX: Final = 20
COMPLAINT_CHARS_MAX: Final = 200
"""How much of a field's own name an answer repeats."""

_HOST: Final = re.compile(r"[0-9A-Za-z!$&'()*+,;=._~:\[\]@%-]*")
_TEXT: Final = rb'"(?:[^"\\]++|\\.)*+"'
_PLAIN: Final = rb"\s*+(?:" + _TEXT + rb"|[^\s\",:\[\]{}]++)\s*+"
_TEXT_OR_PLAIN_LIST: Final = re.compile(_TEXT + rb"|\[" + _PLAIN + rb"(?:," + _PLAIN + rb")*+\]")


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request carries. A field that is not known is refused, never passed over."""


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request asks for in its address. Likewise."""


async def read_body(request: Request, bytes_max: int) -> bytes:
    """The bytes of a request's body. Larger ones than allowed are refused, unread if they say so.

    Raises:
        TooLarge: There are more bytes than that.
        Invalid: The client went away before the end.
    """
    too_large = TooLarge("the body is too large")
    if _announced_length(request.headers) > bytes_max:
        raise too_large
    # One piece that grows: pieces in a list would be there twice while they are joined.
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > bytes_max:
                raise too_large
    except ClientDisconnect:
        raise Invalid("the body is not complete") from None
    return cast("bytes", body)  # whoever reads it reads both


async def read_value(body: bytes, kind: type[B], charge: Callable[[B], Awaitable[None]]) -> B:
    """The value that a JSON body holds, read strictly; `charge` takes what it costs.

    Raises:
        Invalid: It is not JSON, or not of this type, or could be read in two ways.
        TooLarge: It has too many parts.
    """
    check_parts(body)
    value = read_json(body, kind)
    await charge(value)
    if len(body) > limits.REQUEST_BODY_BYTES_MAX:
        await asyncio.sleep(0)
        body = without_plain_lists(body)
    check_names(body)
    return value


def check_media_type(headers: Mapping[str, str]) -> None:
    """Refuse a body that is not plain JSON in UTF-8."""
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower()
    if media_type.strip().lower() != "application/json":
        raise MediaTypeUnsupported
    if charset not in ("", "charset=utf-8", 'charset="utf-8"'):
        raise MediaTypeUnsupported("the body has to be in UTF-8")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise MediaTypeUnsupported("the body may not be compressed")


def check_parts(body: bytes) -> None:
    """Refuse a body of so many parts that reading it would keep everybody else waiting.

    The names in an object have no comma of their own, so texts are counted by themselves.
    """
    parts = sum(body.count(mark) for mark in (b",", b"[", b"{"))
    if parts > limits.BODY_PARTS_MAX or body.count(b'"') > 2 * limits.BODY_PARTS_MAX:
        raise TooLarge("the body holds too much")


def read_json(body: bytes, kind: type[B]) -> B:
    """The value that a body holds.

    No deeper than its type is a body ever followed, so that deep nesting costs nothing.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _explained(error, "the body") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Invalid("the body is not valid JSON", "") from None
    except RecursionError:
        raise Invalid("the body is nested too deeply", "") from None


def check_names(body: bytes) -> None:
    """Refuse JSON that could be read in two ways: a name stands in an object once."""
    try:
        json.loads(body, object_pairs_hook=_check_names)
    except RecursionError:
        # This reader gives up a little earlier than the one before it.
        raise Invalid("the body is nested too deeply", "") from None


def without_plain_lists(body: bytes) -> bytes:
    """Valid JSON with nothing in its lists of texts and numbers, in which no names can be.

    To build 100,000 texts, only to look at the names around them, takes three times their size.
    """
    parts: list[bytes] = []
    end = 0
    for found in _TEXT_OR_PLAIN_LIST.finditer(body):
        if body.startswith(b"[", found.start()):
            parts += (body[end : found.start()], b"[]")
            end = found.end()
    return b"".join([*parts, body[end:]])


def read_query(query_string: bytes, kind: type[Q]) -> Q:
    """The query's parameters, each known and given once, each written as it would be printed."""
    given = _parameters(query_string)
    try:
        query = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _explained(error, "the query") from None
    for name, text in given.items():
        # Refuses 1e2, 50.0 and null, which a lenient conversion lets through.
        if str(getattr(query, name)) != text:
            raise Invalid(f"{name}: not a plain value", f"/{name}")
    return query


def check_no_query(query_string: bytes) -> None:
    """Refuse any parameter."""
    for name in _parameters(query_string):
        raise Invalid(f"{name}: unknown parameter", f"/{name}")


def check_host(headers: Mapping[str, str]) -> None:
    """Refuse a request whose host cannot be the name of one."""
    if _HOST.fullmatch(headers.get("host", "")) is None:
        raise Invalid


def check_path(scope: Scope, template: str) -> None:
    """Refuse as not there every path that only looks like one of ours after decoding.

    `template` is the path of the route that was found. The router looks with a `$` at the end,
    which also stands before a last line feed.
    """
    if scope["path"].endswith("\n") and not template.endswith("}"):
        raise NotFound
    raw = scope.get("raw_path") or scope["path"].encode()
    if raw == b"/":
        return
    if template.endswith("/"):
        raw = raw.removesuffix(b"/")
    segments = [unquote_to_bytes(segment) for segment in raw.split(b"/")[1:]]
    for segment in segments:
        if not segment or b"/" in segment or not _is_utf8(segment):
            raise NotFound


def _announced_length(headers: Mapping[str, str]) -> int:
    try:
        return int(headers.get("content-length", "0"))
    except ValueError:
        raise Invalid from None


def _parameters(query_string: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=QUERY_PARAMETERS_MAX,
        )
    except ValueError:
        raise Invalid("the query is not valid") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise Invalid("a query parameter is given twice")
    return given


def _check_names(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Invalid(f"{name}: given twice", f"/{name}")
        seen.add(name)


def _explained(complaint: msgspec.ValidationError, whole: str) -> Invalid:
    message, pointer = explain(str(complaint), whole)
    return Invalid(message[:COMPLAINT_CHARS_MAX], pointer[:COMPLAINT_CHARS_MAX])


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
