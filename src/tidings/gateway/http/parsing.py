# SPDX-License-Identifier: Apache-2.0
"""Parses the requests of one connection piece by piece, with bounded memory.

The parser cannot be stopped inside a piece. Therefore pieces are small where requests may begin:
one piece cannot contain more requests than are allowed to wait. Inside a body, where no request can
begin, pieces are large.
"""

import asyncio
from abc import abstractmethod
from typing import Final

import httptools
import uvicorn

from tidings.gateway.http.head import HEAD_TOO_LARGE, NOT_HTTP, TRAILERS_TOO_LARGE, ReadGate
from tidings.gateway.http.uvicorn_internals import HttpToolsProtocol, ServerState
from tidings.model import limits

HEAD_PIECE_BYTES: Final = 200
BODY_PIECE_BYTES: Final = 64 * limits.KIB
CHUNK_FRAMING_BYTES: Final = 20
"""Bytes allowed for the size and line ends of a chunk. Further bytes are counted as extensions."""

_SHORTEST_REQUEST: Final = b"GET / HTTP/1.1\r\nHost:\r\n\r\n"
_LAST_CHUNK: Final = b"\n0"
"""Bytes with which the last chunk of a body begins. They may also occur elsewhere in the body."""
_ZERO: Final = b"0"[0]

assert 1 + (HEAD_PIECE_BYTES - 1) // len(_SHORTEST_REQUEST) <= limits.PIPELINED_REQUESTS_MAX, (
    "a piece could hold more heads than requests may wait"
)

REQUEST_SECONDS_MAX: Final = limits.REQUEST_MS_MAX / limits.SECOND_MS
BODY_BYTES_MIN: Final = 512 * limits.KIB
"""Bytes of a long body that must arrive within the time for a request."""


class RequestFraming:
    """Counts the bytes of the current request on a connection, by part of the request."""

    __slots__ = (
        "_body_left",
        "_excess_bytes",
        "_head_bytes",
        "_is_chunk_empty",
        "_is_chunked",
        "_is_in_head",
        "_piece_body_bytes",
        "_piece_chunks",
    )

    def __init__(self) -> None:
        self._is_in_head = False
        self._is_chunked = False
        """Whether the parser is inside a chunked body or its trailers."""
        self._is_chunk_empty = False
        """Whether the current chunk has no bytes yet, so that it may be the last chunk."""
        self._head_bytes = 0
        self._body_left = 0
        """Missing bytes of a body of known length."""
        self._excess_bytes = 0
        """Bytes of trailers and chunk extensions."""
        self._piece_body_bytes = 0
        self._piece_chunks = 0

    @property
    def is_in_body(self) -> bool:
        """Whether the head of a request is complete and its body is not."""
        return self._is_chunked or self._body_left > 0

    @property
    def is_idle(self) -> bool:
        """Whether the parser is between two requests."""
        return not self._is_in_head and not self.is_in_body

    @property
    def is_head_too_large(self) -> bool:
        """Whether the current head is over the limit."""
        return self._is_in_head and self._head_bytes > limits.HEAD_BYTES_MAX

    @property
    def are_trailers_too_large(self) -> bool:
        """Whether trailers and chunk extensions together are over the limit."""
        return self._excess_bytes > limits.TRAILER_BYTES_MAX

    def piece_size(self, data: bytes, start: int) -> int:
        """Return the maximum number of bytes from `start` on that the parser may get at once."""
        if self._body_left:
            return min(self._body_left, BODY_PIECE_BYTES)
        if not self._is_chunked or self._is_chunk_empty or data[start] == _ZERO:
            return HEAD_PIECE_BYTES
        last_chunk = data.find(_LAST_CHUNK, start, start + BODY_PIECE_BYTES)
        if last_chunk < 0:
            return BODY_PIECE_BYTES
        return max(HEAD_PIECE_BYTES, last_chunk + 1 - start)

    # Events of the parser.

    def begin(self) -> None:
        """Begin a request."""
        self._is_in_head, self._head_bytes = True, 0

    def end_head(self, content_length: int | None, *, is_chunked: bool) -> None:
        """End the head."""
        self._is_in_head = False
        self._is_chunked, self._body_left = is_chunked, content_length or 0
        self._excess_bytes = 0

    def body(self, size: int) -> None:
        """Count bytes of a body."""
        self._is_chunk_empty = False
        self._piece_body_bytes += size
        self._body_left = max(0, self._body_left - size)

    def chunk(self) -> None:
        """Begin a chunk."""
        self._is_chunk_empty = True
        self._piece_chunks += 1

    def end(self) -> None:
        """End the request."""
        self._is_chunked, self._is_chunk_empty, self._body_left = False, False, 0

    def fed(self, size: int, *, was_in_chunks: bool) -> None:
        """Count a piece that the parser has consumed."""
        if self._is_in_head:
            self._head_bytes += size
        if was_in_chunks and self._is_chunked:
            allowed = self._piece_body_bytes + CHUNK_FRAMING_BYTES * self._piece_chunks
            self._excess_bytes += max(0, size - allowed)
        self._piece_body_bytes = self._piece_chunks = 0

    @property
    def is_in_chunks(self) -> bool:
        """Whether the parser is inside a chunked body or its trailers."""
        return self._is_chunked


