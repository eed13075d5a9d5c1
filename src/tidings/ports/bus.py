# SPDX-License-Identifier: Apache-2.0
"""Facts on their way from those who store them to those who deliver them."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipts import Receipt


class Appended(msgspec.Struct, frozen=True):
    """An entry became durable."""

    entry: Entry
    state: ChatState
    """The chat after the entry. Read it, do not keep it: it moves on."""


class ReceiptMoved(msgspec.Struct, frozen=True):
    """A member of a small chat is further than before."""

    chat: ChatId
    receipt: Receipt
    by_reading: bool
    """Whether the user read something: what is left unread has changed then."""


class Typing(msgspec.Struct, frozen=True):
    """A member of a small chat is writing."""

    chat: ChatId
    user: UserKey


class Expired(msgspec.Struct, frozen=True):
    """The sweeper emptied these messages."""

    chat: ChatId
    sequences: tuple[int, ...]


class Invited(msgspec.Struct, frozen=True):
    """Somebody asks a user into a group."""

    user: UserKey
    chat: ChatId
    inviter: UserKey


class CopiesMade(msgspec.Struct, frozen=True, tag="copies"):
    """These users have a notification now."""

    tenant: str
    inbox: str
    notification_id: str
    received_at: int
    users: tuple[UserKey, ...]


class BroadcastPosted(msgspec.Struct, frozen=True, tag="announced"):
    """Something for everyone stands in the log of an inbox."""

    tenant: str
    inbox: str
    sequence: int


class Retracted(msgspec.Struct, frozen=True, tag="retracted"):
    """A notification was taken back."""

    tenant: str
    inbox: str
    notification_id: str


class InboxRead(msgspec.Struct, frozen=True, tag="read"):
    """A user marked something of an inbox as read."""

    user: UserKey
    inbox: str


InboxEvent = CopiesMade | BroadcastPosted | Retracted | InboxRead
"""A hint and no more: whoever wants to know what there is to see reads the inbox."""

Event = Appended | ReceiptMoved | Typing | Expired | Invited | InboxEvent


class Bus(Protocol):
    """Hands every event published to every subscriber.

    Events of one chat arrive in the order they were published in. Delivery may be lost or
    repeated: whoever depends on an entry reads the log.
    """

    def publish(self, event: Event) -> None:
        """Send the event on its way. Never waits, never raises for what a subscriber does."""
        ...

    def subscribe(self, receive: Callable[[Event], None]) -> None:
        """Call this with each event from now on, on the event loop."""
        ...


class FeedUnavailable(Exception):
    """The feed does not answer. Nothing is lost by it: the relay compares the log."""


class FeedEvent(msgspec.Struct, frozen=True):
    """An event with its place in the feed."""

    partition: int
    offset: int
    value: bytes


class Feed(Protocol):
    """What is published, shared out among the workers of one group.

    Events of one chat come to one worker, in order. An event comes again, to this worker or to
    another one, unless it was reported as finished; now and then even so.
    """

    async def take(self, most: int) -> Sequence[FeedEvent]:
        """The next events, soon; perhaps none.

        Raises:
            FeedUnavailable: Try again later.
        """
        ...

    def finish(self, received: FeedEvent) -> None:
        """All that the event asks for is done. It is finished for good once all before it are."""
        ...

    async def dead_letter(self, received: FeedEvent, reason: str) -> None:
        """Keep an event that nobody can deliver where an operator finds it, with the reason.

        Raises:
            FeedUnavailable: It is not kept.
        """
        ...

    async def close(self) -> None:
        """Leave the group, having told it what is finished."""
        ...
