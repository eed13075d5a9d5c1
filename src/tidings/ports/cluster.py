# SPDX-License-Identifier: Apache-2.0
"""Ports between processes: handovers to gateways, and the registry of their connections."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.entries import Kind
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent


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
