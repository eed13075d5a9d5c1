# SPDX-License-Identifier: Apache-2.0
"""Notifications: what a tenant tells its users through a named inbox.

One for listed users has its body once and a copy, a mere reference, for each of them. One for
everyone is an announcement: an entry of the inbox's own log, whoever reads it. What was taken back
is an entry of that log too, so that whoever has read the log to its end knows all that is gone.
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
    """A named stream of notifications of a tenant."""

    title: str
    description: str = ""
    schema_version: str = "1.0"
    categories: tuple[str, ...] | None = None
    """The only ones a notification may have; None: any."""
    late_joiners: bool | None = None
    """Whether users who come later see what everyone was told before; None: as the tenant says."""
    keep_days: int | None = None
    """How long notifications are kept; None: as the tenant says."""
    message_schema: dict[str, object] | None = None
    """A JSON Schema for what a message holds besides title, body and link; None: nothing else."""


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """One for listed users, kept once."""

    tenant: str
    inbox: str
    notification_id: str
    """A ULID: names sort by the time of posting."""
    category: str | None
    posted_at: int
    expires_at: int
    recipients: int
    box: bytes | None
    """The sealed text; None once it was taken back."""
    box_key: int = 0

    @property
    def is_redacted(self) -> bool:
        """Whether it was taken back."""
        return self.box is None


class Broadcast(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of an inbox's log: something for everyone, or that something was taken back."""

    tenant: str
    inbox: str
    sequence: int
    """1, 2, ... without a hole."""
    kind: Literal["broadcast", "retraction"]
    posted_at: int
    """Later than that of the entry before, whatever the clocks say."""
    mark: str
    """Random: by it a writer knows its own entry after an unknown outcome."""
    expires_at: int
    category: str | None = None
    late_joiners: bool = True
    recipients: int = 0
    """How many users the tenant had, about."""
    key: str | None = None
    """The digest of the Idempotency-Key it was posted under."""
    target: str | None = None
    """Of a retraction: the notification that was taken back."""
    box: bytes | None = None
    box_key: int = 0

    @property
    def notification_id(self) -> str:
        """Of a broadcast: what users know it by."""
        return f"b{self.sequence}"


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A user's reference to a notification."""

    notification_id: str
    category: str | None
    received_at: int
    """When the copy was made."""
    expires_at: int
    read_at: int | None = None
    """When the user marked just this one."""


class ReadState(msgspec.Struct, frozen=True, kw_only=True):
    """What a user has read of an inbox, besides the copies marked one by one. Only ever grows."""

    before: int = 0
    """Copies made up to this time are read."""
    announced: int = 0
    """Announcements up to this sequence are read."""
    singly: dict[int, int] = {}
    """Announcements beyond it that are read, each with when it was."""


NOTHING_READ: Final = ReadState()


def broadcast_sequence(notification_id: str) -> int | None:
    """Where an announcement stands in the log; None if the id is not one of an announcement."""
    match = ANNOUNCEMENT.fullmatch(notification_id)
    return int(match[1]) if match else None
