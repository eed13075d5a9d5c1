# SPDX-License-Identifier: Apache-2.0
"""A connection without a socket: its client hears into a list."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

import msgspec

from tests.support.waiting import until
from tidings.gateway.answer_frames import sent_frame
from tidings.gateway.client_connection import LocalConnection
from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import CloseRequest, Conversation, State, refused
from tidings.gateway.progress import DeliveryProgress, Offer
from tidings.gateway.requests import Requests
from tidings.gateway.stream import Stream
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Refusal
from tidings.tasks import Tasks
from tidings.wire.codes import Close
from tidings.wire.frames import ClientFrame, Hello, Ping, Refused, encode

Frame = dict[str, Any]


class FakeConnection:
    """A connection whose client hears everything at once, unless it is paused."""

    address: str | None = None
    pending_bytes = 0

    def __init__(self, context: GatewayContext, window: int) -> None:
        self.conversation = Conversation(0)
        self.progress = DeliveryProgress(window)
        self.stream = Stream(context, self)
        self.requests = Requests(context, self)
        self.frames: list[Frame] = []
        self.closes: list[Close] = []
        self.time = 0
        self.saw: Callable[[bytes], None] | None = None
        self._context = context
        self._tasks = Tasks("test")
        self._changed = asyncio.Event()

    # What the client does.

    def say(self, op: str, **fields: Any) -> None:
        """Send a frame."""
        payload = msgspec.json.encode({"op": op, **fields})
        match self.conversation.receive(payload, self.time):
            case None | Ping():
                pass
            case CloseRequest(code):
                self.close(code)
            case Refused() as answer:
                self.send(encode(answer))
            case Hello() as hello:
                self.start(self.stream.enter(hello))
            case frame:
                self.perform(frame)

    async def live(self, user: UserKey, **fields: Any) -> "FakeConnection":
        """Say hello and wait until it is live."""
        self.say("hello", token=user, device="phone", **fields)
        await self.until(lambda: {"op": "live"} in self.frames)
        return self

    def pause(self) -> None:
        """The socket has more to write than it should."""
        self.progress.is_paused = True

    def resume(self) -> None:
        """The socket has drained."""
        self.progress.is_paused = False
        self.stream.wake()
        self._notify()

    async def hang_up(self) -> None:
        """Be gone."""
        self.conversation.state = State.CLOSED
        user = self.conversation.user
        self._context.hub.closed(self, user)
        if user is not None:
            self._context.unregister(user, self.conversation.connection)
            self._context.journal.closed(self)
        await self._tasks.close()

    # What it heard.

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds of what it heard."""
        await until(
            holds, changed=lambda: self._changed, describe=lambda: (self.frames, self.closes)
        )

    async def until_entries(self, chat: ChatId, count: int) -> None:
        """Wait until so many entries of a chat have come."""
        await self.until(lambda: len(self.sequences(chat)) >= count)

    def sequences(self, chat: ChatId) -> list[int]:
        """The sequences of a chat's entries, in the order they came."""
        return [told["sequence"] for told in self.of("entry") if told["chat"] == chat]

    @property
    def heads(self) -> dict[str, int]:
        """The last head of each chat that was told."""
        return {chat: head for told in self.of("heads") for chat, head in told["chats"].items()}

    def of(self, *ops: str) -> list[Frame]:
        """The frames with one of these ops."""
        return [told for told in self.frames if told["op"] in ops]

    @property
    def ops(self) -> list[str]:
        """The ops of the stream's frames, in order: receipts and the like may come between."""
        beside = {"receipt", "unread", "typing", "presence"}
        return [told["op"] for told in self.frames if told["op"] not in beside]

    # What the gateway does to a connection.

    def now(self) -> int:
        return self.time

    def deliver(self, entry: Offer, frame: bytes, *, is_small: bool) -> None:
        self.stream.offer(entry, frame, is_small=is_small)

    def notice(self, chat: ChatId, frame: bytes) -> None:
        if self.progress.get(chat) is not None:
            self.send(frame)

    def hint(self, frame: bytes) -> None:
        if self.saw is not None:
            self.saw(frame)

    def reconcile(self, heads: Mapping[ChatId, int]) -> bool:
        return self.stream.reconcile(heads)

    async def follow(self, chat: ChatId, after: int | None) -> None:
        await self.stream.follow(chat, after)

    def wake(self) -> None:
        self.stream.wake()

    def perform(self, frame: ClientFrame) -> None:
        self.requests.perform(frame)

    def send(self, frame: bytes) -> None:
        self.frames.append(msgspec.json.decode(frame))
        if self.saw is not None:
            self.saw(frame)
        self._notify()

    def watch_frames(self, saw: Callable[[bytes], None]) -> None:
        self.saw = saw

    def confirm(self, request: str, entry: Entry) -> None:
        self.send(sent_frame(request, entry))
        self.progress.sent_own(entry.chat_id, entry.sequence)

    def refuse(self, refusal: Refusal, request: str | None = None) -> None:
        self.send(encode(refused(refusal, request)))

    def set_blocked(self, users: Collection[str]) -> None:
        self.conversation.blocked = users

    async def drained(self) -> None:
        await self.until(lambda: not self.progress.is_paused)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work)

    def tick(self) -> None:
        pass

    def close(self, code: Close, retry_after_ms: int | None = None) -> None:
        self.conversation.state = State.CLOSED
        if not self.closes:  # a socket is closed once, with the first code
            self.closes.append(code)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


_conforms: type[LocalConnection] = FakeConnection
