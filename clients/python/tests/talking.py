# SPDX-License-Identifier: Apache-2.0
"""A conversation without a socket: what it says, what it hands out, what it keeps."""

from collections.abc import Sequence
from typing import Any

from tidings_client.conversation import Conversation
from tidings_client.errors import Refused
from tidings_client.event_queue import EventQueue
from tidings_client.events import Event
from tidings_client.frames import ClientFrame, Live, Page, ServerFrame, Welcome
from tidings_client.outbox import Outbox
from tidings_client.requests import Question
from tidings_client.saved import Changes, Outgoing, OutgoingKey, Saved
from tidings_client.selection import Selection
from tidings_client.sending import Sent
from tidings_client.storage import MemoryStorage

HEARTBEAT_MS = 20_000


class Talk:
    """One client between a server and an application that are both played by the test."""

    def __init__(
        self,
        storage: MemoryStorage | None = None,
        *,
        user: str = "alice",
        selection: Selection | None = None,
    ) -> None:
        self.storage = storage or MemoryStorage()
        self.user = user
        self.now = 0.0
        self.wall_ms = 0
        self.said: list[ClientFrame] = []
        self.outcomes: dict[OutgoingKey, Sent | Refused] = {}
        self.waited_for: set[OutgoingKey] = set()
        self.pages: list[object] = []
        self.changes = Changes()
        saved: Saved = self.storage.load()
        self.queue = EventQueue(lambda mark: self.conversation.taken(mark))
        outbox = Outbox(saved.outbox, jitter=lambda _, most: most)
        self.conversation = Conversation(saved, outbox, self.queue, self, self._came_of, selection)

    def wake(self) -> None:
        """The storage is brought up to date when the test says so."""

    def save(self) -> None:
        """All changes so far reach the storage."""
        changes, self.changes = self.changes, Changes()
        self.storage.save(changes)
        for key in changes.posted:
            self.conversation.sending.stored(key)
        self.conversation.pump(self.now)

    # The server.

    def connect(self, epoch: str = "e", *, live: bool = True) -> ClientFrame:
        """A connection up to `live`; the hello that was said on it."""
        self.said.clear()
        self.conversation.connected(self.said.append, "token", "laptop", self.now, self.wall_ms)
        hello = self.said.pop()
        self.hear(Welcome(self.user, "laptop", epoch, HEARTBEAT_MS))
        if live:
            self.hear(Live())
        return hello

    def hear(self, *frames: ServerFrame) -> None:
        for frame in frames:
            self.conversation.receive(frame, self.now)

    def heard_last(self) -> list[ClientFrame]:
        """What the server heard since it was last looked at."""
        said, self.said[:] = list(self.said), []
        return said

    def tick(self, seconds: float = 0.5) -> str | None:
        self.now += seconds
        self.wall_ms += int(seconds * 1_000)
        return self.conversation.tick(self.now, self.wall_ms)

    # The application.

    def post(self, name: str, content: str = "hi", chat: str = "c", **options: Any) -> OutgoingKey:
        place = self.conversation.place_of(chat)
        message = Outgoing(chat, name, content, self.wall_ms, None, None, *place, **options)
        self.conversation.sending.post(message)
        self.changes.posted[message.key] = message
        return message.key

    def ask(self, chat: str = "c") -> None:
        self.conversation.ask(Question(chat, None, 9, 50, self._answered), self.now)

    async def take(self, count: int) -> Sequence[Event]:
        """The next events; all of them are taken."""
        events = [await self.queue.next() for _ in range(count)]
        self.queue.confirm()
        return events

    def _answered(self, outcome: Page | Exception) -> None:
        self.pages.append(outcome)

    def _came_of(self, key: OutgoingKey, outcome: Sent | Refused) -> bool:
        self.outcomes[key] = outcome
        return key in self.waited_for
