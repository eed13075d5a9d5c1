# SPDX-License-Identifier: Apache-2.0
"""Ports of delivery: store calls, registry, handover to gateways, push notices, text messages."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.entries import Entry, Head, Kind
from tidings.model.ids import ChatId, UserKey
from tidings.model.push_results import PushResult
from tidings.ports.bus import InboxEvent


class MessageNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A notice of a new message, for those members of the chat who are not connected.

    It identifies the message and contains nothing of its content.
    """

    chat_id: ChatId
    sequence: int
    sender: UserKey
    users: tuple[UserKey, ...]


class PushMute(msgspec.Struct, frozen=True):
    """A member's mute of a chat: until when, and whether messages that mention the member are
    excepted."""

    until: int
    except_mentions: bool = False

    def holds(self, now: int, *, is_mention: bool) -> bool:
        """Return True if the member gets no push notice of a message."""
        return self.until > now and not (is_mention and self.except_mentions)


NoticesEnded = Callable[[Sequence[MessageNotice], PushResult, str], None]
"""Keeps what became of notices, with a reason, or an empty text."""


class Push(Protocol):
    """Sends push notices to users' devices."""

    async def send(self, notices: Sequence[MessageNotice]) -> None:
        """Try at least once to send the notices; a failure is logged, not raised."""
        ...


class TextRejected(Exception):
    """The provider works but rejected this text, because of the number or the content."""


class Sms(Protocol):
    """Sends text messages to phones."""

    async def send(self, phone_number: str, text: str) -> None:
        """Send a text with one attempt and a deadline; on return, the provider has accepted it.

        Raises:
            TextRejected: The provider rejected the text because of the number or the content.
            SmsUnavailable: The provider failed for another reason, or it is unknown whether it
                accepted the text.
        """
        ...


class EncodedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as a frame, encoded once for all connections."""

    chat_id: ChatId
    sequence: int
    kind: Kind
    added: tuple[UserKey, ...] = ()
    """Users who become members with this entry. It is the first entry of the chat that they
    receive."""
    removed: tuple[UserKey, ...] = ()
    """Users who are no longer members after this entry. It is the last entry that they receive."""
    is_small: bool
    frame: bytes
    head: Head = Head()
    """The head of the log after this entry; empty if an older process encoded it."""


class Handover(Protocol):
    """Sends entries and notices from a worker to the gateways."""

    async def entries(
        self, encoded_entries: Sequence[EncodedEntry], users: Mapping[str, Sequence[UserKey]]
    ) -> Mapping[str, frozenset[str]]:
        """Send entries of one chat, in order, to gateways; `users` lists each gateway's users.

        Returns for each gateway the connections that get all these entries and are not away. A
        connection without room for an entry is included, because it reads the entry from the log
        later. Gateways that did not answer within a second are omitted.
        """
        ...

    def owe_comparison(self) -> None:
        """Ask all gateways to compare heads as soon as they can be reached, because entries were
        not sent to them."""
        ...

    def notice(
        self, frame: bytes, users: Mapping[str, Sequence[UserKey]], chat: ChatId | None = None
    ) -> None:
        """Send a frame that has no sequence, with best effort and without an answer.

        A frame about a chat reaches only connections that follow the chat.
        """
        ...

    def hint(self, event: InboxEvent, gateway: str | None, *, but_not: str) -> None:
        """Send an inbox event to one gateway, or to all except `but_not`, with best effort."""
        ...


class HandoverTarget(Protocol):
    """Receives entries and notices in a gateway, and passes them to connections."""

    def entries(
        self,
        encoded_entries: Sequence[EncodedEntry],
        users: Sequence[UserKey],
        answer: Callable[[list[str]], None],
    ) -> None:
        """Queue entries of one chat for these users; later call `answer`.

        `answer` gets the connections to which the entries were passed and which are not away. A
        gateway whose queue is full drops the entries and does not answer. It finds the entries
        later, when it compares heads.
        """
        ...

    def notice(self, frame: bytes, users: Sequence[UserKey], chat: ChatId | None) -> None:
        """Pass a frame that has no sequence to these users' connections."""
        ...

    def hint(self, event: InboxEvent) -> None:
        """Accept an inbox event. The gateway then reads the inboxes of the users whom it
        concerns."""
        ...

    def request_reconcile(self) -> None:
        """Compare heads with the store, because a handover may have been lost."""
        ...


class GatewayQuestions(Protocol):
    """Asks gateways about what they have in memory."""

    async def ask(
        self, subject: str, asked: bytes, gateways: Collection[str] | None = None
    ) -> Mapping[str, bytes]:
        """Ask these gateways, or all gateways if `gateways` is None.

        Returns the answers by gateway. Gateways that did not answer within a second are omitted,
        and so are those of an older version, which does not know the subject. If Redis is a
        cluster, all gateways are asked, but not all answers may be waited for.
        """
        ...


class RegistryUnavailable(Exception):
    """The registry does not answer. Nothing is lost: entries are in the log."""


class ConnectionAddress(msgspec.Struct, frozen=True, order=True):
    """A connection and its gateway."""

    gateway: str
    """The gateway's random name, new each time a process starts."""
    connection: str


