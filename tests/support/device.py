# SPDX-License-Identifier: Apache-2.0
"""A device that implements the client's half of the protocol: hello, client's rule, retries."""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from picows import WSError, WSTransport

from tests.support.canary import canary
from tests.support.client_logs import ClientLogs
from tests.support.client_socket import ConnectionLost, Frame, Refused, Socket

ACK_ENTRIES: Final = 100
ACK_SECONDS: Final = 1.0
CANNOT_CONNECT: Final = (OSError, WSError, TimeoutError)
_GAP: Final = "gap-"


class Device(Socket):
    """One device of one user. If `reconnects` is true, it reconnects after each lost connection.

    `pause` returns the seconds to wait before a reconnect.
    """

    def __init__(
        self,
        url: str,
        token: str,
        name: str | None,
        *,
        reconnects: bool = False,
        pause: Callable[[], float] = lambda: 0.02,
    ) -> None:
        super().__init__(url)
        self.token = token
        self.name = name
        self.logs = ClientLogs()
        self.caught_up: list[int] = []
        """For each connection that became live, the number of new entries before `live`."""
        self.resyncs: list[Frame] = []
        self.epoch: str | None = None
        self.is_live = False
        self.acknowledges = True
        """Whether the device sends `received` automatically."""
        self._reconnects = reconnects
        self._pause = pause
        self._unacknowledged: dict[str, int] = {}
        self._new_entries = 0
        self._fetching: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._keeper: asyncio.Task[None] | None = None

    # Connecting.

    async def connect(self) -> Self:
        """Open the socket, send hello with the last applied entries, and wait for `live`.

        A busy server may refuse a device that reconnects a few times.

        Raises:
            ConnectionLost: The server closed the connection, and this device does not reconnect.
        """
        closes = len(self.closes)
        await self.open()
        self.greet()
        if self._reconnects and self._keeper is None:
            self._keeper = asyncio.create_task(self._keep_connected())
        await self.until(
            lambda: self.is_live or (not self._reconnects and len(self.closes) > closes)
        )
        if not self.is_live:
            raise ConnectionLost(f"closed with {self.closes[-1]}")
        return self

    def greet(self) -> None:
        """Send hello with the last applied entry of each chat."""
        hello: Frame = {"op": "hello", "token": self.token}
        if self.name is not None:
            hello["device"] = self.name
        if self.logs.have:
            hello |= {"have": self.logs.have, "epoch": self.epoch}
        self.tell(hello)

    async def close(self) -> None:
        """Disconnect for good."""
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None
        await self.drop()

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _keep_connected(self) -> None:
        while True:
            while self.is_open:
                await self._changed.wait()
            await asyncio.sleep(self._pause())
            with suppress(*CANNOT_CONNECT):
                await self.open()
                self.greet()

    def on_open(self, transport: WSTransport) -> None:
        self.is_live = False
        self._new_entries = 0
        self._fetching.clear()
        self._unacknowledged.clear()
        super().on_open(transport)

    def on_close(self, code: int) -> None:
        self.is_live = False
        for timer in self._timers.values():
            timer.cancel()
        super().on_close(code)

    # Sending.

    async def send_once(
        self, chat: str, content: str, client_message_id: str, **more: Any
    ) -> Frame:
        """Try once to post a message; return the `sent` frame. Raises the same errors as `ask`."""
        frame = {"chat": chat, "client_message_id": client_message_id, "content": content}
        return await self.ask({"op": "send", **frame, **more})

    async def send(
        self,
        chat: str,
        content: str | None = None,
        *,
        client_message_id: str | None = None,
        **more: Any,
    ) -> Frame:
        """Post a message, and repeat it with the same key until there is a final answer.

        Raises:
            Refused: The server refused the message for good.
            ConnectionLost: The connection is lost, and this device does not reconnect.
        """
        key = client_message_id or secrets.token_hex(8)
        while True:
            try:
                return await self.send_once(chat, content or canary(key), key, **more)
            except Refused as refused:
                if not refused.retryable:
                    raise
            except ConnectionLost:
                if not self._reconnects:
                    raise
            await self.until(lambda: self.is_live)

    # Receiving.

    def on_frame(self, frame: Frame) -> None:
        match frame["op"]:
            case "welcome":
                self.epoch = frame["epoch"]
                self._repeat("ping", frame["heartbeat_ms"] / 1_000, self._ping)
                self._repeat("received", ACK_SECONDS, self.acknowledge)
            case "live":
                self.is_live = True
                self.caught_up.append(self._new_entries)
            case "entry":
                self._take(frame)
            case "sent":
                self._take_own(frame)
            case "page":
                self._take_page(frame)
            case "resync":
                self.resyncs.append(frame)
                self.logs.start_over(frame["chat"], frame["head"])
            case "gone":
                self.logs.forget(frame["chat"])
            case _:
                pass
        super().on_frame(frame)

    def acknowledge(self) -> None:
        """Send `received` for each chat with new entries."""
        if self.acknowledges:
            for chat in self._unacknowledged:
                self.tell({"op": "received", "chat": chat, "sequence": self.logs.have[chat]})
            self._unacknowledged.clear()

    def _ping(self) -> None:
        self.tell({"op": "ping"})

    def _repeat(self, name: str, seconds: float, act: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            act()
            self._timers[name] = loop.call_later(seconds, again)

        self._timers[name] = loop.call_later(seconds, again)

    def _take(self, entry: Frame) -> None:
        chat = entry["chat"]
        held = self.logs.have.get(chat)
        missing_after = self.logs.take(entry)
        if missing_after is not None:
            self._fetch(chat, missing_after)
        elif self.logs.have[chat] != held:
            self._new_entries += 1
            self._unacknowledged[chat] = self._unacknowledged.get(chat, 0) + 1
            if self._unacknowledged[chat] >= ACK_ENTRIES:
                self.acknowledge()

    def _take_own(self, sent: Frame) -> None:
        """Apply the sender's own message when `sent` arrives."""
        asked, _ = self._asked.get(sent["id"], (None, None))
        if asked is not None:
            self.logs.take_own({**asked, **sent, "kind": "message", "is_own": True})

    def _take_page(self, page: Frame) -> None:
        """Apply a page that this device fetched to fill a gap; ignore pages that a test
        requested."""
        if page["id"].startswith(_GAP):
            self._fetching.discard(page["chat"])
            for entry in page["entries"]:
                self._take(entry)
            if page["more"]:
                self._fetch(page["chat"], self.logs.have[page["chat"]])

    def _fetch(self, chat: str, after: int) -> None:
        if chat not in self._fetching:
            self._fetching.add(chat)
            request = f"{_GAP}{secrets.token_hex(4)}"
            self.tell({"op": "fetch", "id": request, "chat": chat, "after": after, "limit": 100})
