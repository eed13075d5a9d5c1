# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client that writes bytes, and so can write wrong ones too."""

import asyncio
import socket
import ssl
from collections.abc import Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

import msgspec

TEXT: Final = 0x1
BINARY: Final = 0x2
CONTINUATION: Final = 0x0
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

NO_CLOSE_FRAME: Final = 1006
WAIT_SECONDS: Final = 60.0
MASK: Final = bytes((0x12, 0x34, 0x56, 0x78))
SOCKET_PATH: Final = "/v1/ws"

UPGRADE: Final[Mapping[str, str]] = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def upgrade_request(
    port: int,
    path: str = SOCKET_PATH,
    *,
    method: str = "GET",
    headers: Mapping[str, str | None] = MappingProxyType({}),
) -> bytes:
    """The bytes of a handshake with these headers changed; a header of None is left out."""
    lines = {"Host": f"127.0.0.1:{port}", **UPGRADE, **headers}
    head = [f"{name}: {value}" for name, value in lines.items() if value is not None]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *head, "", ""]).encode("latin-1")


def ws_frame(
    payload: bytes,
    opcode: int = TEXT,
    *,
    fin: bool = True,
    reserved: int = 0,
    is_masked: bool = True,
    claimed_length: int | None = None,
) -> bytes:
    """One frame as it stands on the wire; `claimed_length` is what its header says instead."""
    length = len(payload) if claimed_length is None else claimed_length
    head = bytearray([fin << 7 | reserved << 4 | opcode])
    mask_bit = 0x80 if is_masked else 0
    if length < 126:
        head.append(mask_bit | length)
    elif length < 1 << 16:
        head += bytes([mask_bit | 126]) + length.to_bytes(2, "big")
    else:
        head += bytes([mask_bit | 127]) + length.to_bytes(8, "big")
    if not is_masked:
        return bytes(head) + payload
    key = (MASK * (len(payload) // 4 + 1))[: len(payload)]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")
    return bytes(head) + MASK + masked.to_bytes(len(payload), "big")


class RawSocket:
    """A TCP connection to the server's port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(
        cls,
        port: int,
        *,
        receive_bytes: int | None = None,
        tls: ssl.SSLContext | None = None,
        source: str | None = None,
    ) -> Self:
        """Connect and say nothing; `receive_bytes` is all that the kernel keeps unread, `source`
        the address to come from."""
        connection = socket.socket()
        if source is not None:
            connection.bind((source, 0))
        if receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        name = None if tls is None else "localhost"
        return cls(*await asyncio.open_connection(sock=connection, ssl=tls, server_hostname=name))

    @classmethod
    async def upgraded(
        cls, port: int, *, receive_bytes: int | None = None, tls: ssl.SSLContext | None = None
    ) -> Self:
        """Connect and become a WebSocket."""
        raw = await cls.connect(port, receive_bytes=receive_bytes, tls=tls)
        raw.write(upgrade_request(port))
        status = await raw.status()
        assert status == 101, f"the handshake was answered by {status}"
        return raw

    @classmethod
    async def greeted(
        cls,
        port: int,
        token: str,
        device: str = "raw",
        *,
        receive_bytes: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """A WebSocket that has said hello and is live."""
        raw = await cls.upgraded(port, receive_bytes=receive_bytes, tls=tls)
        raw.tell({"op": "hello", "token": token, "device": device})
        await raw.frame("live")
        return raw

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abort()

    def abort(self) -> None:
        """Be gone without a word."""
        self._writer.transport.abort()

    def stop_reading(self) -> None:
        """Let whatever the server says pile up."""
        self._transport.pause_reading()

    def read_on(self) -> None:
        """Take again what the server says."""
        self._transport.resume_reading()

    @property
    def _transport(self) -> asyncio.ReadTransport:
        transport = self._writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        return transport

    @property
    def is_reset(self) -> bool:
        """Whether the server has hung up, as far as writing tells."""
        return self._writer.transport.is_closing()

    # Saying.

    def write(self, data: bytes | Iterable[bytes]) -> None:
        """Write bytes as they are; lost if the server has hung up."""
        self._writer.write(data if isinstance(data, bytes) else b"".join(data))

    def tell(self, frame: Mapping[str, Any]) -> None:
        """Write a frame of the protocol."""
        self.write(ws_frame(msgspec.json.encode(frame)))

    async def flush(self) -> None:
        """Wait until what was written is on its way."""
        await self._writer.drain()

    def hang_up(self) -> None:
        """Say that nothing more will come."""
        self._writer.write_eof()

    # Hearing.

    async def first_status(self) -> int:
        """The status of the first HTTP answer; 0 if the connection ends without one."""
        try:
            return await self.status()
        except (EOFError, ConnectionError):
            return 0

    async def status(self) -> int:
        """Read the head of an HTTP answer, and its body if it says how long that is."""
        status, _, _ = await self.answer()
        return status

    async def answer(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        """Read an HTTP answer: status, headers with small letters, body if it has one."""
        async with asyncio.timeout(WAIT_SECONDS):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
            size = int(headers.get("content-length", 0)) if has_body else 0
            body = await self._reader.readexactly(size)
        return int(first.split(" ")[1]), headers, body

    async def is_at_end(self) -> bool:
        """Whether the server ends the connection without another byte."""
        async with asyncio.timeout(WAIT_SECONDS):
            try:
                return await self._reader.read(1) == b""
            except ConnectionError:
                return True

    async def read(self) -> tuple[int, bytes]:
        """The next WebSocket frame: opcode and payload. Raises EOFError at the end."""
        async with asyncio.timeout(WAIT_SECONDS):
            first, second = await self._reader.readexactly(2)
            length = second & 0x7F
            if length >= 126:
                length = int.from_bytes(await self._reader.readexactly(2 if length == 126 else 8))
            return first & 0x0F, await self._reader.readexactly(length)

    async def frame(self, op: str) -> dict[str, Any]:
        """The next frame of the protocol with this op; others are passed over."""
        while True:
            opcode, payload = await self.read()
            if opcode == CLOSE:
                raise EOFError(f"closed with {int.from_bytes(payload[:2])}")
            if opcode == TEXT:
                told: dict[str, Any] = msgspec.json.decode(payload)
                if told["op"] == op:
                    return told

    async def close_code(self) -> int:
        """Read to the end: the code the server closed with; 1006 if it gave none."""
        try:
            while True:
                opcode, payload = await self.read()
                if opcode == CLOSE:
                    return int.from_bytes(payload[:2])
        except (EOFError, ConnectionError):
            return NO_CLOSE_FRAME
