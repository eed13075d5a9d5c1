# SPDX-License-Identifier: Apache-2.0
"""Ports for what processes have in memory of the delivery to one user: open connections, the last
steps of delivery, and the last push notices. A restart of a process forgets all of it."""

from typing import Literal, Protocol

import msgspec

from tidings.model.ids import ChatId, UserKey
from tidings.model.push_results import PushResult

Step = Literal[
    "handed_to_gateway",
    "written_to_socket",
    "fetched",
    "window_full",
    "socket_full",
    "waiting_for_earlier",
    "resync_sent",
    "unconfirmed",
    "disconnected",
]
"""A step of delivery. `handed_to_gateway` is about an entry, all others are about a connection.
`unconfirmed` means that a connection closed before its client had confirmed the entry."""

Progress = Literal[
    "acknowledged",
    "written",
    "fetched",
    "window_full",
    "socket_full",
    "behind",
    "resync",
    "resync_fetched",
    "before_connection",
    "heads_only",
]
"""How far a message has come on one connection.

`fetched` is a message that the client requested itself. `behind` waits to be read from the log. A
client with `resync` must load the chat again, and with `resync_fetched` it has requested some pages
since. `before_connection` is older than what the server sends on the connection: the device has the
message, or shows it only as history. With `heads_only` the client does not follow the chat."""


class JournalQuestion(msgspec.Struct, frozen=True):
    """Asks for the delivery of one message or one notification to a user."""

    user: UserKey
    chat: ChatId | None = None
    sequence: int = 0
    notification: str | None = None
    """Inbox and id of the notification, with a slash between them."""


class ConnectionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """An open connection of the user."""

    connection: str
    device: str
    connected_at: int
    is_away: bool = False
    progress: Progress | None = None
    """None if the question is not about a message."""
    since: int | None = None
    """When the message came this far; None if it is not known."""
    written_at: int | None = None
    """When the message was written to the socket; None if it was not, or if it is not known."""


class JournalStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of delivery that the journal of a gateway still has."""

    at: int
    step: Step
    connection: str | None = None
    device: str | None = None


class GatewayJournal(msgspec.Struct, frozen=True, kw_only=True):
    """What one gateway has in memory."""

    gateway: str
    connections: tuple[ConnectionProgress, ...] = ()
    steps: tuple[JournalStep, ...] = ()


class FoundJournals(msgspec.Struct, frozen=True):
    """The answers of the gateways."""

    gateways: tuple[GatewayJournal, ...] = ()
    is_certain: bool = True
    """Whether all gateways that have a connection of the user are known, and have answered."""


class TraceQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the last steps of delivery to a user, or in a chat, after one time and up to
    another."""

    after: int
    until: int
    user: UserKey | None = None
    chat: ChatId | None = None


class TraceStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of delivery, or a request that was refused."""

    at: int
    what: str
    where: str
    user: UserKey | None = None
    chat: ChatId | None = None
    sequence: int | None = None
    """The last entry that the step concerns."""


class GatewayTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The newest steps that one gateway has in memory, in order."""

    gateway: str
    steps: tuple[TraceStep, ...] = ()
    is_complete: bool = True
    """Whether these are all steps of the time that was asked for."""


class Journals(Protocol):
    """Asks the gateways that have or may have had connections of a user."""

    async def find(self, question: JournalQuestion) -> FoundJournals:
        """Return the answers that arrive within a second."""
        ...

    async def trace(self, question: TraceQuestion) -> list[GatewayTrace]:
        """Return the answers of all gateways that arrive within a second."""
        ...


class NoJournals:
    """Used by a process that cannot ask the gateways."""

    async def find(self, _question: JournalQuestion) -> FoundJournals:
        """Return no answers, and report that the connections are unknown."""
        return FoundJournals(is_certain=False)

    async def trace(self, _question: TraceQuestion) -> list[GatewayTrace]:
        """Return no answers."""
        return []


class PushRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a process knows about the push notices of a message or notification to a user."""

    result: PushResult
    at: int | None = None
    """None if it is not known when, or if it holds now."""
    place: str | None = None
    """The device, or what else got the notice."""
    reason: str = ""
    """A short text of the push service or the provider, without tokens, addresses or content."""


class PushJournals(Protocol):
    """Asks the processes that send push notices."""

    async def find(self, question: JournalQuestion) -> list[PushRecord]:
        """Return what the processes know that answer within a second."""
        ...


_conforms: type[Journals] = NoJournals
