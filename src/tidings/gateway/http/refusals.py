# SPDX-License-Identifier: Apache-2.0
"""Refusals that are sent before the application sees the request.

They are fixed texts in the format of every other refusal and repeat nothing of the request.
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
    """Return a complete HTTP answer, after which the connection is closed."""
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
    """Return the answer to a request that breaks a rule of the protocol."""
    return refusal_bytes(HTTPStatus.BAD_REQUEST, Invalid, detail)


def busy(detail: str, retry_seconds: int = 1) -> bytes:
    """Return an answer that asks the client to retry later."""
    retry = {"retry-after": str(retry_seconds)}
    return refusal_bytes(HTTPStatus.SERVICE_UNAVAILABLE, Unavailable, detail, retry)


NOT_HTTP: Final = malformed("this is not an HTTP/1.1 request")
HOST_MISSING: Final = malformed("a request must have exactly one Host header")
ENCODING_IN_OLD_VERSION: Final = malformed("Transfer-Encoding is not allowed in HTTP/1.0")
ENCODING_UNKNOWN: Final = refusal_bytes(
    HTTPStatus.NOT_IMPLEMENTED, Invalid, "the only supported Transfer-Encoding is chunked"
)
VERSION_UNKNOWN: Final = refusal_bytes(
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, Invalid, "the supported version is HTTP/1.1"
)
HEAD_TOO_LARGE: Final = refusal_bytes(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    TooLarge,
    "the request line and headers are too large",
)
TRAILERS_TOO_LARGE: Final = refusal_bytes(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    TooLarge,
    "trailers and chunk extensions are too large",
)
CONNECTIONS_TAKEN: Final = busy("too many connections are open", retry_seconds=5)

NOT_AN_UPGRADE: Final = malformed("this is not a WebSocket handshake")
KEY_INVALID: Final = malformed("Sec-WebSocket-Key must be 16 bytes in base64")
SOCKET_VERSION_UNKNOWN: Final = refusal_bytes(
    HTTPStatus.UPGRADE_REQUIRED,
    Invalid,
    "the supported version of the WebSocket protocol is 13",
    {"sec-websocket-version": "13"},
)
ORIGIN_REFUSED: Final = refusal_bytes(
    HTTPStatus.FORBIDDEN, Forbidden, "this origin may not open a socket"
)
REVOCATIONS_UNREAD: Final = busy("revocations cannot be read")
DRAINING: Final = busy("the server is restarting")
SOCKETS_TAKEN: Final = busy("too many sockets are open", retry_seconds=5)
