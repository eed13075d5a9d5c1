# SPDX-License-Identifier: Apache-2.0
"""Events and delivery jobs, and the ports that carry them to delivery."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from tidings.model.chats import ChatState, Receipt
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.notification_states import Acted, StateChange
from tidings.tracing.spans import Span


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A delivery job: up to 100 users who each get a copy of a notification."""

    tenant: str
    inbox: str
    notification_id: str
    number: int
    """Number of this job among the jobs of the notification: 0, 1, ..."""
    users: tuple[str, ...]
    """At most 100 user ids of the tenant."""
    category: str | None
    posted_at: int
    expires_at: int
    collapse: str | None = None
    """Digest of the collapse key; None if there is no key."""


class Taken(msgspec.Struct, frozen=True):
    """A job that a worker took from the queue, with the handle to finish it."""

    job: Job
    handle: str
    attempt: int
    """How often the queue has given out the job: 1, 2, ..."""


class JobsUnavailable(Exception):
    """The queue does not answer. Jobs of a failed `put` may or may not be in the queue."""


class Jobs(Protocol):
    """A queue that loses no job. It repeats unfinished jobs, and sometimes a finished job."""

    async def put(self, jobs: Sequence[Job]) -> None:
        """Put all jobs into the queue, durably. Safe to repeat, because a job that is done twice
        changes nothing.

        Raises:
            JobsUnavailable: Some of the jobs may be in the queue.
        """
        ...

    async def take(self, most: int) -> Sequence[Taken]:
        """Return the next jobs. If there are none, wait a short time for the first.

        Raises:
            JobsUnavailable: The queue does not answer; try again later.
        """
        ...

    async def finish(self, taken: Taken) -> None:
        """Remove a finished job from the queue.

        Raises:
            JobsUnavailable: The queue may repeat the job.
        """
        ...

    async def close(self) -> None:
        """Stop taking jobs. The queue repeats unfinished jobs, here or in another process."""
        ...


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery job that failed too often and waits for an operator."""

    aside_id: str
    job: Job
    reason: str
    at: int


class DeadLetters(Protocol):
    """Stores dead letters, even if the queue itself is not in the store. Writes are durable."""

    async def keep(self, dead_letter: DeadLetter) -> None:
        """Store a dead letter, unless one with this id is stored already."""
        ...

    async def page(self, *, after: str | None, limit: int) -> list[DeadLetter]:
        """Return dead letters in the order of their ids, after an id or from the start."""
        ...

    async def get(self, aside_id: str) -> DeadLetter | None:
        """Return one dead letter."""
        ...

    async def drop(self, aside_id: str) -> None:
        """Remove a dead letter."""
        ...


class Appended(msgspec.Struct, frozen=True):
    """An entry became durable."""

    entry: Entry
    state: ChatState
    """The chat's state after the entry. Read it at once, because it changes with later entries."""
    span: Span | None = None
    """The span of the append, if it is traced."""


class Learnt(msgspec.Struct, frozen=True):
    """This process has read messages that another process appended to a chat."""

    entries: list[Entry]
    """Messages in the order of the log, with encrypted content."""
    state: ChatState
    """The chat's state before these messages, which do not change its members."""


class ReceiptMoved(msgspec.Struct, frozen=True):
    """The receipt of a member of a small chat moved."""

    chat: ChatId
    receipt: Receipt
    by_reading: bool
    """Whether the read mark moved. If so, the unread count changes."""


class ChatChanged(msgspec.Struct, frozen=True):
    """A user marked a chat as unread, hid it or muted it. Other members see no change."""

    user: UserKey
    chat: ChatId | None
    """None if the user has blocked another user, which may change all chats."""


class ScheduledFailed(msgspec.Struct, frozen=True):
    """A scheduled message of a user could not be sent at its time."""

    user: UserKey
    chat: ChatId
    scheduled_id: str
    code: str


class Typing(msgspec.Struct, frozen=True):
    """A member of a small chat is typing."""

    chat: ChatId
    user: UserKey


class Expired(msgspec.Struct, frozen=True):
    """The sweeper, or the store by itself, removed the content of these messages."""

    chat: ChatId
    sequences: tuple[int, ...]
    minute: int | None = None
    """When the minute began in which the store removed it. Then other processes report the same, at
    other times and divided in other ways. None if only this process reports it."""


