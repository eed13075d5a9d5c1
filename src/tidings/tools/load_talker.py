# SPDX-License-Identifier: Apache-2.0
"""A simulated user of a load test: REST calls, and a socket that sends, confirms and measures."""

import asyncio
import http.client
import ssl
import threading
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

CONNECTIONS: Final = 8
ANSWER_SECONDS_MAX: Final = 30.0

CONTENT: Final = "The quick brown fox jumps over the lazy dog, and nobody knows why."
RECEIVED_EVERY: Final = 100
AGAIN_SECONDS: Final = 0.1
HANDSHAKE_SECONDS_MAX: Final = 30


class LoadStopped(Exception):
    """The load test cannot continue; the text gives the reason to the user of the command."""


class Rest:
    """Client for the REST API of one deployment."""

    def __init__(self, url: str, trust: ssl.SSLContext | None = None) -> None:
        """Set up the client; `trust` has the trusted certificates, by default those of the
        system."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise LoadStopped(f"{url} is not an address such as http://127.0.0.1:8080")
        self._address = parts
        self._trust = trust
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="rest")
        self._of_thread = threading.local()
        self._open: list[http.client.HTTPConnection] = []

    async def call(self, method: str, path: str, key: str, body: object = None) -> dict[str, Any]:
        """Send a request and return the body of the answer.

        Raises:
            LoadStopped: The server cannot be reached, or refuses the request.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._call, method, path, key, body)

    def close(self) -> None:
        """Close all connections."""
        self._threads.shutdown()
        for connection in self._open:
            connection.close()

    def _call(self, method: str, path: str, key: str, body: object) -> dict[str, Any]:
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection = self._connection()
        try:
            connection.request(method, self._address.path.rstrip("/") + path, content, headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise LoadStopped(f"{self._address.geturl()} does not answer: {error}") from error
        if response.status >= 300:
            text = answer[:300].decode(errors="replace")
            raise LoadStopped(f"{method} {path} was refused with {response.status}: {text}")
        decoded: dict[str, Any] = msgspec.json.decode(answer) if answer else {}
        return decoded

    def _connection(self) -> http.client.HTTPConnection:
        """Return this thread's connection; `http.client` reopens it if the server closed it."""
        connection: http.client.HTTPConnection | None
        connection = getattr(self._of_thread, "connection", None)
        if connection is None:
            assert self._address.hostname is not None
            host, port = self._address.hostname, self._address.port
            if self._address.scheme == "https":
                connection = http.client.HTTPSConnection(
                    host, port, timeout=ANSWER_SECONDS_MAX, context=self._trust
                )
            else:
                connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS_MAX)
            self._of_thread.connection = connection
            self._open.append(connection)
        return connection


class _Frame(msgspec.Struct):
    """The fields of any frame that the load test uses."""

    op: str
    id: int = 0
    sequence: int = 0
    sender: str = ""
    user: str = ""
    retryable: bool = False


# The decoder is not strict, because request ids are numbers here and strings on the wire.
_decode = msgspec.json.Decoder(_Frame, strict=False).decode


