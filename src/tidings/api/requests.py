# SPDX-License-Identifier: Apache-2.0
"""Reads requests strictly: a path, query or JSON body that is ambiguous is refused."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar, cast
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from tidings.api.problems import MediaTypeUnsupported
from tidings.model import limits
from tidings.model.addresses import is_loopback
from tidings.model.refusals import Invalid, NotFound, TooLarge
from tidings.wire.mistakes import explain

B = TypeVar("B")
Q = TypeVar("Q", bound="Query")

QUERY_PARAMETERS_MAX: Final = 20
_OFFSET_CHARS_MAX: Final = 15
COMPLAINT_CHARS_MAX: Final = 400
"""Maximum length of an error message or pointer in an answer, in characters."""

_RANGE: Final = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})")
_HOST: Final = re.compile(r"[0-9A-Za-z!$&'()*+,;=._~:\[\]@%-]*")
_TEXT: Final = rb'"(?:[^"\\]++|\\.)*+"'
_PLAIN: Final = rb"\s*+(?:" + _TEXT + rb"|[^\s\",:\[\]{}]++)\s*+"
_TEXT_OR_PLAIN_LIST: Final = re.compile(_TEXT + rb"|\[" + _PLAIN + rb"(?:," + _PLAIN + rb")*+\]")


_FORWARDED: Final = ("forwarded", "via", "x-real-ip")
"""Headers that only proxies add. Those that begin with `x-forwarded-` are recognised, too."""
_OWN_HOST: Final = re.compile(r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?")


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request. An unknown field is refused, never ignored."""


def upload_offset(text: str | None) -> int | None:
    """Return the value of the header `Upload-Offset`; None if it is missing.

    Raises:
        Invalid: The value is not a number of bytes.
    """
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _OFFSET_CHARS_MAX):
        raise Invalid("Upload-Offset: must be a number of bytes")
    return int(text)


def entity_tag(attachment_id: str) -> str:
    """Return the entity tag of a file, and of its thumbnail: its id, because neither changes once
    it can be read."""
    return f'"{attachment_id}"'


class RangeAsked:
    """The headers `Range` and `If-Range` of a request for a file."""

    def __init__(self, request: Request) -> None:
        self._range = request.headers.get("Range", "")
        self._condition = request.headers.get("If-Range")

    def within(self, attachment_id: str) -> tuple[int | None, int | None]:
        """Return the first and last byte that the client wants of this file; the end of the file
        has no first byte, and the whole file neither.

        A header that is malformed, has several ranges or applies only to another file is ignored,
        as RFC 9110 demands or allows.
        """
        match = _RANGE.fullmatch(self._range)
        if match is None or not (match[1] or match[2]):
            return None, None
        if self._condition not in (None, entity_tag(attachment_id)):
            return None, None
        first, last = (int(number) if number else None for number in match.groups())
        if first is not None and last is not None and last < first:
            return None, None
        return first, last


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a request. An unknown parameter is refused, never ignored."""


class Arriving:
    """The bytes of a request, which its handler reads as they arrive."""

    def __init__(self, request: Request) -> None:
        self._request = request
        length = request.headers.get("content-length", "")
        self.size = int(length) if length.isdigit() else None
        """Number of bytes, if the client says it."""
        media_type = request.headers.get("content-type", "").partition(";")[0]
        self.content_type = media_type.strip().lower()

    async def pieces(self, cut: type[Exception]) -> AsyncIterator[bytes]:
        """Yield the bytes; raise `cut` if the client disconnects before their end."""
        try:
            async for piece in self._request.stream():
                yield piece
        except ClientDisconnect:
            raise cut from None

    async def read(self, bytes_max: int) -> bytes:
        """Return all bytes, or at least `bytes_max` of them."""
        data = bytearray()
        async for piece in self.pieces(_Incomplete):
            data += piece
            if len(data) >= bytes_max:
                break
        return bytes(data)


class _Incomplete(Invalid):
    def __init__(self) -> None:
        super().__init__("the body is incomplete")


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Return the body of a request. A body with a too large `Content-Length` is refused unread.

    Raises:
        TooLarge: The body has more than `bytes_max` bytes.
        Invalid: The client disconnected before the end of the body.
    """
    too_large = TooLarge("the body is too large")
    if _announced_length(request.headers) > bytes_max:
        raise too_large
    # This is a single growing buffer, because joining a list of chunks would need the memory twice.
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > bytes_max:
                raise too_large
    except ClientDisconnect:
        raise Invalid("the body is incomplete") from None
    return cast("bytes", body)  # the readers accept a bytearray too


