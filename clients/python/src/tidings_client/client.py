# SPDX-License-Identifier: Apache-2.0
"""The client as an application sees it: send, read, and a stream of events that has no end."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from ssl import SSLContext
from types import TracebackType
from typing import Final, Self

import msgspec

from tidings_client.api import Api
from tidings_client.backoff import Backoff
from tidings_client.conversation import Conversation
from tidings_client.entry_events import AnyEntryEvent, event_of
from tidings_client.errors import ClientClosed, Refused
from tidings_client.event_queue import EventQueue
from tidings_client.events import Event
from tidings_client.frames import SEQUENCE_MAX, Page
from tidings_client.inbox import Inbox
from tidings_client.journal import Journal
from tidings_client.keeper import Keeper
from tidings_client.outbox import Outbox
from tidings_client.promises import Promises, settle
from tidings_client.requests import Question
from tidings_client.saved import Outgoing, OutgoingKey
from tidings_client.sending import Sent
from tidings_client.storage import MemoryStorage, Storage
from tidings_client.tokens import TokenProvider, Tokens
from tidings_client.world import SystemWorld, World

CONTENT_BYTES_MAX: Final = 4_096
PAGE_DEFAULT: Final = 50


class History(msgspec.Struct, frozen=True):
    """Part of a chat's log, in its order."""

    entries: list[AnyEntryEvent]
    head: int
    """The last entry there is."""
    more: bool
    """Whether there is more in the direction that was asked for."""


