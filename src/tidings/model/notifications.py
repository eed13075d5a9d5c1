# SPDX-License-Identifier: Apache-2.0
"""Notifications: texts that a tenant sends to its users through a named inbox.

A notification for listed users is stored once, with a copy (a mere reference) for each of them. A
broadcast, for everyone, is one entry of the inbox's own log. A retraction is an entry of that log
too, so that a reader of the whole log knows everything that was retracted.
"""

import re
from typing import Final, Literal

import msgspec

from tidings.model.ids import DEVICE, USER

INBOX: Final = USER
CATEGORY: Final = DEVICE
NOTIFICATION: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}|b[1-9][0-9]{0,11}")
ANNOUNCEMENT: Final = re.compile(r"b([1-9][0-9]{0,11})")


class InboxConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a named stream of notifications of a tenant."""

    title: str
    description: str = ""
    schema_version: str = "1.0"
    categories: tuple[str, ...] | None = None
    """Allowed categories; None for any."""
    late_joiners: bool | None = None
    """Whether new users see earlier broadcasts; None for the tenant's default."""
    keep_days: int | None = None
    """Days for which notifications are kept; None for the tenant's default."""
    message_schema: dict[str, object] | None = None
    """JSON Schema of a message's further fields; None if it has only title, body and link."""


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification for listed users, stored once."""

    tenant: str
    inbox: str
    notification_id: str
    """A ULID, so that ids sort by the time of posting."""
    category: str | None
    posted_at: int
    expires_at: int
    recipients: int
    box: bytes | None
    """The sealed text; None after a retraction."""
    box_key: int = 0

    @property
    def is_redacted(self) -> bool:
        """Whether it was retracted."""
        return self.box is None


class Broadcast(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of an inbox's log: a broadcast or a retraction."""

    tenant: str
    inbox: str
    sequence: int
    """1, 2, 3 … without gaps."""
    kind: Literal["broadcast", "retraction"]
    posted_at: int
    """Always later than that of the previous entry, even if a clock is wrong."""
    mark: str
    """Random text by which a writer recognises its own entry after an unknown outcome."""
    expires_at: int
    category: str | None = None
    late_joiners: bool = True
    recipients: int = 0
    """Approximate number of the tenant's users."""
    key: str | None = None
    """Digest of the Idempotency-Key of the post."""
    target: str | None = None
    """The retracted notification, if this is a retraction."""
    box: bytes | None = None
    box_key: int = 0

    @property
    def notification_id(self) -> str:
        """Public id, if this is a broadcast."""
        return f"b{self.sequence}"


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A user's reference to a notification."""

    notification_id: str
    category: str | None
    received_at: int
    """Time when the copy was made."""
    expires_at: int
    read_at: int | None = None
    """Time when the user marked this copy alone as read."""


class ReadState(msgspec.Struct, frozen=True, kw_only=True):
    """A user's read marks in an inbox, apart from single copies. They only move forward."""

    before: int = 0
    """Copies made up to this time are read."""
    announced: int = 0
    """Broadcasts up to this sequence are read."""
    singly: dict[int, int] = {}
    """Sequences of later broadcasts that are read, each with the time of reading."""


NOTHING_READ: Final = ReadState()


def broadcast_sequence(notification_id: str) -> int | None:
    """Return the sequence of a broadcast; None if the id does not name a broadcast."""
    match = ANNOUNCEMENT.fullmatch(notification_id)
    return int(match[1]) if match else None
