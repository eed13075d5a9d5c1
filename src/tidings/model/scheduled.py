# SPDX-License-Identifier: Apache-2.0
"""Scheduled messages: written now, sent at a later time. Their limits and refusals are here too."""

from calendar import isleap
from datetime import timedelta
from typing import Final, Literal

import msgspec

from tidings.model.entries import Entry, SendOptions
from tidings.model.ids import EPOCH, ChatId, UserKey
from tidings.model.limits import DAY_MS, SECOND_MS
from tidings.model.refusals import Conflict, NotFound

USER_SCHEDULED_MAX: Final = 100
"""Messages that one user may have scheduled at a time."""
FAILED_KEPT_MS: Final = 30 * DAY_MS
"""How long a message that could not be sent is kept for its author."""
DONE_KEPT_MS: Final = DAY_MS
"""How long a sent or cancelled message is remembered, without its content."""
SETTLE_MS: Final = 60 * SECOND_MS
"""Time after which a request to schedule a message has certainly ended. Until then, a due item
without its message may be one whose message is still being stored."""

SENT_AS: Final = "sch:"
"""Prefix of the client_message_id of messages that were scheduled. Clients cannot use it."""

State = Literal["pending", "firing", "sent", "failed", "cancelled"]
RESTORED: Final = "restored"
"""Code of a message that was due before its backup was restored, and is therefore not sent."""


def schedule_end(now: int) -> int:
    """Return the latest time for which something may be scheduled: one year ahead, at the same date
    and time in UTC. The year after 29 February ends on 1 March."""
    today = EPOCH + timedelta(milliseconds=now)
    february = today.year if today.month <= 2 else today.year + 1
    return now + (366 if isleap(february) else 365) * DAY_MS


def scheduled_id_of(client_message_id: str) -> str | None:
    """Return the scheduled message that is sent under this id; None if it is of another kind."""
    if not client_message_id.startswith(SENT_AS):
        return None
    return client_message_id.removeprefix(SENT_AS)


class ScheduledNotFound(NotFound):
    """The user has no such scheduled message, or cancelled it."""

    code, title = "scheduled.not_found", "No such scheduled message"


class ScheduledTooLate(Conflict):
    """The scheduled message is being sent, was sent, or could not be sent."""

    code, title = "scheduled.too_late", "The message is not pending any more"


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is to be sent later.

    `pending` messages can be changed. A message is `firing` from the moment at which a process
    begins to send it. It is then `sent` or `failed`, whatever happens to the process.
    """

    user_id: UserKey
    scheduled_id: str
    """Made of author, chat and client_message_id, so that a repeated request finds the message."""
    chat_id: ChatId
    client_message_id: str
    send_at: int
    state: State = "pending"
    content_type: str | None = None
    ttl_seconds: int | None = None
    box: bytes | None = None
    """Content, encrypted with the author's data key under the later client_message_id."""
    box_key: int = 0
    digest: bytes
    """Digest of the request that scheduled the message, which identifies repeats."""
    reply_to: int | None = None
    mentions: tuple[str, ...] = ()
    silent: bool = False
    created_at: int
    updated_at: int
    sequence: int | None = None
    """Sequence of the sent message."""
    code: str | None = None
    """Code of the refusal because of which the message failed."""
    expires_at: int | None = None
    """When a message that is neither pending nor firing is removed."""
    attachments: tuple[str, ...] = ()
    """Ids of uploads of the author, which are reserved for the message."""

    @property
    def sent_as(self) -> str:
        """The client_message_id under which the message is sent."""
        return f"{SENT_AS}{self.scheduled_id}"

    @property
    def is_open(self) -> bool:
        """Whether the message still has to be sent."""
        return self.state in ("pending", "firing")

    def is_listed(self, now: int) -> bool:
        """Return True if the author sees the message in the list."""
        is_kept = self.expires_at is None or self.expires_at > now
        return is_kept and (self.is_open or self.state == "failed")

    @property
    def options(self) -> SendOptions | None:
        """The options of the message; None if it has none."""
        options = SendOptions(
            self.reply_to, self.mentions, self.silent, attachments=self.attachments
        )
        return None if options == SendOptions() else options

    def as_entry(self) -> Entry:
        """Return the message as an entry, with which its content can be decrypted."""
        return Entry(
            chat_id=self.chat_id,
            kind="message",
            sender=self.user_id,
            client_message_id=self.sent_as,
            box=self.box,
            box_key=self.box_key,
        )

    def sent(self, sequence: int, now: int) -> "Scheduled":
        """Return the message with the state `sent`, and without its content, which is in the log
        now."""
        return self._done("sent", now, sequence=sequence)

    def cancelled(self, now: int) -> "Scheduled":
        """Return the message as cancelled by its author, without content."""
        return self._done("cancelled", now)

    def failed(self, code: str, now: int) -> "Scheduled":
        """Return the message as failed. It keeps its content, so that its author can send it
        again."""
        return msgspec.structs.replace(
            self, state="failed", code=code, updated_at=now, expires_at=now + FAILED_KEPT_MS
        )

    def _done(self, state: State, now: int, sequence: int | None = None) -> "Scheduled":
        return msgspec.structs.replace(
            self, state=state, sequence=sequence, box=None, box_key=0, reply_to=None, mentions=(),
            attachments=(),
            updated_at=now, expires_at=now + DONE_KEPT_MS,
        )  # fmt: skip
