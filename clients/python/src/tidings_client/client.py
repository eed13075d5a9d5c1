# SPDX-License-Identifier: Apache-2.0
"""The client that an application uses: send messages, mark them as read, and receive events."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from functools import partial
from importlib.metadata import version
from ssl import SSLContext
from types import TracebackType
from typing import Final, Literal, Self

from tidings_client.api import Api
from tidings_client.backoff import Backoff
from tidings_client.conversation import Conversation
from tidings_client.entry_events import History, event_of
from tidings_client.errors import ClientClosed, Refused, first_of
from tidings_client.event_queue import EventQueue
from tidings_client.events import Attachment, Event
from tidings_client.frames import SEQUENCE_MAX, Page
from tidings_client.inbox import Inbox
from tidings_client.journal import Journal
from tidings_client.keeper import Keeper
from tidings_client.outbox import Outbox
from tidings_client.promises import Promises, settle
from tidings_client.requests import Question
from tidings_client.saved import Outgoing, OutgoingKey
from tidings_client.selection import Selection
from tidings_client.sending import Sent
from tidings_client.storage import MemoryStorage, Storage
from tidings_client.tokens import TokenProvider, Tokens
from tidings_client.world import SystemWorld, World

CLIENT_NAME: Final = f"tidings-python/{version('tidings-client')}"
CONTENT_BYTES_MAX: Final = 4_096
PAGE_DEFAULT: Final = 50


class Client:
    """A client on one device of one user. Use it as an async context manager.

    It connects automatically, and reconnects whenever the connection is lost. `events` yields what
    happens; `send` sends messages. State that must not be lost is saved in the storage.
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
        client_name: str = CLIENT_NAME,
        catch_up: Literal["all", "heads"] = "all",
        inboxes: Iterable[str] = (),
        totals: bool = False,
    ) -> None:
        """Create a client, which connects when it is opened.

        Args:
            url: The server, such as `https://chat.example.org`.
            token: Function that returns a new token. It is called at the start, before the token
                expires, and when the server refuses it.
            device: The name of this device; not needed if the token names it.
            storage: Saves the state that the next client object needs; by default only in memory.
            sends_in_flight: How many messages of one chat may wait for their answers at the same
                time. With more than one, a message that the server refuses temporarily may arrive
                after a later message.
            backoff: Decides how long to wait before reconnecting.
            ssl_context: The trusted certificates for `https`; by default those of the system.
            world: The source of time and randomness.
            client_name: The name and version of your program, such as `acme-desktop/2.1`.
            catch_up: "all" follows every chat of the user. With "heads", `events` yields a ChatHead
                for each chat, and entries only of chats that you `follow` or send to.
            inboxes: Names of inboxes whose unread counts `events` yields after each connect.
            totals: Whether `events` yields the total number of unread messages and notifications.
        """
        self._url = url.rstrip("/")
        self._device = device
        self._ssl_context = ssl_context
        self._sends_in_flight = sends_in_flight
        self._client_name = client_name
        self._is_by_heads = catch_up == "heads"
        self._inboxes = tuple(inboxes)
        self._totals = totals
        self._world: World = world or SystemWorld()
        self._backoff = backoff or Backoff(self._world.jitter)
        self._journal = Journal(storage or MemoryStorage())
        self._tokens = Tokens(token, self._world.wall)
        self._queue = EventQueue(lambda mark: self._conversation.taken(mark))
        self._conversation: Conversation
        self._keeper: Keeper
        self._answers: dict[OutgoingKey, list[asyncio.Future[Sent]]] = {}
        self._promises = Promises()
        self._running: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self.api = Api(self._url, self._tokens, self._world, ssl_context)
        """The REST API, which uses the same token."""

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
        """Load the saved state and start connecting, without waiting for a connection.

        Raises:
            StorageTrouble: The storage cannot be used.
        """
        saved = await self._journal.open()
        outbox = Outbox(
            saved.outbox, in_flight_max=self._sends_in_flight, jitter=self._world.jitter
        )
        selection = Selection(
            self._client_name,
            is_by_heads=self._is_by_heads,
            chats=[message.chat for message in saved.outbox],
            inboxes=self._inboxes,
            totals=self._totals,
        )
        self._conversation = Conversation(
            saved, outbox, self._queue, self._journal, self._came_of, selection
        )
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
        """Disconnect, save the last changes, and close the storage.

        Unanswered messages stay in the outbox. An event that was not confirmed is delivered again
        by the next client. Cancelling this call does not stop the closing, for which another call
        waits.
        """
        if self._running is None:
            return
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(self._running))
        await asyncio.shield(self._closing)

    async def _close(self, running: "asyncio.Task[None]") -> None:
        """Stop the background work, and release everything even if the event loop ends first."""
        running.cancel()
        try:
            await asyncio.wait([running])
        finally:
            self._finish(ClientClosed("the client is closed"))
            self._queue.close(ClientClosed("the client is closed"))
            try:
                await self.api.close()
            finally:
                await self._journal.close()

    async def _run(self) -> None:
        """Run all background work, until a part of it fails for good."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._journal.run())
                tasks.create_task(self._keeper.tick())
                tasks.create_task(self._keeper.run())
        except* Exception as group:
            self._finish(first_of(group))

    def _finish(self, error: Exception) -> None:
        self._queue.end(self._promises.break_all(error))

    # Following.

    @property
    def user(self) -> str | None:
        """The user of this client, as reported by the server; None before the first connection."""
        return self._conversation.user

    @property
    def is_live(self) -> bool:
        """Whether the client is connected and has received everything that it missed."""
        return self._conversation.is_live

    async def events(self) -> AsyncIterator[Event]:
        """Yield all events, until the client is closed. Only one reader is allowed at a time.

        Requesting the next event confirms the previous one: it will not be delivered again, in this
        run or a later one.

        Raises:
            ClientStopped: The server told this client not to reconnect.
            StorageTrouble: The confirmation of events cannot be saved.
        """
        while True:
            try:
                event = await self._queue.next()
            except ClientClosed:
                return
            yield event

    async def follow(self, chat: str) -> None:
        """Get the entries of a chat from now on, also after every reconnect.

        This has an effect only with `catch_up="heads"`. The first new entry is the one after the
        last entry in the storage. If the storage has no entry of the chat, the newest 500 entries
        come first.
        """
        self._conversation.follow(chat)

    async def away(self, is_away: bool = True) -> None:
        """Report that nobody looks at this device, so that the user gets push notifications
        again."""
        self._conversation.away(is_away)

    async def confirm(self) -> None:
        """Confirm the last event, and wait until this is saved."""
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
        """Return the newest entries of a chat's log, or the entries before or after a sequence.

        This waits for a connection if there is none.

        Raises:
            Refused: The user is not a member of such a chat.
            Unavailable: The server cannot read the log now.
        """
        if before is None and after is None:
            before = SEQUENCE_MAX
        answer: asyncio.Future[Page] = self._loop.create_future()
        question = Question(chat, after, before, limit, partial(settle, answer))
        self._conversation.ask(question, self._loop.time())
        page = await self._promises.wait(answer)
        shown = self._conversation.erasures.shown
        return History([shown(event_of(entry)) for entry in page.entries], page.head, page.more)

    # Sending.

    async def send(
        self,
        chat: str,
        content: str,
        *,
        ttl_seconds: int | None = None,
        content_type: str | None = None,
        client_message_id: str | None = None,
        reply_to: int | None = None,
        mentions: Iterable[str] = (),
        silent: bool = False,
        attachments: Iterable[Attachment] = (),
    ) -> Sent:
        """Send a message, and wait until it is durable on the server.

        `reply_to` is the sequence of the message that this one answers. `mentions` are user ids of
        members, or `["*"]` for everyone. No push notices are sent for a `silent` message.
        `attachments` are files that `api.files.upload` returned; then the content may be empty.
        If a later run may send the same message again, choose its `client_message_id`: for seven
        days the server recognises the repeat. If the message is still in the outbox, this waits for
        it.

        The message is first saved in the outbox. It is then sent until it is answered, even after
        lost connections and, if the storage outlives the process, after restarts. Cancelling this
        call does not cancel the message.

        Raises:
            Refused: The server refuses the message for good.
            SendExpired: The message was not confirmed within six days.
            OutboxFull: The outbox does not accept the message, and it will not be sent.
            ClientClosed, ClientStopped: The message is not confirmed yet, and stays in the outbox.
        """
        options = (reply_to, tuple(mentions), silent, tuple(attachments))
        key = self._post(chat, content, ttl_seconds, content_type, client_message_id, *options)
        answers, answer = self._answers.setdefault(key, []), self._loop.create_future()
        answers.append(answer)
        try:
            return await self._promises.wait(answer)
        finally:
            answers.remove(answer)
            if not answers:
                del self._answers[key]

    def send_nowait(
        self,
        chat: str,
        content: str,
        *,
        ttl_seconds: int | None = None,
        content_type: str | None = None,
        client_message_id: str | None = None,
        reply_to: int | None = None,
        mentions: Iterable[str] = (),
        silent: bool = False,
        attachments: Iterable[Attachment] = (),
    ) -> str:
        """Send a message without waiting; return its client_message_id.

        `events` yields the message like every other message, or a SendFailed. `confirm` waits until
        the message is saved in the outbox.
        """
        options = (reply_to, tuple(mentions), silent, tuple(attachments))
        return self._post(chat, content, ttl_seconds, content_type, client_message_id, *options)[1]

    async def read(self, chat: str, sequence: int) -> None:
        """Mark the chat as read up to a sequence, now or when the client is connected again."""
        self._conversation.read(chat, sequence)

    async def typing(self, chat: str) -> None:
        """Report that the user is typing. May be called at every key: few reports are sent."""
        self._conversation.typing(chat, self._loop.time())

    def inbox(self, name: str) -> Inbox:
        """Return an inbox of the user, to list it and mark it as read.

        New notifications are also yielded by `events`.
        """
        return self.api.inbox(name)

    # Helpers.

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
        reply_to: int | None,
        mentions: tuple[str, ...],
        silent: bool,
        attachments: tuple[Attachment, ...],
    ) -> OutgoingKey:
        if self._promises.end is not None:
            raise self._promises.end
        size = len(content.encode())
        if size > CONTENT_BYTES_MAX or not (size or attachments):
            # The server would close the connection for a frame that is far too large, each time.
            code = "content.too_large" if size else "content.empty"
            raise Refused(code, f"1 to {CONTENT_BYTES_MAX} bytes, not {size}")
        # The application may send its own id again in a later run, which does not know what this
        # one had seen. The server then recognises the message only if it has stored the id.
        place = (None, None) if client_message_id else self._conversation.place_of(chat)
        message = Outgoing(
            chat,
            client_message_id or self._world.new_id(),
            content,
            int(self._world.wall() * 1_000),
            content_type,
            ttl_seconds,
            *place,
            reply_to=reply_to,
            mentions=mentions,
            silent=silent,
            attachments=attachments,
        )
        self._conversation.follow(chat)  # the message has its place among the entries
        if self._conversation.sending.post(message):
            self._journal.post(message).add_done_callback(partial(self._stored, message.key))
        return message.key

    def _stored(self, key: OutgoingKey, kept: "asyncio.Future[None]") -> None:
        if not kept.cancelled() and kept.exception() is None:
            self._conversation.sending.stored(key)
            self._conversation.pump(self._loop.time())

    def _came_of(self, key: OutgoingKey, outcome: Sent | Refused) -> bool:
        answers = [answer for answer in self._answers.get(key, ()) if not answer.done()]
        for answer in answers:
            settle(answer, outcome)
        return bool(answers)
