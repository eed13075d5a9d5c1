# SPDX-License-Identifier: Apache-2.0
"""When a connection is read from, and how what was read for one protocol gets to another."""

import asyncio
from collections.abc import Callable

from tidings.gateway.uvicorn_internals import FlowControl


class ReadGate(FlowControl):
    """Lets the protocol decide when to read on: what it has must be parsed first."""

    def __init__(self, transport: asyncio.Transport, read_on: Callable[[], None]) -> None:
        super().__init__(transport)
        self._read_on: Callable[[], None] | None = read_on
        self._is_transport_paused = False

    def pause_reading(self) -> None:
        self.read_paused = True
        if not self._is_transport_paused and not self._transport.is_closing():
            self._is_transport_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused and self._read_on is not None:
            self._read_on()

    def reopen(self) -> None:
        """Take bytes from the transport again."""
        self.read_paused = False
        if self._is_transport_paused and not self._transport.is_closing():
            self._is_transport_paused = False
            self._transport.resume_reading()

    def release(self) -> None:
        """The connection is gone: let go of the protocol, so that no cycle keeps it in memory."""
        self._read_on = None


def hand_over(
    transport: asyncio.Transport, protocol: asyncio.BufferedProtocol, data: bytes
) -> None:
    """Let another protocol go on with the connection, first with what was read already."""
    protocol.connection_made(transport)
    view = memoryview(data)
    while view and not transport.is_closing():
        buffer = memoryview(protocol.get_buffer(len(view)))
        size = min(len(buffer), len(view))
        buffer[:size] = view[:size]
        protocol.buffer_updated(size)
        view = view[size:]
    # A transport that is reading goes on in the old protocol's way.
    transport.pause_reading()
    transport.set_protocol(protocol)
    transport.resume_reading()