async def read_value(body: bytes, kind: type[B], charge: Callable[[B], Awaitable[None]]) -> B:
    """Decode a JSON body, charge its cost with `charge`, and return the value.

    Raises:
        Invalid: The body is not JSON, not of this type, or ambiguous.
        TooLarge: The body has too many parts.
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
    """Refuse a body that is not uncompressed JSON in UTF-8."""
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower()
    if media_type.strip().lower() != "application/json":
        raise MediaTypeUnsupported
    if charset not in ("", "charset=utf-8", 'charset="utf-8"'):
        raise MediaTypeUnsupported("the body must be in UTF-8")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise MediaTypeUnsupported("the body must not be compressed")


def check_parts(body: bytes) -> None:
    """Refuse a body with so many parts that decoding it would delay all other requests.

    Commas and opening brackets show how many parts there are. Quotation marks have a limit of their
    own, because each member of an object can have two strings: its name and its value.
    """
    parts = sum(body.count(mark) for mark in (b",", b"[", b"{"))
    if parts > limits.BODY_PARTS_MAX or body.count(b'"') > 2 * limits.BODY_PARTS_MAX:
        raise TooLarge("the body has too many parts")


def read_json(body: bytes, kind: type[B]) -> B:
    """Return the decoded value of a body.

    The decoder goes no deeper into a body than the type does, so deep nesting costs nothing.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _explained(error, "the body", kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Invalid("the body is not valid JSON", "") from None
    except RecursionError:
        raise Invalid("the body is nested too deeply", "") from None


def check_names(body: bytes) -> None:
    """Refuse JSON in which an object has the same name twice."""
    try:
        json.loads(body, object_pairs_hook=_check_names)
    except RecursionError:
        # This decoder allows slightly less nesting than the first.
        raise Invalid("the body is nested too deeply", "") from None


def without_plain_lists(body: bytes) -> bytes:
    """Return valid JSON in which all lists of strings and numbers are empty.

    The caller searches the result for the names in objects, and such lists contain none. Decoding
    100,000 strings only for this search would need three times their size in memory.
    """
    parts: list[bytes] = []
    end = 0
    for found in _TEXT_OR_PLAIN_LIST.finditer(body):
        if body.startswith(b"[", found.start()):
            parts += (body[end : found.start()], b"[]")
            end = found.end()
    return b"".join([*parts, body[end:]])


def read_query(query_string: bytes, kind: type[Q]) -> Q:
    """Return the parameters of a query; each must be known, unique and in canonical form."""
    given = _parameters(query_string)
    try:
        query = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _explained(error, "the query", kind) from None
    for name, text in given.items():
        # This refuses 1e2, 50.0 and null, which the lenient conversion accepts.
        if str(getattr(query, name)) != text:
            raise Invalid(f"{name} is not in canonical form, such as 50 or true", f"/{name}")
    return query


def check_no_query(query_string: bytes) -> None:
    """Refuse a query that has any parameter."""
    for name in _parameters(query_string):
        raise Invalid(f"{name} is not a known parameter", f"/{name}")


def check_host(headers: Mapping[str, str]) -> None:
    """Refuse a request whose `Host` header has characters that no host name can have."""
    if _HOST.fullmatch(headers.get("host", "")) is None:
        raise Invalid


def is_local(request: Request) -> bool:
    """Return True if a request comes from this machine, without a proxy, and from our own page.

    Two headers show which page sent the request. `Origin` names the site of the page, if it is
    another site than the server. `Host` has another name than this machine's if attackers made the
    name of their own site point to this machine.
    """
    headers = request.headers
    if request.client is None or not is_loopback(request.client.host):
        return False
    if any(name in _FORWARDED or name.startswith("x-forwarded-") for name in headers):
        return False
    hosts = headers.getlist("host")
    if len(hosts) != 1 or _OWN_HOST.fullmatch(hosts[0]) is None:
        return False
    own = f"{request.url.scheme}://{hosts[0]}"
    return all(origin == own for origin in headers.getlist("origin"))


def check_path(scope: Scope, template: str) -> None:
    """Raise NotFound for a path that matches a route only after decoding.

    `template` is the path of the matched route. A path that ends with a line feed is refused too:
    the router's pattern ends with `$`, which also matches before a final line feed.
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
            shown = name[:COMPLAINT_CHARS_MAX]
            raise Invalid(f"{shown} is given twice", f"/{shown}")
        seen.add(name)


def _explained(complaint: msgspec.ValidationError, whole: str, kind: object) -> Invalid:
    message, pointer = explain(str(complaint), whole, kind)
    return Invalid(message[:COMPLAINT_CHARS_MAX], pointer[:COMPLAINT_CHARS_MAX])


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
