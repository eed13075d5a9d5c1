# SPDX-License-Identifier: Apache-2.0
"""Handing frames to the gateways that hold the connections they are for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.entries import Kind
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent


class EncodedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry as everyone gets it, encoded once."""

    chat_id: ChatId
    sequence: int
    kind: Kind
    added: tuple[UserKey, ...] = ()
    """Those for whom it is the first entry of the chat: it makes them members."""
    removed: tuple[UserKey, ...] = ()
    """Those for whom it is the last entry of the chat."""
    is_small: bool
    frame: bytes


class Handover(Protocol):
    """The way from a worker to the gateways."""

    async def entries(
        self, encoded_entries: Sequence[EncodedEntry], users: Mapping[str, Sequence[UserKey]]
    ) -> Mapping[str, frozenset[str]]:
        """Hand entries of one chat, in order, to gateways; for each, the users it is meant for.

        A gateway answers with the connections of those users that it holds, which have each been
        handed all of the parcels: what they could not take they will read from the log. Gateways
        that did not answer within a second are left out.
        """
        ...

    def notice(
        self, frame: bytes, users: Mapping[str, Sequence[UserKey]], chat: ChatId | None = None
    ) -> None:
        """Hand over something without a sequence: best effort, no answer.

        What is about a chat reaches only connections that follow the chat.
        """
        ...

    def hint(self, event: InboxEvent, gateway: str | None, *, but_not: str) -> None:
        """Tell a gateway, or all of them but one, of something about an inbox: best effort."""
        ...


class HandoverTarget(Protocol):
    """A gateway, as those see it who hand something over."""

    def entries(
        self,
        encoded_entries: Sequence[EncodedEntry],
        users: Sequence[UserKey],
        answer: Callable[[list[str]], None],
    ) -> None:
        """Entries of one chat for users; soon `answer` is told which connections got them.

        Nothing is answered by a gateway that is too far behind to take them: it compares heads.
        """
        ...

    def notice(self, frame: bytes, users: Sequence[UserKey], chat: ChatId | None) -> None:
        """Something without a sequence."""
        ...

    def hint(self, event: InboxEvent) -> None:
        """Something about an inbox: what is to be shown of it is looked up here."""
        ...

    def request_reconcile(self) -> None:
        """Something may have been handed over that never came: heads have to be compared."""
        ...


class RegistryUnavailable(Exception):
    """The registry does not answer. Nothing is lost by it: entries are in the log."""


class ConnectionAddress(msgspec.Struct, frozen=True, order=True):
    """Where a connection is held."""

    gateway: str
    """The gateway's own random name: a process that starts again has another one."""
    connection: str


class Refreshed(msgspec.Struct, frozen=True):
    """What became of registrations that were refreshed."""

    missing: list[tuple[UserKey, str]]
    """These were not registered any more: nobody could find them for a while. Now they are."""
    surplus: list[tuple[UserKey, str]]
    """Neither were these, and they are not now: their users have as many others as they may."""


class Registry(Protocol):
    """Registrations that last only as long as their gateway keeps refreshing them.

    No user has more than `limits.USER_CONNECTIONS_MAX` of them, over all gateways.
    """

    async def enter(self, user: UserKey, connection: str) -> bool:
        """This gateway holds the connection now; whoever looks after this returns finds it.

        False, and nothing is registered, if the user has as many connections as one may.

        Raises:
            RegistryUnavailable: It may or may not be found; the gateway has to compare heads.
        """
        ...

    def leave(self, user: UserKey, connection: str) -> None:
        """It holds the connection no longer. Soon, best effort: what stays behind runs out."""
        ...

    async def refresh(self, connections: Sequence[tuple[UserKey, str]]) -> Refreshed:
        """This gateway still holds these connections: all are registered afterwards, or surplus.

        Raises:
            RegistryUnavailable: Any of them may be registered or not, and may have been or not.
        """
        ...

    async def find(self, users: Iterable[UserKey]) -> Mapping[UserKey, list[ConnectionAddress]]:
        """Where these users are connected, all in one round trip. Those who are not are left out.

        Raises:
            RegistryUnavailable: Nobody knows.
        """
        ...