class Invited(msgspec.Struct, frozen=True):
    """A user was invited into a group."""

    user: UserKey
    chat: ChatId
    inviter: UserKey


class ProfileChanged(msgspec.Struct, frozen=True):
    """A user's name or avatar may have changed."""

    user: UserKey
    display_name: str | None
    avatar_url: str | None


class PresenceSwitched(msgspec.Struct, frozen=True):
    """A user hid their presence, or shows it again."""

    user: UserKey
    is_hidden: bool


ProfileEvent = ProfileChanged | PresenceSwitched


class CopiesMade(msgspec.Struct, frozen=True, tag="copies"):
    """These users got a copy of a notification."""

    tenant: str
    inbox: str
    notification_id: str
    received_at: int
    users: tuple[UserKey, ...]


class BroadcastPosted(msgspec.Struct, frozen=True, tag="announced"):
    """A broadcast was appended to the log of an inbox."""

    tenant: str
    inbox: str
    sequence: int


class Retracted(msgspec.Struct, frozen=True, tag="retracted"):
    """A notification was retracted."""

    tenant: str
    inbox: str
    notification_id: str


class InboxRead(msgspec.Struct, frozen=True, tag="read"):
    """A user marked notifications of an inbox as read, or changed otherwise which ones count."""

    user: UserKey
    inbox: str
    by_reading: bool = True


class StatesChanged(msgspec.Struct, frozen=True, tag="states"):
    """A user changed the states of notifications of an inbox, or chose an action."""

    user: UserKey
    inbox: str
    change: StateChange
    ids: tuple[str, ...] = ()
    """The notifications; empty if the change covers all up to a time."""
    before: int | None = None
    acted: Acted | None = None


InboxEvent = CopiesMade | BroadcastPosted | Retracted | InboxRead | StatesChanged
"""An inbox event is only a hint: its receiver reads the inbox to learn what a user has to see."""

ChatEvent = (
    Appended | Learnt | ReceiptMoved | ChatChanged | ScheduledFailed | Typing | Expired | Invited
)

Event = ChatEvent | ProfileEvent | InboxEvent

E = TypeVar("E", bound=Event)


class Bus(Protocol):
    """Passes every published event to every subscriber.

    Events of one chat arrive in the order in which they were published. Events may be lost or
    repeated. Therefore a subscriber that depends on an entry reads the log.
    """

    def publish(self, event: Event) -> None:
        """Publish an event. Never waits, and never raises because of a subscriber."""
        ...

    def subscribe(self, receive: Callable[[E], None], *kinds: type[E]) -> None:
        """Call `receive` with each later event of these kinds, or of all kinds if none is named.

        It is called on the event loop.
        """
        ...


class FeedUnavailable(Exception):
    """The feed of events does not answer. Nothing is lost: the relay finds missed entries."""


class FeedEvent(msgspec.Struct, frozen=True):
    """An encoded event with its position in the feed of events."""

    partition: int
    offset: int
    value: bytes
    trace: str | None = None
    """The `traceparent` of the span that published the event, if it is traced."""


class Feed(Protocol):
    """Published events, divided among the workers of one group.

    One worker gets all events of a chat, in order. An event that was not reported as finished is
    repeated, to the same worker or another. Sometimes a finished event is repeated too.
    """

    async def take(self, most: int) -> Sequence[FeedEvent]:
        """Return the next events. If there are none, wait a short time for the first.

        Raises:
            FeedUnavailable: The feed does not answer; try again later.
        """
        ...

    def finish(self, received: FeedEvent) -> None:
        """Report an event as finished. It may still be repeated, as long as an earlier event is
        unfinished."""
        ...

    async def dead_letter(self, received: FeedEvent, reason: str) -> None:
        """Store an event as a dead letter, with the reason why it cannot be delivered.

        Raises:
            FeedUnavailable: The dead letter was not stored.
        """
        ...

    async def close(self) -> None:
        """Report the finished events and leave the group."""
        ...


encode_job = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Job).decode


class NotAJob(Exception):
    """The bytes are not a delivery job."""


def decode_job(data: bytes | str) -> Job:
    """Decode a job from a queue.

    Raises:
        NotAJob: The bytes are not a job, or a job of a newer version.
    """
    try:
        job: Job = _decode(data)
    except msgspec.MsgspecError as error:
        raise NotAJob(str(error)) from None
    return job
