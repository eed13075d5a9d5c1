# SPDX-License-Identifier: Apache-2.0
"""One end of the link between the owner and a front: batches of messages over a local socket.

All messages of a turn of the event loop are one write. What arrives is handled in slices of a few
milliseconds, and nothing more is read while too much waits. The other side then notices that its
messages pile up. What waits when the link ends is dropped: it would concern sockets and connections
that were forgotten with the link, and whose numbers the next link may use for others.
"""

import asyncio
import itertools
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import msgspec

from tidings.fronts.messages import LinkAnswer
from tidings.fronts.questions import QuestionKind
from tidings.model import limits
from tidings.tasks import TurnBudget

T = TypeVar("T")

SIZE_BYTES: Final = 4
WAITING_MAX: Final = 2_000
"""Number of messages that may wait to be handled before reading pauses."""
READ_BUFFER_BYTES: Final = 256 * limits.KIB
QUEUED_BYTES_MAX: Final = 128 * 1024 * limits.KIB
"""Bytes after which the other side is given up, because it does not read."""

_encode = msgspec.msgpack.Encoder().encode


class LinkLost(Exception):
    """The other side has ended before it answered."""


class FrontLink(asyncio.BufferedProtocol):
    """Sends messages to the other side, and passes on what it sends."""

    def __init__(
        self,
        decode: Callable[[memoryview], Any],
        take: Callable[[Any], None],
        lost: Callable[["FrontLink"], None],
        drained: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up an end of the link.

        Args:
            decode: Decodes a message of the other side.
            take: Handles a message, except answers.
            lost: Called when the other side has gone.
            drained: Called when most of what waited was sent.
        """
        self._decode = decode
        self._take = take
        self._lost = lost
        self._drained = drained
        self._transport: asyncio.Transport | None = None
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._chunk = bytearray(READ_BUFFER_BYTES)
        self._rest = b""
        self._slices = TurnBudget()
        self._waiting = 0
        self._is_paused = False
        self._numbers = itertools.count()
        self._asked: dict[int, tuple[QuestionKind[Any], asyncio.Future[Any]]] = {}
        self.is_lost = False

    @property
    def queued_bytes(self) -> int:
        """Bytes that the other side has not read yet."""
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return unsent + self._unwritten_bytes

    def send(self, message: msgspec.Struct) -> None:
        """Send a message at the end of this turn of the event loop."""
        if self.is_lost:
            return
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self._flush)
        body = _encode(message)
        self._unwritten += (len(body).to_bytes(SIZE_BYTES), body)
        self._unwritten_bytes += len(body)

    async def ask(self, question: QuestionKind[T], *arguments: object) -> T:
        """Ask the other side.

        Raises:
            LinkLost: The other side has ended.
            Refusal: The other side refused.
        """
        if self.is_lost:
            raise LinkLost
        number, answered = next(self._numbers), asyncio.get_running_loop().create_future()
        self._asked[number] = question, answered
        self.send(question.ask(number, *arguments))
        try:
            found: T = await answered
        finally:
            self._asked.pop(number, None)
        return found

    def answer(self, answer: LinkAnswer) -> None:
        """Pass an answer to the caller who waits for it."""
        question, answered = self._asked.pop(answer.number, (None, None))
        if question is None or answered is None or answered.done():
            return
        try:
            answered.set_result(question.value(answer))
        except Exception as refusal:
            answered.set_exception(refusal)

    def close(self) -> None:
        """End the link."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the link at once, with what was not sent yet."""
        if self._transport is not None:
            self._transport.abort()

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Transports of uvloop are not derived from those of asyncio.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_lost, self._transport = True, None
        self._unwritten, self._unwritten_bytes = [], 0
        asked, self._asked = self._asked, {}
        for _, answered in asked.values():
            if not answered.done():
                answered.set_exception(LinkLost())
        self._lost(self)

    def resume_writing(self) -> None:
        self._drained()

    def get_buffer(self, _size: int) -> bytearray:
        return self._chunk

    def buffer_updated(self, size: int) -> None:
        data = self._rest + memoryview(self._chunk)[:size]
        view, at = memoryview(data), 0
        while len(data) - at >= SIZE_BYTES:
            end = at + SIZE_BYTES + int.from_bytes(view[at : at + SIZE_BYTES])
            if end > len(data):
                break
            self._waiting += 1
            self._slices.do(self._handle, self._decode(view[at + SIZE_BYTES : end]))
            at = end
        self._rest = data[at:]
        if self._waiting > WAITING_MAX and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _handle(self, message: object) -> None:
        self._waiting -= 1
        if self.is_lost:
            return  # its end was handled already
        if self._is_paused and self._waiting <= WAITING_MAX // 2:
            self._is_paused = False
            if self._transport is not None:
                self._transport.resume_reading()
        if isinstance(message, LinkAnswer):
            self.answer(message)
        else:
            self._take(message)

    def _flush(self) -> None:
        frames, self._unwritten, self._unwritten_bytes = self._unwritten, [], 0
        if frames and self._transport is not None:
            self._transport.write(b"".join(frames))
            if self._transport.get_write_buffer_size() > QUEUED_BYTES_MAX:
                self._transport.abort()


async def read_first(stream: socket.socket) -> bytes | None:
    """Return the first message on a socket that has no link yet; None if the other side has
    ended."""
    size = await _read(stream, SIZE_BYTES)
    return None if size is None else await _read(stream, int.from_bytes(size))


async def _read(stream: socket.socket, size: int) -> bytes | None:
    read = b""
    while len(read) < size:
        with suppress(OSError):
            data = await asyncio.get_running_loop().sock_recv(stream, size - len(read))
            if data:
                read += data
                continue
        return None
    return read
