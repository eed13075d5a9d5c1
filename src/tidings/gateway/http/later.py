# SPDX-License-Identifier: Apache-2.0
"""Refuses a socket for now, in a form in which every client sees the time to wait.

A program sees the status and the headers of a refused handshake. A page in a browser sees neither,
and would try again at once. Therefore a page gets its socket, then `bye` with the time to wait, and
the socket is closed.
"""

import base64
import hashlib
from typing import Final

import msgspec

from tidings.gateway.http.head import Headers, busy, header_values
from tidings.metrics import declared
from tidings.model.limits import SECOND_MS
from tidings.wire.codes import Close
from tidings.wire.frames import Bye, encode
from tidings.wire.websocket import CLOSE_FRAME, TEXT_FRAME, header

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""The text that RFC 6455 (1.3) appends to the key of a handshake."""


class Later(msgspec.Struct, frozen=True):
    """A temporary refusal of a socket."""

    detail: str
    reason: str
    """The reason in metrics."""
    code: Close = Close.OVERLOADED
    seconds: int = 1

    def answer(self, headers: Headers) -> bytes:
        """Return all bytes of the answer to a valid handshake, after which the connection is
        closed."""
        declared.sockets_refused.counts[self.reason] += 1
        if not header_values(headers, b"origin"):
            return busy(self.detail, self.seconds)
        [key] = header_values(headers, b"sec-websocket-key")
        bye = encode(Bye(self.code, True, self.seconds * SECOND_MS))
        reason = self.code.to_bytes(2)
        return (
            _accepted(key)
            + header(TEXT_FRAME, len(bye))
            + bye
            + header(CLOSE_FRAME, len(reason))
            + reason
        )


REVOCATIONS_UNREAD: Final = Later("revocations cannot be read", "blind")
DRAINING: Final = Later("the server is restarting", "draining", Close.RESTARTING)
SOCKETS_TAKEN: Final = Later("too many sockets are open", "full", seconds=5)


def _accepted(key: bytes) -> bytes:
    digest = hashlib.sha1(key + _GUID, usedforsecurity=False).digest()
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
    )
