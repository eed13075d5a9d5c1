# SPDX-License-Identifier: Apache-2.0
"""Answers that the port gives by itself, before any application sees the request.

They are fixed texts in the same form as every other refusal and repeat nothing of the request.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from tidings.model.refusals import Forbidden, Invalid, Refusal, TooLarge, Unavailable

_NO_MORE: Final[Mapping[str, str]] = MappingProxyType({})


def refusal_bytes(
    status: HTTPStatus,
    kind: type[Refusal],
    detail: str,
    more_headers: Mapping[str, str] = _NO_MORE,
) -> bytes:
    """A whole HTTP answer; the connection ends with it."""
    problem = {
        "type": f"/docs#{kind.code}",
        "title": kind.title,
        "status": status.value,
        "detail": detail,
        "code": kind.code,
    }
    body = json.dumps(problem, separators=(",", ":")).encode()
    headers = {
        "content-type": "application/problem+json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        **more_headers,
        "connection": "close",
    }
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def malformed(detail: str) -> bytes:
    """The request breaks a rule of the protocol."""
    return refusal_bytes(HTTPStatus.BAD_REQUEST, Invalid, detail)


def busy(detail: str, retry_seconds: int = 1) -> bytes:
    """Not now."""
    retry = {"retry-after": str(retry_seconds)}
    return refusal_bytes(HTTPStatus.SERVICE_UNAVAILABLE, Unavailable, detail, retry)


NOT_HTTP: Final = malformed("this is not a request of HTTP/1.1")
HOST_MISSING: Final = malformed("a request needs exactly one Host header")
ENCODING_IN_OLD_VERSION: Final = malformed("HTTP/1.0 has no Transfer-Encoding")
ENCODING_UNKNOWN: Final = refusal_bytes(
    HTTPStatus.NOT_IMPLEMENTED, Invalid, "the only Transfer-Encoding is chunked"
)
VERSION_UNKNOWN: Final = refusal_bytes(
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, Invalid, "HTTP/1.1 is spoken here"
)
HEAD_TOO_LARGE: Final = refusal_bytes(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TooLarge, "the head is too large"
)
TRAILERS_TOO_LARGE: Final = refusal_bytes(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    TooLarge,
    "trailers and chunk extensions are too large",
)
CONNECTIONS_TAKEN: Final = busy("too many connections are open", retry_seconds=5)

NOT_AN_UPGRADE: Final = malformed("this is not the handshake of a WebSocket")
KEY_INVALID: Final = malformed("Sec-WebSocket-Key is not 16 bytes in base64")
SOCKET_VERSION_UNKNOWN: Final = refusal_bytes(
    HTTPStatus.UPGRADE_REQUIRED,
    Invalid,
    "version 13 of the WebSocket protocol is spoken here",
    {"sec-websocket-version": "13"},
)
ORIGIN_REFUSED: Final = refusal_bytes(
    HTTPStatus.FORBIDDEN, Forbidden, "this origin may not open a socket"
)
REVOCATIONS_UNREAD: Final = busy("revocations cannot be read")
DRAINING: Final = busy("the server is restarting")
SOCKETS_TAKEN: Final = busy("too many sockets are open", retry_seconds=5)
