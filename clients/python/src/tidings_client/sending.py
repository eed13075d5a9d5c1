# SPDX-License-Identifier: Apache-2.0
"""Send messages from the outbox to the server, and report the outcome to the caller. No I/O."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from tidings_client.errors import Refused, SendExpired
from tidings_client.event_queue import EventQueue, Reported
from tidings_client.events import SendFailed
from tidings_client.frames import Entry, RefusedFrame, Send, SentFrame
from tidings_client.notebook import Notebook
from tidings_client.outbox import Outbox
from tidings_client.requests import Requests
from tidings_client.saved import Outgoing, OutgoingKey

RATE_LIMITED: Final = "rate.limited"
"""The refusal of a user who sends too fast, in whatever chat."""


class Sent(msgspec.Struct, frozen=True):
    """A message that is durable on the server, with its sequence in the chat's log."""

    chat: str
    sequence: int
    message_id: str
    client_message_id: str
    created_at: datetime


Outcome = Callable[[OutgoingKey, Sent | Refused], bool]
"""Callback that gets the outcome of a message; it returns whether somebody was waiting for it."""


class Sending:
    """Sends messages again until the server has answered, and reports their outcome."""

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

    def post(self, message: Outgoing) -> bool:
        """Add a message to the outbox; it is sent after `stored` is called.

        Return False if the same message is waiting already, for example since an earlier run.

        Raises:
            OutboxFull: Too many messages are waiting.
            Refused: Another message with this client_message_id is waiting.
        """
        waiting = self._outbox.waiting(message.key)
        if waiting is None:
            self._outbox.add(message)
        elif not waiting.is_same(message):
            raise Refused("send.conflict", "another message with this client_message_id waits")
        return waiting is None

    def stored(self, key: OutgoingKey) -> None:
        """Record that the storage has saved the message, so that it can be sent."""
        self._outbox.stored(key)

    def pump(self, say: Callable[[Send], None], now: float, epoch: str | None) -> None:
        """Send all messages that may be sent now, in this epoch of the server."""
        for message in self._outbox.due(now):
            say(
                Send(
                    self._requests.ask(message, now),
                    message.chat,
                    message.client_message_id,
                    message.content,
                    message.content_type,
                    message.ttl_seconds,
                    message.after_in(epoch),
                    message.reply_to,
                    message.mentions,
                    message.silent,
                    tuple(file.attachment_id for file in message.attachments),
                )
            )

    def lost(self) -> None:
        """Handle the loss of the connection; unanswered messages are sent again on the next one."""
        self._outbox.lost()

    def seen(self, entry: Entry) -> None:
        """Handle an entry with an own message, which confirms it if it is still in the outbox."""
        key = entry.chat, entry.client_message_id or ""
        if key in self._outbox and entry.message_id is not None:
            self._arrived(
                key, Sent(entry.chat, entry.sequence, entry.message_id, key[1], entry.created_at)
            )

    def sent(self, message: Outgoing, frame: SentFrame) -> None:
        """Handle the answer that the message is durable on the server."""
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
        """Handle a refusal: try again later if it is retryable, else report the failure."""
        if frame.retryable:
            asked_seconds = (frame.retry_after_ms or 0) / 1_000
            is_too_fast = frame.code == RATE_LIMITED
            self._outbox.turned_away(message.key, now, asked_seconds, concerns_all=is_too_fast)
        elif self._outbox.answered(message.key) is not None:
            self._failed(message, Refused(frame.code, frame.detail))

    def expire(self, wall_ms: int) -> None:
        """Give up messages that are too old to be sent again."""
        for message in self._outbox.expired(wall_ms):
            self._failed(message, SendExpired())

    def _arrived(self, key: OutgoingKey, sent: Sent) -> None:
        if self._outbox.answered(key) is not None:
            self._notebook.changes.settle(key)
            self._notebook.wake()
            self._outcome(key, sent)

    def _failed(self, message: Outgoing, refused: Refused) -> None:
        """Report a failed message to the caller of `send`; if nobody waits, report it as an event.

        The message is removed from the storage only after the application has got this report.
        """
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
        self._outbox.failed()
        self._queue.put(event, Reported(message.key))

    def told(self, key: OutgoingKey) -> None:
        """Forget a failed message, because the application has got the report."""
        self._outbox.told()
        self._notebook.changes.settle(key)
        self._notebook.wake()


def own_entry(message: Outgoing, sender: str, frame: SentFrame) -> Entry:
    """Return the log entry of an own message; its sender gets `sent` instead of the entry."""
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
        reply_to=message.reply_to,
        mentions=message.mentions,
        silent=message.silent,
        attachments=message.attachments,
    )
