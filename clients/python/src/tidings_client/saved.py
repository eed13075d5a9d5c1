# SPDX-License-Identifier: Apache-2.0
"""The state that a client saves between runs, and changes of it, as plain values."""

import msgspec

from tidings_client.events import Attachment

OutgoingKey = tuple[str, str]
"""The key of a message in the outbox: its chat and its client_message_id."""


class Held(msgspec.Struct, frozen=True):
    """The last entry of a chat that the application has confirmed (`have`), and its epoch."""

    epoch: str
    have: int


class Outgoing(msgspec.Struct, frozen=True):
    """A message in the outbox."""

    chat: str
    client_message_id: str
    content: str
    created_at_ms: int
    """When the application posted the message, by this machine's clock."""
    content_type: str | None = None
    ttl_seconds: int | None = None
    after: int | None = None
    """The last entry of the chat that the client had when the message was posted; None if it was
    not connected. If the message is in the log, it is after this entry."""
    epoch: str | None = None
    """The epoch of `after`."""
    reply_to: int | None = None
    """Sequence of the message that this one answers."""
    mentions: tuple[str, ...] = ()
    silent: bool = False
    attachments: tuple[Attachment, ...] = ()

    @property
    def key(self) -> OutgoingKey:
        """The key of the message in the outbox."""
        return self.chat, self.client_message_id

    def is_same(self, other: "Outgoing") -> bool:
        """Return whether another message with this key is the same one, posted once more."""
        posted = {"created_at_ms": self.created_at_ms, "after": self.after, "epoch": self.epoch}
        return msgspec.structs.replace(other, **posted) == self

    def after_in(self, epoch: str | None) -> int | None:
        """Return `after` for a send in this epoch. In another epoch, the sequence means nothing,
        and only 0 is certain."""
        return self.after if self.after is None or epoch == self.epoch else 0


class Saved(msgspec.Struct):
    """The whole saved state of a client."""

    user: str | None = None
    """The user of the client; None before the first connection."""
    epoch: str | None = None
    held: dict[str, Held] = {}
    reads: dict[str, int] = {}
    """The latest read marks in this epoch, the most recent last."""
    outbox: list[Outgoing] = []
    """The messages of the outbox, in the order in which they were posted."""
    erasures: int | None = None
    """`n` of the last erasure that the application knows of; None before the first."""


class Changes(msgspec.Struct):
    """The changes since the last save; a later change replaces an earlier one of the same kind."""

    user: str | None = None
    epoch: str | None = None
    """A new epoch. The saved read marks are dropped; `reads` has marks of the new epoch."""
    held: dict[str, Held | None] = {}
    """The new position in each chat; None if the chat is no longer the user's."""
    reads: dict[str, int | None] = {}
    posted: dict[OutgoingKey, Outgoing] = {}
    settled: set[OutgoingKey] = set()
    """Messages that have left the outbox, because they were sent or have failed."""
    erasures: int | None = None

    def __bool__(self) -> bool:
        is_told = self.erasures is not None
        changed = (self.user, self.epoch, self.held, self.reads, self.posted, self.settled, is_told)
        return any(changed)

    def begin_epoch(self, epoch: str) -> None:
        """Begin a new epoch of the server, in which the read marks so far are invalid."""
        self.epoch = epoch
        self.reads = {}

    def settle(self, key: OutgoingKey) -> None:
        """Remove a message from the outbox, even if it has not been saved there yet."""
        if self.posted.pop(key, None) is None:
            self.settled.add(key)
