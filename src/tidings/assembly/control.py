# SPDX-License-Identifier: Apache-2.0
"""The channel between the supervisor and one of its processes.

Over it, owner and fronts get the ends of the links between them, and the supervisor learns when a
process is ready. If the supervisor ends, its processes notice and end too.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from tidings.fronts.owner import Fronts
from tidings.metrics.meters import Packed, lasting
from tidings.tasks import Tasks

READY: Final = b"ready"
_LINKED_BYTES_MAX: Final = 128
_decode_metrics = msgspec.msgpack.Decoder(Packed).decode
LINK_SOCKETS: Final = 2
"""Sockets of a link: one for messages, and one for the descriptors of clients' sockets."""


class LinkedProcess(msgspec.Struct, frozen=True, array_like=True):
    """The process at the other end of a link."""

    name: str
    pid: int


_encode = msgspec.msgpack.Encoder().encode
_decode_linked = msgspec.msgpack.Decoder(LinkedProcess).decode


@dataclass(frozen=True, slots=True)
class Supervised:
    """What a process gets from its supervisor."""

    control: socket.socket
    listeners: tuple[socket.socket, ...]
    """Sockets that listen on the address of the server."""
    fronts: int
    """Number of fronts of an owner; 0 if the process holds its sockets itself."""
    is_first: bool
    """Whether this is the first process that prints how to use the server."""

    def say_ready(self) -> None:
        """Let the supervisor know that this process serves."""
        with suppress(OSError):  # the supervisor has ended, which the process notices elsewhere
            self.control.send(READY)


def send_link(
    control: socket.socket, other: LinkedProcess, ends: tuple[socket.socket, ...]
) -> None:
    """Send a process its ends of a link to another one; a process that has died gets nothing."""
    try:
        socket.send_fds(control, [_encode(other)], [end.fileno() for end in ends])
    except OSError:
        return


class Control:
    """The end of the channel in a supervised process."""

    def __init__(
        self,
        channel: socket.socket,
        linked: Callable[[LinkedProcess, socket.socket, socket.socket], None],
        orphaned: Callable[[], None],
    ) -> None:
        """Set up the channel; `linked` is called with each link, and `orphaned` when the supervisor
        has ended."""
        self._channel = channel
        self._linked = linked
        self._orphaned = orphaned
        channel.setblocking(False)

    def start(self) -> None:
        """Start to receive links."""
        asyncio.get_running_loop().add_reader(self._channel, self._read)

    def close(self) -> None:
        """Receive nothing any more."""
        asyncio.get_running_loop().remove_reader(self._channel)
        self._channel.close()

    def _read(self) -> None:
        try:
            other, ends, _, _ = socket.recv_fds(self._channel, _LINKED_BYTES_MAX, LINK_SOCKETS)
        except BlockingIOError:
            return
        except OSError:
            other, ends = b"", []
        if len(ends) == LINK_SOCKETS:
            stream, channel = (socket.socket(fileno=end) for end in ends)
            stream.setblocking(False)
            self._linked(_decode_linked(other), stream, channel)
            return
        asyncio.get_running_loop().remove_reader(self._channel)
        self._orphaned()


class FrontLinks:
    """Takes in the fronts whose links the supervisor sends to an owner."""

    def __init__(
        self, supervised: Supervised, fronts: Fronts | None, stop: Callable[[], None]
    ) -> None:
        """Start to take in fronts; `fronts` is None in a process that has none. `stop` is called
        when the supervisor has ended."""
        self._fronts = fronts
        self._past: Packed = []
        """The metrics of fronts that have ended."""
        self._tasks = Tasks("front links")
        self._control = Control(supervised.control, self._linked, stop)
        self._control.start()

    def _linked(self, front: LinkedProcess, stream: socket.socket, channel: socket.socket) -> None:
        assert self._fronts is not None, "only an owner is sent links"
        self._tasks.start(self._fronts.add(front.name, front.pid, stream, channel))

    async def metrics(self) -> list[Packed]:
        """Return the metrics of all fronts that have ever had a link to this owner."""
        if self._fronts is None:
            return []
        present, ended = await self._fronts.metrics()
        if ended:
            self._past = lasting([self._past, *map(_decode_metrics, ended)])
        return [self._past, *map(_decode_metrics, present)]

    async def close(self) -> None:
        """Take in nobody any more."""
        self._control.close()
        await self._tasks.close()