class Talker(WSListener):
    """A simulated user in one chat, who sends messages and measures the time to the answer.

    The user either keeps a number of sends unanswered (`start`), or sends on each call of `send`.
    """

    def __init__(self, chat: str, token: str, device: str, trouble: Callable[[str], None]) -> None:
        """Create a user.

        `trouble` is called with a reason if the connection ends, or a send is refused for good.
        """
        self.is_live = False
        self.forget_latencies()
        self.acknowledged = 0
        self.delivered = 0
        self.refused = 0
        self.repeats = True
        """Whether a send is repeated after a retryable refusal."""
        self.names_after = False
        """Whether a send names the last sequence that the user has seen."""
        self._chat = chat
        self._user = ""
        self._reached = 0
        self._seen = 0
        self._trouble = trouble
        self._hello = msgspec.json.encode({"op": "hello", "token": token, "device": device})
        self._sent = 0
        self._sent_at: dict[int, float] = {}
        self._frames: dict[int, bytes] = {}
        """Frames of unanswered sends that name a sequence; they are repeated unchanged."""
        self._is_sending = False
        self._transport: WSTransport | None = None
        self.expire_after(None)

    def expire_after(self, ttl_seconds: int | None) -> None:
        """Let all further messages expire after this many seconds; None for never."""
        ttl = "" if ttl_seconds is None else f',"ttl_seconds":{ttl_seconds}'
        name = f"{id(self):x}"
        # All sends use one template, so that the load generator needs little CPU time.
        self._template = (
            f'{{"op":"send","id":"%d","chat":"{self._chat}","client_message_id":"{name}-%d",'
            f'"content":"{CONTENT}"{ttl}}}'
        ).encode()

    @property
    def unanswered(self) -> int:
        """Number of sends that have no answer yet."""
        return len(self._sent_at)

    def forget_latencies(self) -> None:
        """Discard the latencies that were measured so far."""
        self.latencies_ms = array("d")
        self._answered_at = array("d")

    def spans(self) -> Iterator[tuple[float, float]]:
        """Yield for each message the times when it was sent and when it was answered."""
        for took_ms, answered_at in zip(self.latencies_ms, self._answered_at, strict=True):
            yield answered_at - took_ms / 1e3, answered_at

    # Callbacks of the socket.

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        transport.send(WSMsgType.TEXT, self._hello)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type != WSMsgType.TEXT:
            return
        got = _decode(frame.get_payload_as_memoryview())
        if got.op == "sent":
            self._seen = max(self._seen, got.sequence)
            self._on_sent(got.id)
        elif got.op == "entry":
            self._on_entry(got)
        elif got.op == "welcome":
            self._user = got.user
        elif got.op == "live":
            self.delivered = 0  # entries before `live` are catch-up
            self.is_live = True
        elif got.op == "refused":
            self._on_refused(got, frame.get_payload_as_utf8_text())
        elif got.op == "bye":
            self._trouble(f"the server said {frame.get_payload_as_utf8_text()}")

    def on_ws_disconnected(self, _transport: WSTransport) -> None:
        if self._transport is not None:
            self._transport = None
            self._trouble("the server closed a connection")

    def _on_sent(self, number: int) -> None:
        self.acknowledged += 1
        now = perf_counter()
        self._answered_at.append(now)
        self.latencies_ms.append((now - self._sent_at.pop(number)) * 1e3)
        self._frames.pop(number, None)
        if self._is_sending:
            self.send()

    def _on_entry(self, entry: _Frame) -> None:
        """Count a delivered entry, unless it is the user's own or was delivered before."""
        if entry.sequence <= self._reached:
            return
        self._reached = entry.sequence
        self._seen = max(self._seen, entry.sequence)
        if entry.sender == self._user:
            return
        self.delivered += 1
        if self.delivered % RECEIVED_EVERY == 0:
            frame = f'{{"op":"received","chat":"{self._chat}","sequence":{entry.sequence}}}'
            self._say(frame.encode())

    def _on_refused(self, refused: _Frame, text: str) -> None:
        """Repeat a refused send with the same id until it is accepted.

        Its latency is measured from the first attempt.
        """
        self.refused += 1
        if refused.retryable and not self.repeats:
            self._sent_at.pop(refused.id, None)
            self._frames.pop(refused.id, None)
        elif refused.retryable and refused.id in self._sent_at:
            again = self._frame(refused.id)
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._say, again)
        else:
            self._trouble(f"the server said {text}")

    # Methods that a run calls.

    def start(self, window: int) -> None:
        """Keep this many sends unanswered from now on."""
        self._is_sending = True
        for _ in range(window):
            self.send()

    def stop(self) -> None:
        """Stop sending; pending answers still arrive."""
        self._is_sending = False

    def send(self) -> None:
        """Send one message."""
        number = self._sent = self._sent + 1
        self._sent_at[number] = perf_counter()
        self._say(self._frame(number))

    def _frame(self, number: int) -> bytes:
        if not self.names_after:
            return self._template % (number, number)
        if number not in self._frames:
            frame = self._template % (number, number)
            self._frames[number] = b'%s,"after":%d}' % (frame[:-1], self._seen)
        return self._frames[number]

    def _say(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.send(WSMsgType.TEXT, frame)

    def close(self) -> None:
        """Close the connection."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.disconnect(False)


async def connect(
    listener: WSListener,
    url: str,
    source: str | None = None,
    trust: ssl.SSLContext | None = None,
) -> None:
    """Open a socket for the listener, from the `source` address if it is given.

    `trust` has the trusted certificates, by default those of the system.

    Raises:
        LoadStopped: The server cannot be reached, or refuses the connection.
    """
    address = url.replace("http", "ws", 1).rstrip("/") + "/v1/ws"
    try:
        await ws_connect(
            lambda: listener,
            address,
            websocket_handshake_timeout=HANDSHAKE_SECONDS_MAX,
            logger_name="load",
            ssl_context=trust,
            local_addr=None if source is None else (source, 0),
        )
    except Exception as error:
        raise LoadStopped(f"{address} cannot be opened: {error}") from error
