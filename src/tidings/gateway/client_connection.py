# SPDX-License-Identifier: Apache-2.0
"""Interfaces of a client's connection, for the other parts of the gateway and for tests.

A socket is in this process, or in a front of this process. What reaches a client, and what the
client writes, is the same in both cases. Only the process that has the socket knows which entries
were sent, and which may be sent next.
"""

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Protocol

from tidings.gateway.conversation import Conversation
from tidings.gateway.progress import DeliveryProgress, Offer
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Refusal
from tidings.wire.codes import Close
from tidings.wire.frames import ClientFrame


class ClientConnection(Protocol):
    """Reaches a client, wherever the client's socket is."""

    @property
    def conversation(self) -> Conversation:
        """State of the protocol."""
        ...

    @property
    def address(self) -> str | None:
        """Address under which the client is counted; None if it is exempt."""
        ...

    def now(self) -> int:
        """Return the time of a monotonic clock, in milliseconds."""
        ...

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    def notice(self, chat: ChatId, frame: bytes) -> None:
        """Send a frame that has no sequence, if the connection follows the chat."""
        ...

    def hint(self, frame: bytes) -> None:
        """Show a frame to the watcher of the connection's frames; the client does not get it."""
        ...

    def confirm(self, request: str, entry: Entry) -> None:
        """Send the answer to a request whose message was stored as this entry."""
        ...

    def refuse(self, refusal: Refusal, request: str | None = None) -> None:
        """Send a refusal."""
        ...

    def set_blocked(self, users: Collection[str]) -> None:
        """Send the entries of the users with these ids without content from now on."""
        ...

    async def drained(self) -> None:
        """Wait until the socket accepts more bytes."""
        ...

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that is cancelled when the connection closes."""
        ...

    def close(self, code: Close, retry_after_ms: int | None = None) -> None:
        """Send `bye` with the reason, then close."""
        ...


class LocalConnection(ClientConnection, Protocol):
    """Sends entries to a client whose socket is in this process."""

    @property
    def progress(self) -> DeliveryProgress:
        """Sequences sent and confirmed in each chat."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait until the socket accepts them."""
        ...

    def deliver(self, entry: Offer, frame: bytes, *, is_small: bool) -> None:
        """Send an entry now, or mark its chat as behind."""
        ...

    def reconcile(self, heads: Mapping[ChatId, int]) -> bool:
        """Compare the entries sent with the current heads; read missing entries from the log.

        Returns False if the connection has not read the user's chats yet.
        """
        ...

    async def follow(self, chat: ChatId, after: int | None) -> None:
        """Send the entries of a chat after the sequence `after`, and all new entries."""
        ...

    def wake(self) -> None:
        """Continue to read from the log if the window has room."""
        ...

    def perform(self, frame: ClientFrame) -> None:
        """Carry out a frame from the client."""
        ...

    def watch_frames(self, saw: Callable[[bytes], None]) -> None:
        """Call `saw` with every frame that is sent from now on."""
        ...

    def tick(self) -> None:
        """Check deadlines; called about once a second."""
        ...


class ConnectedUsers(Protocol):
    """Finds the users who are connected to this process or its fronts, and their connections."""

    def __iter__(self) -> Iterator[ClientConnection]:
        """Iterate over all connections; some may open or close meanwhile."""
        ...

    def of(self, user: UserKey) -> tuple[ClientConnection, ...]:
        """Return the user's connections."""
        ...

    def online(self, users: Iterable[UserKey]) -> set[UserKey]:
        """Return the given users who have a connection."""
        ...

    def of_tenant(self, tenant: str) -> list[UserKey]:
        """Return the tenant's users who have a connection."""
        ...

    def watch(self, changed: Callable[[UserKey, bool], None]) -> None:
        """Call `changed` when a user's first connection opens and when the last one closes."""
        ...
