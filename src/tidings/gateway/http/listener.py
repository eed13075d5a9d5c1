# SPDX-License-Identifier: Apache-2.0
"""Listens on one port for sockets and HTTP, and creates the protocol of each connection.

The listener peeks at the first bytes of each connection: `GET /v1/ws` is counted as a socket if the
process serves sockets, anything else as HTTP. If there is no room for another connection, the
client gets 503. On a port with a certificate, the first bytes after the handshake decide.

The kernel wakes the process only when enough bytes for this decision have arrived. Therefore a
client that sends one byte and waits costs nothing.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import uvicorn

from tidings.gateway.http.connection_limits import (
    ConnectionClass,
    ConnectionLimits,
    Slot,
    Undecided,
    Waiting,
)
from tidings.gateway.http.encryption import Encryption, is_encrypted, refuse_plain
from tidings.gateway.http.head import CONNECTIONS_TAKEN, SocketMaker
from tidings.gateway.http.protocol import HttpProtocol
from tidings.gateway.http.uvicorn_internals import ServerState
from tidings.metrics import declared
from tidings.tasks import Tasks

DRAIN_SECONDS_MAX: Final = 10.0
CHECK_SECONDS: Final = 2.0
"""Interval of the check for clients that do not read. It takes 0.2 µs per connection."""

log = logging.getLogger("tidings.listener")

SOCKET_REQUEST: Final = b"GET /v1/ws"
PEEK_BYTES: Final = len(SOCKET_REQUEST) + 1
FIRST_BYTES_SECONDS_MAX: Final = 10.0
BACKLOG: Final = 2_048

REFUSALS_PER_LOG_LINE: Final = 100

ProtocolFactory = Callable[[Slot], asyncio.Protocol]


def nobody_is_root(_authorization: bytes) -> bool:
    """Return False: the process has no root key."""
    return False


class Http:
    """Creates, tracks and drains all HTTP connections of the process."""

    def __init__(
        self,
        app: Any,  # noqa: ANN401 - any ASGI app
        sockets: SocketMaker | None,
        limits: ConnectionLimits,
        is_root: Callable[[bytes], bool] = nobody_is_root,
    ) -> None:
        """Set up the connections.

        Args:
            app: Answers the requests.
            sockets: Accepts or refuses requests for a socket. If None, they are answered with 404.
            limits: Limits on open connections.
            is_root: Checks whether an `Authorization` header carries the root key.
        """
        self._sockets = sockets
        self._limits = limits
        self._is_root = is_root
        self._config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,  # trusted proxies are a setting of ours
        )
        self._config.load()
        self._state = ServerState()
        self._checking: asyncio.TimerHandle | None = None

    def protocol(self, slot: Slot) -> asyncio.Protocol:
        """Return a protocol for one connection."""
        if self._checking is None:
            self._check_later()
        return HttpProtocol(
            self._config, self._state, self._sockets, self._limits, slot, self._is_root
        )

    @property
    def connections(self) -> list[HttpProtocol]:
        """Open connections that did not become sockets."""
        return [c for c in self._state.connections if isinstance(c, HttpProtocol)]

    def _check_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._checking = loop.call_later(CHECK_SECONDS, self._check_progress)

    def _check_progress(self) -> None:
        """Cut off clients that do not read; stop checking when no connection is left."""
        self._checking = None
        now = asyncio.get_running_loop().time()
        for connection in self.connections:
            connection.check_progress(now)
        if self._state.connections:
            self._check_later()

    async def drain(self) -> None:
        """Let running requests finish, then close the connections."""
        for connection in self.connections:
            connection.shutdown()
        try:
            async with asyncio.timeout(DRAIN_SECONDS_MAX):
                while self._state.tasks:
                    await asyncio.wait(list(self._state.tasks))
        except TimeoutError:
            return
        finally:
            if self._checking is not None:
                self._checking.cancel()


class Listener:
    """A listening port. It passes each accepted connection to the right protocol."""

    def __init__(
        self,
        protocol: ProtocolFactory,
        limits: ConnectionLimits,
        *,
        has_sockets: bool,
        first_bytes_seconds_max: float = FIRST_BYTES_SECONDS_MAX,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """Set up the port.

        Args:
            protocol: Makes the protocol of a connection.
            limits: Limits on open connections.
            has_sockets: Whether the process serves sockets.
            first_bytes_seconds_max: Time for a client to send its first bytes.
            tls: Returns the TLS settings for a new connection. If None, the port speaks plain HTTP.
        """
        self._protocol = protocol
        self._limits = limits
        self._has_sockets = has_sockets
        self._first_bytes_seconds_max = first_bytes_seconds_max
        self._refused = 0
        self._tasks = Tasks("listener")
        self._undecided = Undecided(limits.undecided_max, limits.undecided_of_address_max)
        self._encryption = None
        if tls is not None:
            self._encryption = Encryption(tls, self._undecided, first_bytes_seconds_max)
        self._listeners: list[socket.socket] = []

    @property
    def port(self) -> int:
        """Port that the process listens on."""
        port: int = self._listeners[0].getsockname()[1]
        return port

    async def open(self, host: str, port: int, inherited: Sequence[socket.socket] = ()) -> None:
        """Start to listen. Raises OSError if the address is not available.

        If the process has inherited sockets that listen already, it uses these.
        """
        self._listeners += inherited or await asyncio.to_thread(listen, host, port)
        for listener in self._listeners:
            self._tasks.start(self._accept(listener))

    async def close(self) -> None:
        """Stop accepting; connections that were handed over stay open."""
        await self._tasks.close()
        for listener in self._listeners:
            listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError as error:
                # Most likely no file descriptor is left: open connections must go on.
                log.warning("cannot accept", extra={"action": "accept_failed", "error": str(error)})
                await asyncio.sleep(0.1)
                continue
            self._tasks.start(self._hand_over(connection, address[0]))

    async def _hand_over(self, connection: socket.socket, peer: str) -> None:
        slot: Slot | None = None
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start = await self._first_bytes(connection, self._limits.address(peer))
            if not start:
                connection.close()
                return
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            if self._encryption is not None:
                await self._decrypt(self._encryption, connection, peer, start)
                return
            kind = kind_of(start, has_sockets=self._has_sockets)
            slot = self._limits.enter(kind, peer)
            if slot is None:
                self._refuse(connection)
                return
            await self._connect(connection, slot)
        except (OSError, TimeoutError):
            connection.close()
            self._give_back(slot)
        except asyncio.CancelledError:
            connection.close()
            self._give_back(slot)
            raise

    async def _decrypt(
        self, encryption: Encryption, connection: socket.socket, peer: str, start: bytes
    ) -> None:
        if is_encrypted(start):
            admit = partial(self._admit, peer)
            await encryption.begin(connection, self._limits.address(peer), PEEK_BYTES, admit)
        else:
            refuse_plain(connection)

    def _admit(self, peer: str, transport: asyncio.Transport, data: bytes) -> bool:
        """Give an encrypted connection, which has sent its first bytes, to the right protocol.

        Returns False if there is no room, and the connection is closed.
        """
        kind = kind_of(data[:PEEK_BYTES], has_sockets=self._has_sockets)
        slot = self._limits.enter(kind, peer)
        if slot is None:
            self._count_refusal()
            transport.write(CONNECTIONS_TAKEN)
            transport.close()
            return False
        protocol = self._protocol(slot)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(data)
        return True

    async def _connect(self, connection: socket.socket, slot: Slot) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self._protocol(slot), connection)

    def _give_back(self, slot: Slot | None) -> None:
        if slot is not None:
            self._limits.leave(slot)

    def _refuse(self, connection: socket.socket) -> None:
        """Send the refusal if the kernel accepts it without waiting, then close."""
        self._count_refusal()
        with suppress(OSError):
            connection.send(CONNECTIONS_TAKEN)
        connection.close()

    def _count_refusal(self) -> None:
        if self._refused % REFUSALS_PER_LOG_LINE == 0:
            extra = {"action": "connections_refused", "count": self._refused + 1}
            log.warning("too many connections", extra=extra)
        self._refused += 1
        declared.sockets_refused.counts["connections"] += 1

    async def _first_bytes(self, connection: socket.socket, address: str | None) -> bytes:
        """Return the first bytes, without consuming them; empty if the client sends none."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, PEEK_BYTES)
        ready = self._undecided.enter(address)
        try:
            await self._readable(connection, ready)
        finally:
            self._undecided.leave(ready, address)
        return connection.recv(PEEK_BYTES, socket.MSG_PEEK)

    async def _readable(self, connection: socket.socket, ready: Waiting) -> None:
        loop = asyncio.get_running_loop()
        descriptor = connection.fileno()
        loop.add_reader(descriptor, _settle, ready)
        try:
            async with asyncio.timeout(self._first_bytes_seconds_max):
                await ready
        finally:
            loop.remove_reader(descriptor)


def kind_of(start: bytes, *, has_sockets: bool) -> ConnectionClass:
    """Return the kind of a connection whose first request starts with these bytes.

    A process without sockets answers a request for a socket like any other request. Therefore it
    counts such a request as HTTP. Otherwise the request would bypass the limits on HTTP.
    """
    is_socket = start.startswith(SOCKET_REQUEST) and start[len(SOCKET_REQUEST) :] in (b" ", b"?")
    return ConnectionClass.SOCKET if has_sockets and is_socket else ConnectionClass.HTTP


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host.

    Raises:
        OSError: An address is not available.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [
        _listen(family, kind, protocol, address)
        for family, kind, protocol, _, address in dict.fromkeys(found)
    ]


def _listen(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _settle(ready: Waiting) -> None:
    if not ready.done():
        ready.set_result(None)