class RequestRefused(Exception):
    """Raised in a callback of the parser to stop the parser; the protocol sends the answer."""


class ParsingProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on the memory that a client can use."""

    flow: ReadGate

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config, state, {})
        self._framing = RequestFraming()
        self._data = b""
        """Bytes read; those from `_at` on are not parsed yet."""
        self._at = 0
        self._deadline: asyncio.TimerHandle | None = None
        """Timer that limits the time from the first byte of a request, valid or not, to its end.
        While a long body arrives fast enough, it is started again."""
        self._body_bytes = 0
        """Bytes of the body that arrived since the timer was started."""
        self._wants_socket = False
        self._is_last = False
        """Whether no request may follow the current one."""
        self._is_over = False
        """Whether all further bytes are ignored."""
        self._refusal = b""
        """Answer to a request that broke a rule, until it is written."""

    @abstractmethod
    def _is_busy_again(self) -> None:
        """Mark the connection as in use."""

    @abstractmethod
    def _refuse(self, refusal: bytes) -> None:
        """Answer a request that broke a rule."""

    @abstractmethod
    def _become_socket(self) -> None:
        """Upgrade to a socket, because the request that has just ended asks for it."""

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._is_over:
            return
        self._is_busy_again()
        self._start_clock()
        self._data = self._data[self._at :] + data if self._data else data
        self._at = 0
        self._parse()

    def _parse(self) -> None:
        """Parse until no bytes are left, or until reading is paused."""
        while self._at < len(self._data) and not self._is_over and not self.flow.read_paused:
            size = self._framing.piece_size(self._data, self._at)
            self._feed(memoryview(self._data)[self._at : self._at + size])
        if self._at >= len(self._data) or self._is_over:
            self._data, self._at = b"", 0

    def _feed(self, piece: memoryview) -> None:
        framing, was_in_chunks = self._framing, self._framing.is_in_chunks
        self._at += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            (end_of_request,) = upgrade.args
            self._at -= len(piece) - end_of_request
            if self._wants_socket:
                self._become_socket()
            return
        except httptools.HttpParserError:
            self._refuse(self._refusal or NOT_HTTP)
            return
        framing.fed(len(piece), was_in_chunks=was_in_chunks)
        if framing.is_head_too_large:
            self._refuse(HEAD_TOO_LARGE)
        elif framing.are_trailers_too_large:
            self._refuse(TRAILERS_TOO_LARGE)

    def _read_on(self) -> None:
        """Parse the remaining bytes, then read more, unless a request waits for its turn."""
        if not self.flow.read_paused or self.pipeline or self.transport.is_closing():
            return
        self.flow.read_paused = False
        self._parse()
        if not self.flow.read_paused:
            self.flow.reopen()

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self._is_last:
            raise RequestRefused
        self._start_clock()
        self._framing.begin()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers arrive here, too. They are ignored: the rules for headers do not apply to them.
        if not self._framing.is_in_body:
            super().on_header(name, value)

    def on_chunk_header(self) -> None:
        """Count a chunk. The parser calls this; uvicorn's protocol does not define it."""
        self._framing.chunk()

    def on_body(self, body: bytes) -> None:
        self._framing.body(len(body))
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_clock()
        self._framing.end()
        super().on_message_complete()

    # Deadline of a request.

    def _start_clock(self) -> None:
        if self._deadline is None:
            self._body_bytes = 0
            self._deadline = self.loop.call_later(REQUEST_SECONDS_MAX, self._time_is_up)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_is_up(self) -> None:
        self._deadline = None
        is_fast = self._framing.is_in_body and self._body_bytes >= BODY_BYTES_MIN
        if self.flow.read_paused or is_fast:
            # The client is not late: this process has paused reading, or the body is long.
            self._start_clock()
        else:
            self.transport.close()
