# SPDX-License-Identifier: Apache-2.0
"""Apple's push service: HTTP/2 over TLS. It checks what a server sends, as the real one does."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from time import time
from typing import Any, cast

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, PingReceived, RequestReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes
from hyperframe.frame import GoAwayFrame

KEY_ID = "ABC123DEFG"
TEAM_ID = "DEF123GHIJ"
TOPIC = "com.example.chat"
ALLOWED = {
    ":method", ":scheme", ":authority", ":path", "authorization", "apns-topic", "apns-push-type",
    "apns-priority", "apns-expiration", "apns-collapse-id", "apns-id", "content-length",
}  # fmt: skip


@cache
def signing_key() -> EllipticCurvePrivateKey:
    return generate_private_key(SECP256R1())


def apns_credentials(**changes: object) -> dict[str, Any]:
    """Return what a tenant gives for APNs."""
    pem = signing_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    given = {"private_key": pem.decode(), "key_id": KEY_ID, "team_id": TEAM_ID, "topic": TOPIC}
    return {**given, **changes}


@dataclass
class ApnsRequest:
    """A request to APNs."""

    token: str
    headers: dict[str, str]
    payload: dict[str, Any]
    connection: int


@dataclass
class ApnsServer:
    """Answers each request with `answer`; None leaves it without an answer."""

    url: str = ""
    streams_max: int = 100
    window: int = 65_535
    answer: tuple[int, Mapping[str, str], Mapping[str, Any]] | None = (200, {}, {})
    refuses_streams: bool = False
    answers_early: bool = False
    """Whether requests are answered before their bodies have come."""
    requests: list[ApnsRequest] = field(default_factory=list)
    connections: list["ApnsConnection"] = field(default_factory=list)
    provider_tokens: set[str] = field(default_factory=set)
    now: Callable[[], float] = time
    most_at_once: int = 0

    def check(self, headers: Mapping[str, str], payload: bytes) -> dict[str, Any]:
        """Check a request, and return its payload."""
        assert headers.keys() <= ALLOWED
        assert headers[":method"] == "POST"
        assert headers[":scheme"] == "https"
        assert headers[":authority"] == self.url.removeprefix("https://")
        scheme, _, token = headers["authorization"].partition(" ")
        assert scheme == "bearer"
        claims = jwt.decode(
            token,
            signing_key().public_key(),
            algorithms=["ES256"],
            options={"verify_iat": False},
        )
        assert jwt.get_unverified_header(token)["kid"] == KEY_ID
        assert claims["iss"] == TEAM_ID
        assert -60 <= self.now() - claims["iat"] <= 3_600
        self.provider_tokens.add(token)
        assert len(headers["apns-collapse-id"].encode()) <= 64
        assert int(headers["apns-expiration"]) > self.now()
        assert len(payload) <= 4_096
        content: dict[str, Any] = json.loads(payload)
        is_background = headers["apns-push-type"] == "background"
        assert headers["apns-priority"] in (("5",) if is_background else ("5", "10"))
        if is_background:
            assert content["aps"]["content-available"] == 1
            assert not content["aps"].keys() & {"alert", "badge", "sound"}
        return content


class ApnsConnection(asyncio.Protocol):
    """The server's side of one connection."""

    def __init__(self, server: ApnsServer) -> None:
        self._server = server
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._open: dict[int, tuple[dict[str, str], bytes]] = {}
        self.unanswered: list[int] = []
        self.pings = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        chosen = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        assert chosen == "h2", "the client does not ask for HTTP/2"
        self.transport = cast(asyncio.Transport, transport)
        self._server.connections.append(self)
        self._h2.local_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = self._server.streams_max
        self._h2.local_settings[SettingCodes.INITIAL_WINDOW_SIZE] = self._server.window
        self._h2.local_settings.acknowledge()
        self._h2.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        for event in self._h2.receive_data(data):
            match event:
                case RequestReceived():
                    self._begin(event.stream_id, dict(cast(Any, event.headers)))
                case DataReceived():
                    size = event.flow_controlled_length
                    self._h2.acknowledge_received_data(size, event.stream_id)
                    if event.stream_id in self._open:  # it was not refused
                        headers, body = self._open[event.stream_id]
                        self._open[event.stream_id] = headers, body + event.data
                case StreamEnded():
                    if event.stream_id in self._open:
                        self._take(event.stream_id)
                case PingReceived():
                    self.pings += 1
                case StreamReset():
                    self._open.pop(event.stream_id, None)
                case _:
                    pass
        self._flush()

    def _begin(self, stream: int, headers: dict[str, str]) -> None:
        if self._server.refuses_streams:
            self._h2.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
            return
        self._open[stream] = headers, b""
        self._server.most_at_once = max(self._server.most_at_once, len(self._open))
        if self._server.answers_early and self._server.answer is not None:
            self.respond(stream, *self._server.answer)

    def _take(self, stream: int) -> None:
        headers, body = self._open[stream]
        payload = self._server.check(headers, body)
        token = headers[":path"].removeprefix("/3/device/")
        number = self._server.connections.index(self)
        self._server.requests.append(ApnsRequest(token, headers, payload, number))
        if self._server.answer is None:
            self.unanswered.append(stream)
        else:
            self.respond(stream, *self._server.answer)

    def respond(
        self, stream: int, status: int, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> None:
        """Answer a request."""
        self._open.pop(stream)
        named = [(":status", str(status)), ("apns-id", f"id-{stream}"), *headers.items()]
        self._h2.send_headers(stream, named, end_stream=not body)
        if body:
            self._h2.send_data(stream, json.dumps(body).encode(), end_stream=True)
        self._flush()

    def go_away(self, last: int) -> None:
        """Announce the end, as if `last` were the last request that was looked at."""
        frame = GoAwayFrame(0, last_stream_id=last, error_code=0)
        frame.additional_data = b'{"reason":"Shutdown"}'
        self.transport.write(frame.serialize())

    def _flush(self) -> None:
        self.transport.write(self._h2.data_to_send())


@asynccontextmanager
async def open_apns(tls: ssl.SSLContext) -> AsyncIterator[ApnsServer]:
    """Run the server."""
    server = ApnsServer()
    tls.set_alpn_protocols(["h2"])
    listening = await asyncio.get_running_loop().create_server(
        lambda: ApnsConnection(server), "127.0.0.1", 0, ssl=tls
    )
    server.url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for connection in server.connections:
            connection.transport.abort()
