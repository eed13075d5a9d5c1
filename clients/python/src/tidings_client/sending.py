# SPDX-License-Identifier: Apache-2.0
"""From the outbox to the server, and the outcome to whoever waits for it. No socket, no awaits."""

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from tidings_client.errors import Refused, SendExpired
from tidings_client.event_queue import EventQueue, Reported
from tidings_client.events import SendFailed
from tidings_client.frames import Entry, RefusedFrame, Send, SentFrame
from tidings_client.notebook import Notebook
from tidings_client.outbox import Outbox
from tidings_client.requests import Requests
from tidings_client.saved import Outgoing, OutgoingKey


class Sent(msgspec.Struct, frozen=True):
    """The message is durable on the server, at this place in its chat's log."""

    chat: str
    sequence: int
    message_id: str
    client_message_id: str
    created_at: datetime


Outcome = Callable[[OutgoingKey, Sent | Refused], bool]
"""Told what became of a message; says whether somebody was waiting for that."""


class Sending:
    """Repeats messages until the server has answered, and tells what became of them."""

    def __init__(
        self,
        outbox: Outbox,
        requests: Requests,
        queue: EventQueue,
        notebook: Notebook,
        outcome: Outcome,
    ) -> None:
        self._outbox = outbox
        self._requests = requests
        self._queue = queue
        self._notebook = notebook
        self._outcome = outcome

    def post(self, message: Outgoing) -> None:
        """Take a message in; it goes out once it is `stored`. Raises as `Outbox.add` does."""
        self._outbox.add(message)

    def stored(self, key: OutgoingKey) -> None:
        """The message is kept, come what may."""
        self._outbox.stored(key)

    def pump(self, say: Callable[[Send], None], now: float) -> None:
        """Send what may be sent."""
        for message in self._outbox.due(now):
            say(
                Send(
                    self._requests.ask(message, now),
                    message.chat,
                    message.client_message_id,
                    message.content,
                    message.content_type,
                    message.ttl_seconds,
                )
            )

    def lost(self) -> None:
        """The connection is gone: whatever was in flight goes out again on the next one."""
        self._outbox.lost()

    def seen(self, entry: Entry) -> None:
        """An own message stands in the log: if it is still in the outbox, that is the answer."""
        key = entry.chat, entry.client_message_id or ""
        if key in self._outbox and entry.message_id is not None:
            self._arrived(
                key, Sent(entry.chat, entry.sequence, entry.message_id, key[1], entry.created_at)
            )

    def sent(self, message: Outgoing, frame: SentFrame) -> None:
        """The server has it."""
        self._arrived(
            message.key,
            Sent(
                frame.chat,
                frame.sequence,
                frame.message_id,
                message.client_message_id,
                frame.created_at,
            ),
        )

    def refused(self, message: Outgoing, frame: RefusedFrame, now: float) -> None:
        """The server does not take it: now, or ever."""
        if frame.retryable:
            self._outbox.turned_away(message.key, now)
        elif self._outbox.answered(message.key) is not None:
            self._failed(message, Refused(frame.code, frame.detail))

    def expire(self, wall_ms: int) -> None:
        """Give up what has become too old to be repeated."""
        for message in self._outbox.expired(wall_ms):
            self._failed(message, SendExpired())

    def _arrived(self, key: OutgoingKey, sent: Sent) -> None:
        if self._outbox.answered(key) is not None:
            self._notebook.changes.settle(key)
            self._notebook.wake()
            self._outcome(key, sent)

    def _failed(self, message: Outgoing, refused: Refused) -> None:
        """Never in silence: to whoever waits, else as an event, which has to be taken before the
        message is forgotten."""
        if self._outcome(message.key, refused):
            self._notebook.changes.settle(message.key)
            self._notebook.wake()
            return
        event = SendFailed(
            chat=message.chat,
            client_message_id=message.client_message_id,
            content=message.content,
            code=refused.code,
            detail=refused.detail,
        )
        self._queue.put(event, Reported(message.key))


def own_entry(message: Outgoing, sender: str, frame: SentFrame) -> Entry:
    """What the log holds at the place of an own message: `sent` stands for it."""
    lives = None if message.ttl_seconds is None else timedelta(seconds=message.ttl_seconds)
    return Entry(
        chat=frame.chat,
        sequence=frame.sequence,
        kind="message",
        sender=sender,
        created_at=frame.created_at,
        message_id=frame.message_id,
        client_message_id=message.client_message_id,
        content=message.content,
        content_type=message.content_type,
        expires_at=None if lives is None else frame.created_at + lives,
    )
