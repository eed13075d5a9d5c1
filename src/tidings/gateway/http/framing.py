# SPDX-License-Identifier: Apache-2.0
"""Tracks the progress of a request, and decides how many bytes the parser gets at once.

The parser cannot be stopped inside a piece. Wherever requests may begin, pieces are small: one
piece never holds more heads than requests may wait. Inside a body, where no request can begin,
pieces are large.
"""

from typing import Final

from tidings.model import limits

HEAD_PIECE_BYTES: Final = 200
BODY_PIECE_BYTES: Final = 64 * limits.KIB
CHUNK_FRAMING_BYTES: Final = 20
"""Bytes for the size and line ends of a chunk; any more are counted as an extension."""

_SHORTEST_REQUEST: Final = b"GET / HTTP/1.1\r\nHost:\r\n\r\n"
_LAST_CHUNK: Final = b"\n0"
"""Bytes before the end of a chunked body, which may also occur elsewhere in it."""
_ZERO: Final = b"0"[0]

assert 1 + (HEAD_PIECE_BYTES - 1) // len(_SHORTEST_REQUEST) <= limits.PIPELINED_REQUESTS_MAX, (
    "a piece could hold more heads than requests may wait"
)


class RequestFraming:
    """Progress of the current request on a connection, in bytes."""

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
        """Whether the current chunk has no bytes yet: it may be the end of the body."""
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
        """Whether no request is incomplete."""
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
        """Return how many bytes of the data, from `start` on, the parser may get."""
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