class Refreshed(msgspec.Struct, frozen=True):
    """Outcome of refreshing registrations."""

    missing: list[tuple[UserKey, str]]
    """Connections whose registration had expired, so that nobody could find them. They are
    registered again."""
    surplus: list[tuple[UserKey, str]]
    """Connections that stay unregistered, because their users have too many other connections."""


class ConnectionDirectory(Protocol):
    """Finds the connections of users."""

    async def find(self, users: Iterable[UserKey]) -> Mapping[UserKey, list[ConnectionAddress]]:
        """Return the connections of these users, in one round trip; users without any are omitted.

        Raises:
            RegistryUnavailable: The connections are unknown.
        """
        ...


class Registry(ConnectionDirectory, Protocol):
    """Registers the connections of all gateways. A registration expires unless it is refreshed.

    A user has at most `limits.USER_CONNECTIONS_MAX` registrations, over all gateways.
    """

    async def enter(self, user: UserKey, connection: str, instead_of: str | None = None) -> bool:
        """Register a connection of this gateway. After this, every call of `find` returns it.

        The registration of `instead_of`, another connection of this gateway, is removed first.
        Returns False, and registers nothing, if the user has reached the limit of connections.

        Raises:
            RegistryUnavailable: The connection may or may not be registered; the gateway must
                compare heads.
        """
        ...

    def leave(self, user: UserKey, connection: str) -> None:
        """Remove a registration in the background; if that fails, the registration expires."""
        ...

    async def refresh(self, connections: Sequence[tuple[UserKey, str]]) -> Refreshed:
        """Renew the registrations of this gateway's connections.

        After this, each of them is registered, or is in the result's `surplus`.

        Raises:
            RegistryUnavailable: It is unknown which of the connections are or were registered.
        """
        ...


BeforeHeadCopy = Callable[[str, ChatId, int], Awaitable[None]]
"""Called with a tenant, one of its chats, and the sequence that a head copy is about to have."""


class DeliveryStore(Protocol):
    """Reads and writes for delivery. No membership is checked: delivery sends to members only.

    Every call raises StoreUnavailable if the store does not answer.
    """

    async def entries(self, chat: ChatId, *, after: int, limit: int) -> list[Entry]:
        """Return the next entries after a sequence in their current state, from a strong read.

        A pack is never divided, so there may be a few more entries than `limit`. `edited`
        entries come with their target as `shown`.
        """
        ...

    async def advance(self, chat: ChatId, head: Head, last: Entry | None) -> None:
        """Store in the chat's head copy that entries up to `head` are delivered; durable on return.

        The copy only moves forward. It is written at most once a second per chat; a call that comes
        sooner waits. `last` is the last message of the log up to `head`, or None if the caller does
        not have it.
        """
        ...

    async def reached(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        """Return the sequence in each chat's head copy, up to which the chat is delivered.

        The read is strong. A chat without members needs no delivery, so its sequence is the highest
        possible.
        """
        ...

    def before_head_copies(self, call: BeforeHeadCopy) -> None:
        """Call this function before each head copy that this process writes.

        If it raises StoreUnavailable, the copy is not written, and the function is called again
        later.
        """
        ...

    async def mutes(self, chat: ChatId) -> Mapping[UserKey, PushMute]:
        """Return the mute of each member who has muted the chat."""
        ...


class EntryWritten(msgspec.Struct, frozen=True):
    """An entry, or a pack that begins with it, was stored at this sequence."""

    chat: ChatId
    sequence: int
    at: int
    """Approximate time of the write by the store's clock."""


class ContentExpired(msgspec.Struct, frozen=True):
    """The expired content of the message at this sequence was deleted."""

    chat: ChatId
    sequence: int
    at: int
    """Approximate time of the deletion by the store's clock."""


Change = EntryWritten | ContentExpired


class Changes(Protocol):
    """Returns the changes of the log within the last day, in any order.

    After each start of the process, every change is returned at least once.
    """

    async def poll(self) -> Sequence[Change]:
        """Return some changes that were not returned yet; an empty list if there are none now.

        Raises:
            StoreUnavailable: The store does not answer; try again later. No change is skipped.
        """
        ...


class RemoteGateways:
    """Finds users who are connected to other gateways, and sends them frames and inbox events."""

    def __init__(self, registry: Registry, handover: Handover, own: str) -> None:
        """Set up the lookup; `own` is the name of the gateway in this process."""
        self._registry = registry
        self._handover = handover
        self._own = own

    async def find(self, users: Iterable[UserKey]) -> dict[str, list[UserKey]]:
        """Return the other gateways with their connected users; empty if the registry is down."""
        try:
            found = await self._registry.find(users)
        except RegistryUnavailable:
            return {}
        by_gateway: dict[str, list[UserKey]] = {}
        for user, addresses in found.items():
            for gateway in {address.gateway for address in addresses} - {self._own}:
                by_gateway.setdefault(gateway, []).append(user)
        return by_gateway

    def send(
        self, frame: bytes, gateways: Mapping[str, Sequence[UserKey]], chat: ChatId | None = None
    ) -> None:
        """Send a frame to users on other gateways; `chat` is the chat that the frame is about."""
        if gateways:
            self._handover.notice(frame, gateways, chat)

    def hint(self, event: InboxEvent, gateway: str | None = None) -> None:
        """Send an event of an inbox to one other gateway, or to all of them."""
        self._handover.hint(event, gateway, but_not=self._own)
