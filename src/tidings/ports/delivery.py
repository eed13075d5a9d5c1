# SPDX-License-Identifier: Apache-2.0
"""Ports of delivery: what it reads, the other gateways of a cluster, push and texts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.entries import Entry, Head, Kind
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent


class PushNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A new message in a chat, for those of its members who are not connected.

    It identifies the message and contains nothing of its content.
    """

    chat_id: ChatId
    sequence: int
    sender: UserKey
    users: tuple[UserKey, ...]


class Push(Protocol):
    """Service that can reach the users' devices."""

    async def send(self, notices: Sequence[PushNotice]) -> None:
        """Send the notices, with at least one attempt; a failure is logged, not raised."""
        ...


class TextRejected(Exception):
    """The provider works but rejected this text, because it cannot reach the number."""


class Sms(Protocol):
    """Provider that sends texts to phones."""

    async def send(self, phone_number: str, text: str) -> None:
        """Send a text, in one attempt within a deadline. On return, the provider has accepted it.

        Raises:
            TextRejected: The provider rejected the text because of the number or the content.
            SmsUnavailable: The provider did not accept the text for another reason, or it is
                unknown whether it did.
        """
        ...


class EncodedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry, encoded once for all connections."""

    chat_id: ChatId
    sequence: int
    kind: Kind
    added: tuple[UserKey, ...] = ()
    """Users whom this entry makes members: it is their first entry of the chat."""
    removed: tuple[UserKey, ...] = ()
    """Users for whom this is the last entry of the chat."""
    is_small: bool
    frame: bytes


class Handover(Protocol):
    """The sending side of handovers, from a worker to the gateways."""

    async def entries(
        self, encoded_entries: Sequence[EncodedEntry], users: Mapping[str, Sequence[UserKey]]
    ) -> Mapping[str, frozenset[str]]:
        """Send entries of one chat, in order, to gateways; `users` lists each gateway's users.

        Each gateway answers with the connections of its users. All of them were given every entry;
        a connection that could not take an entry will read it from the log. Gateways that did not
        answer within a second are left out.
        """
        ...

    def notice(
        self, frame: bytes, users: Mapping[str, Sequence[UserKey]], chat: ChatId | None = None
    ) -> None:
        """Send a frame without a sequence: best effort, no answer.

        A frame about a chat reaches only connections that follow the chat.
        """
        ...

    def hint(self, event: InboxEvent, gateway: str | None, *, but_not: str) -> None:
        """Send an inbox event to one gateway, or to all except `but_not`: best effort."""
        ...


class HandoverTarget(Protocol):
    """The receiving side of a gateway, as workers and other gateways see it."""

    def entries(
        self,
        encoded_entries: Sequence[EncodedEntry],
        users: Sequence[UserKey],
        answer: Callable[[list[str]], None],
    ) -> None:
        """Take entries of one chat for users, and call `answer` soon with their connections.

        A gateway that is too far behind to take them does not answer: it compares heads.
        """
        ...

    def notice(self, frame: bytes, users: Sequence[UserKey], chat: ChatId | None) -> None:
        """Take a frame without a sequence."""
        ...

    def hint(self, event: InboxEvent) -> None:
        """Take an inbox event; the gateway itself reads what its users have to see."""
        ...

    def request_reconcile(self) -> None:
        """Compare heads, because a handover may have been lost."""
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
    """Connections that were unregistered, so could not be found for a while, and now are again."""
    surplus: list[tuple[UserKey, str]]
    """Connections that stay unregistered: their users have reached the limit with others."""


class Registry(Protocol):
    """Registrations of connections, which expire unless their gateway refreshes them.

    No user has more than `limits.USER_CONNECTIONS_MAX` of them, over all gateways.
    """

    async def enter(self, user: UserKey, connection: str) -> bool:
        """Register a connection of this gateway; every `find` after this returns includes it.

        Returns False, and registers nothing, if the user has reached the limit of connections.

        Raises:
            RegistryUnavailable: It may or may not be registered; the gateway must compare heads.
        """
        ...

    def leave(self, user: UserKey, connection: str) -> None:
        """Remove a registration soon, best effort: if that fails, it expires."""
        ...

    async def refresh(self, connections: Sequence[tuple[UserKey, str]]) -> Refreshed:
        """Renew the registrations of this gateway's connections; all are then valid or surplus.

        Raises:
            RegistryUnavailable: Nothing is known about any of them, before or after the call.
        """
        ...

    async def find(self, users: Iterable[UserKey]) -> Mapping[UserKey, list[ConnectionAddress]]:
        """Return the connections of these users, in one round trip; users without any are omitted.

        Raises:
            RegistryUnavailable: The connections are unknown.
        """
        ...


class DeliveryStore(Protocol):
    """Store calls for delivery. They check no reader: delivery itself sends to members only.

    Every call raises StoreUnavailable if the store does not answer.
    """

    async def entries(self, chat: ChatId, *, after: int, limit: int) -> list[Entry]:
        """Return the next entries after a sequence in their current state, read strongly.

        `edited` entries come with their target as `shown`.
        """
        ...

    async def advance(self, chat: ChatId, head: Head, member_count: int | None) -> None:
        """Store in the head copy that entries up to `head` are delivered; durable on return.

        The copy only moves forward. It is written at most once a second per chat: a call within
        that second waits for its end. `member_count` is given if the entries changed it.
        """
        ...

    async def reached(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        """Return the sequences of the stored head copies, read strongly; others are omitted."""
        ...

    async def mutes(self, chat: ChatId) -> Mapping[UserKey, int]:
        """Return until when each member has muted the chat; members who did not are omitted."""
        ...


class EntryWritten(msgspec.Struct, frozen=True):
    """An entry was stored at this sequence."""

    chat: ChatId
    sequence: int
    at: int
    """Approximate time of the write by the store's clock."""


class ContentExpired(msgspec.Struct, frozen=True):
    """The expired content of the message at this sequence was deleted."""

    chat: ChatId
    sequence: int


Change = EntryWritten | ContentExpired


class Changes(Protocol):
    """All changes of the last day, each at least once after a start, in any order."""

    async def poll(self) -> Sequence[Change]:
        """Return some changes not returned yet; an empty list if there are no more now.

        Raises:
            StoreUnavailable: Try again later; nothing is skipped.
        """
        ...


class RemoteGateways:
    """The other gateways: which users are connected there, and how to reach them."""

    def __init__(self, registry: Registry, handover: Handover, own: str) -> None:
        """Take `own`, the name of this process among the gateways."""
        self._registry = registry
        self._handover = handover
        self._own = own

    async def find(self, users: Iterable[UserKey]) -> dict[str, list[UserKey]]:
        """Return other gateways, each with its connected users; none without the registry."""
        try:
            found = await self._registry.find(users)
        except RegistryUnavailable:
            return {}
        by_gateway: dict[str, list[UserKey]] = {}
        for user, places in found.items():
            for gateway in {place.gateway for place in places} - {self._own}:
                by_gateway.setdefault(gateway, []).append(user)
        return by_gateway

    def send(
        self, frame: bytes, gateways: Mapping[str, Sequence[UserKey]], chat: ChatId | None = None
    ) -> None:
        """Send a frame to users on other gateways; `chat` is the chat it is about, if any."""
        if gateways:
            self._handover.notice(frame, gateways, chat)

    def hint(self, event: InboxEvent, gateway: str | None = None) -> None:
        """Send an event of an inbox to one other gateway, or to all of them."""
        self._handover.hint(event, gateway, but_not=self._own)
