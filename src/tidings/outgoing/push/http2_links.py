# SPDX-License-Identifier: Apache-2.0
"""Opens connections for HTTP/2 over TLS, and replaces those that have ended."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from tidings.model.addresses import Networks
from tidings.outgoing.guard import AddressRefused, guarded_socket
from tidings.outgoing.push.answers import NoAnswer, ServiceAnswer
from tidings.outgoing.push.http2 import Http2Connection
from tidings.outgoing.push.loading import trusted_certificates
from tidings.ports.push import PushOutcome

HTTPS_PORT: Final = 443
_PROTOCOL: Final = "h2"


class Http2Link:
    """The connection to one server that all requests with the same credentials share.

    The first request opens it, and the next one after its end opens another. A link that is not
    used any more is closed by the server.
    """

    def __init__(self, url: str, allowed: Networks, tls: ssl.SSLContext | None = None) -> None:
        """Create a link, not connected; without `tls`, the machine's certificates are trusted."""
        self._url = url
        self._tls = tls
        self._allowed = allowed
        self._lock = asyncio.Lock()
        self._connection: Http2Connection | None = None

    async def post(
        self, headers: Sequence[tuple[str, str]], body: bytes, seconds_max: float
    ) -> ServiceAnswer:
        """Send a request; on a new connection if the one that was open has ended meanwhile.

        Raises:
            NoAnswer: There was no answer in time.
        """
        until = asyncio.get_running_loop().time() + seconds_max
        try:
            async with asyncio.timeout_at(until):
                connection = await self._open()
        except TimeoutError:
            raise NoAnswer(PushOutcome("not_sent", "no connection in time")) from None
        return await connection.post(headers, body, until - asyncio.get_running_loop().time())

    def close(self) -> None:
        """Close the connection after the requests under way."""
        if self._connection is not None:
            self._connection.end()

    async def _open(self) -> Http2Connection:
        async with self._lock:
            if self._connection is None or not await self._connection.is_alive():
                if self._tls is None:
                    self._tls = await asyncio.to_thread(trusted_certificates)
                self._tls.set_alpn_protocols([_PROTOCOL])
                self._connection = await _connect(self._url, self._allowed, self._tls)
            return self._connection


async def _connect(url: str, allowed: Networks, tls: ssl.SSLContext) -> Http2Connection:
    """Return a new connection to the server of a URL, whose address must be allowed."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        opened = await _connected_socket(host, parts.port or HTTPS_PORT, allowed)
        try:
            transport, connection = await asyncio.get_running_loop().create_connection(
                Http2Connection, sock=opened, ssl=tls, server_hostname=host
            )
        except BaseException:
            opened.close()
            raise
    except AddressRefused:
        raise NoAnswer(PushOutcome("refused", "the address is not public")) from None
    except ssl.SSLError as error:
        raise NoAnswer(PushOutcome("refused", type(error).__name__)) from None
    except OSError:
        raise NoAnswer(PushOutcome("not_sent", "no connection")) from None
    chosen = transport.get_extra_info("ssl_object").selected_alpn_protocol()
    if chosen != _PROTOCOL:
        transport.abort()
        raise NoAnswer(PushOutcome("refused", "the server does not speak HTTP/2"))
    return connection


async def _connected_socket(host: str, port: int, allowed: Networks) -> socket.socket:
    """Return a socket that is connected to the first address of a host that answers."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    make = guarded_socket(allowed, is_secure=True)
    failure: OSError = OSError("the host has no address")
    for info in found:
        try:
            opened = make(info)
        except OSError as error:
            failure = error
            continue
        try:
            opened.setblocking(False)
            await loop.sock_connect(opened, info[4])
            return opened
        except OSError as error:
            opened.close()
            failure = error
        except BaseException:
            opened.close()
            raise
    raise failure