class Client:
    """One device of one user. Use it as an async context manager.

    It connects by itself, and comes back by itself whenever the connection is lost. Events come
    from `events`; messages go out through `send`. What must not be lost is kept in the storage.
    """

    def __init__(
        self,
        url: str,
        *,
        token: TokenProvider,
        device: str | None = None,
        storage: Storage | None = None,
        sends_in_flight: int = 1,
        backoff: Backoff | None = None,
        ssl_context: SSLContext | None = None,
        world: World | None = None,
    ) -> None:
        """
        Args:
            url: The server, such as `https://chat.example.org`.
            token: Returns a fresh token; called at the start, before the token expires, and when
                the server refuses it.
            device: The name of this device; not needed if the token names it.
            storage: Where to keep what must outlive this object; in memory if there is none.
            sends_in_flight: How many messages of one chat may be under way at once. With more
                than one, a message that the server turns away for the moment may be overtaken.
            backoff: How long to wait before coming back.
            ssl_context: Whom to trust, for `https`; the system's trust if it is not given.
            world: Clock and chance.
        """
        self._url = url.rstrip("/")
        self._device = device
        self._ssl_context = ssl_context
        self._sends_in_flight = sends_in_flight
        self._world: World = world or SystemWorld()
        self._backoff = backoff or Backoff(self._world.jitter)
        self._journal = Journal(storage or MemoryStorage())
        self._tokens = Tokens(token, self._world.wall)
        self._queue = EventQueue(lambda mark: self._conversation.taken(mark))
        self._conversation: Conversation
        self._keeper: Keeper
        self._answers: dict[OutgoingKey, asyncio.Future[Sent]] = {}
        self._promises = Promises()
        self._running: asyncio.Task[None] | None = None
        self.api = Api(self._url, self._tokens, self._world, ssl_context)
        """The REST API, with the same token."""

    # Opening and closing.

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Load what is kept and start connecting; does not wait for a connection.

        Raises:
            StorageTrouble: The storage cannot be used.
        """
        saved = await self._journal.open()
        outbox = Outbox(
            saved.outbox, in_flight_max=self._sends_in_flight, jitter=self._world.jitter
        )
        self._conversation = Conversation(saved, outbox, self._queue, self._journal, self._came_of)
        self._keeper = Keeper(
            f"{self._url.replace('http', 'ws', 1)}/v1/ws",
            self._device,
            self._conversation,
            self._tokens,
            self._queue,
            self._backoff,
            self._world,
            self._ssl_context,
        )
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Disconnect, write the rest, let go of the storage. Messages that have not been answered
        stay in the outbox; an event that was not followed by asking for the next comes again."""
        if self._running is None:
            return
        running, self._running = self._running, None
        running.cancel()
        await asyncio.wait([running])
        self._finish(ClientClosed("the client is closed"))
        self._queue.close(ClientClosed("the client is closed"))
        await self.api.close()
        await self._journal.close()

    async def _run(self) -> None:
        """Everything that goes on in the background, until one part of it cannot go on."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._journal.run())
                tasks.create_task(self._keeper.tick())
                tasks.create_task(self._keeper.run())
        except* Exception as group:
            self._finish(_first(group))

    def _finish(self, error: Exception) -> None:
        self._queue.end(self._promises.break_all(error))

    # Following.

    @property
    def user(self) -> str | None:
        """Who this is, as the server says; None before the first connection."""
        return self._conversation.user

    @property
    def is_live(self) -> bool:
        """Whether there is a connection and nothing is missing."""
        return self._conversation.is_live

    async def events(self) -> AsyncIterator[Event]:
        """What happens, for ever; ends when the client is closed.

        An event counts as taken when the next one is asked for: from then on it will not come
        again, in this run or a later one. There is one reader at a time.

        Raises:
            ClientStopped: The server does not want this client back.
            StorageTrouble: What has been taken cannot be kept.
        """
        while True:
            try:
                event = await self._queue.next()
            except ClientClosed:
                return
            yield event

    async def confirm(self) -> None:
        """Count the last event as taken, and wait until that is kept."""
        self._queue.confirm()
        await self._promises.wait(self._journal.flush())

    async def history(
        self,
        chat: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = PAGE_DEFAULT,
    ) -> History:
        """Part of a chat's log: the newest, or what lies before or after a sequence.

        Waits for a connection if there is none.

        Raises:
            Refused: There is no such chat for this user.
            Unavailable: The server cannot read it now.
        """
        if before is None and after is None:
            before = SEQUENCE_MAX
        answer: asyncio.Future[Page] = self._loop.create_future()
        question = Question(chat, after, before, limit, partial(settle, answer))
        self._conversation.ask(question, self._loop.time())
        page = await self._promises.wait(answer)
        return History([event_of(entry) for entry in page.entries], page.head, page.more)

    # Sending.

    async def send(
        self,
        chat: str,
        content: str,
        *,
        ttl_seconds: int | None = None,
        content_type: str | None = None,
        client_message_id: str | None = None,
    ) -> Sent:
        """Post a message and wait until the server has it.

        It is in the outbox before anything else happens. From then on it will be sent, through
        lost connections and, with a storage that outlives the process, restarts; whoever stops
        waiting does not take it back.

        Raises:
            Refused: The server will not take it, or (SendExpired) could not be reached in time.
            OutboxFull: It was not even taken in.
            ClientClosed, ClientStopped: Not sent yet; it stays in the outbox.
        """
        key = self._post(chat, content, ttl_seconds, content_type, client_message_id)
        answer = self._answers[key] = self._loop.create_future()
        try:
            return await self._promises.wait(answer)
        finally:
            del self._answers[key]

    def send_nowait(
        self,
        chat: str,
        content: str,
        *,
        ttl_seconds: int | None = None,
        content_type: str | None = None,
        client_message_id: str | None = None,
    ) -> str:
        """Post a message without waiting; its client_message_id.

        It shows up in `events` like every other message, or a SendFailed does. `confirm` waits
        until it is kept.
        """
        return self._post(chat, content, ttl_seconds, content_type, client_message_id)[1]

    async def read(self, chat: str, sequence: int) -> None:
        """The user has read the chat up to here. Said now or when there is a connection again."""
        self._conversation.read(chat, sequence)

    async def typing(self, chat: str) -> None:
        """The user is writing. May be called at every key: the server hears of it now and then."""
        self._conversation.typing(chat, self._loop.time())

    def inbox(self, name: str) -> Inbox:
        """An inbox of the user, to list and to mark as read. What comes into it meanwhile comes
        from `events`."""
        return self.api.inbox(name)

    # How it is done.

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def _post(
        self,
        chat: str,
        content: str,
        ttl_seconds: int | None,
        content_type: str | None,
        client_message_id: str | None,
    ) -> OutgoingKey:
        if self._promises.end is not None:
            raise self._promises.end
        size = len(content.encode())
        if not 0 < size <= CONTENT_BYTES_MAX:
            # A frame that is far too large would cost the connection, every time it is repeated.
            code = "content.too_large" if size else "content.empty"
            raise Refused(code, f"1 to {CONTENT_BYTES_MAX} bytes, not {size}")
        message = Outgoing(
            chat,
            client_message_id or self._world.new_id(),
            content,
            int(self._world.wall() * 1_000),
            content_type,
            ttl_seconds,
        )
        self._conversation.sending.post(message)
        self._journal.post(message).add_done_callback(partial(self._stored, message.key))
        return message.key

    def _stored(self, key: OutgoingKey, kept: "asyncio.Future[None]") -> None:
        if not kept.cancelled() and kept.exception() is None:
            self._conversation.sending.stored(key)
            self._conversation.pump(self._loop.time())

    def _came_of(self, key: OutgoingKey, outcome: Sent | Refused) -> bool:
        answer = self._answers.get(key)
        if answer is None or answer.done():
            return False
        settle(answer, outcome)
        return True


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Exception)
    return error
