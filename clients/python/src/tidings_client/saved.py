# SPDX-License-Identifier: Apache-2.0
"""What a client keeps between its runs, and how that changes. Plain values."""

import msgspec

OutgoingKey = tuple[str, str]
"""What makes a message of the outbox one and the same: its chat and its client_message_id."""


class Held(msgspec.Struct, frozen=True):
    """How far the application has taken a chat's entries, and under which epoch that counts."""

    epoch: str
    have: int


class Outgoing(msgspec.Struct, frozen=True):
    """A message in the outbox."""

    chat: str
    client_message_id: str
    content: str
    created_at_ms: int
    """When the application posted it, by this machine's clock."""
    content_type: str | None = None
    ttl_seconds: int | None = None

    @property
    def key(self) -> OutgoingKey:
        """What makes it one and the same message."""
        return self.chat, self.client_message_id


class Saved(msgspec.Struct):
    """Everything that is kept."""

    user: str | None = None
    """Whose it is; None before the first connection."""
    epoch: str | None = None
    held: dict[str, Held] = {}
    reads: dict[str, int] = {}
    """The latest read marks under the epoch, the most recent one last."""
    outbox: list[Outgoing] = []
    """In the order of posting."""


class Changes(msgspec.Struct):
    """What has changed since the last time. Only the latest of each is worth keeping."""

    user: str | None = None
    epoch: str | None = None
    """A new epoch; the read marks of the one before are dropped, those in here are of the new."""
    held: dict[str, Held | None] = {}
    """None: the chat is not held any more."""
    reads: dict[str, int | None] = {}
    posted: dict[OutgoingKey, Outgoing] = {}
    settled: set[OutgoingKey] = set()
    """Messages that have left the outbox, for good or for bad."""

    def __bool__(self) -> bool:
        return any((self.user, self.epoch, self.held, self.reads, self.posted, self.settled))

    def begin_epoch(self, epoch: str) -> None:
        """The server's log is another one: the read marks so far mean nothing in it."""
        self.epoch = epoch
        self.reads = {}

    def settle(self, key: OutgoingKey) -> None:
        """The message leaves the outbox, in which it may not have been yet."""
        if self.posted.pop(key, None) is None:
            self.settled.add(key)
