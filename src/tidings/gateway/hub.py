# SPDX-License-Identifier: Apache-2.0
"""Keeps the connections of this process by user, behind an interface that tests can implement."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, Protocol

from picows import WSTransport

from tidings.diagnosis import report_queue
from tidings.gateway.conversation import Conversation
from tidings.gateway.metering import socket_readings
from tidings.gateway.progress import DeliveryProgress, Offer
from tidings.metrics.meters import report
from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Refusal
from tidings.wire.codes import Close
from tidings.wire.frames import ClientFrame

TICK_SECONDS: Final = 1.0
TEXT: Final = 0x81
PING_FRAME: Final = 0x89
PONG_FRAME: Final = 0x8A
_STANDARD_CLOSE_CODES: Final = frozenset({*range(1_000, 1_004), *range(1_007, 1_015)})


class ClientConnection(Protocol):
    """The interface of a client's connection for the other parts of the gateway."""

    @property
    def conversation(self) -> Conversation:
        """State of the protocol."""
        ...

    @property
    def progress(self) -> DeliveryProgress:
        """Sequences sent and confirmed in each chat."""
        ...

    @property
    def address(self) -> str | None:
        """Address under which the client is counted; None if it is exempt."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait until the socket accepts them."""
        ...

    def now(self) -> int:
        """Return the time of a monotonic clock, in milliseconds."""
        ...

    def deliver(self, entry: Offer, frame: bytes, *, is_small: bool) -> None:
        """Send an entry now, or mark its chat as behind."""
        ...

    def notice(self, chat: ChatId, frame: bytes) -> None:
        """Send a frame that has no sequence, if the connection follows the chat."""
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

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    def watch_frames(self, saw: Callable[[bytes], None]) -> None:
        """Call `saw` with every frame that is sent from now on."""
        ...

    def refuse(self, refusal: Refusal, request: str | None = None) -> None:
        """Send a refusal."""
        ...

    async def drained(self) -> None:
        """Wait until the socket accepts more bytes."""
        ...

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that is cancelled when the connection closes."""
        ...

    def tick(self) -> None:
        """Check deadlines; called about once a second."""
        ...

    def close(self, code: Close, retry_after_ms: int | None = None) -> None:
        """Send `bye` with the reason, then close."""
        ...


def header(kind: int, size: int) -> bytes:
    """Return the header of an unmasked frame with a payload of this size (RFC 6455, 5.2)."""
    if size < 126:
        return bytes((kind, size))
    if size < 1 << 16:
        return bytes((kind, 126)) + size.to_bytes(2)
    return bytes((kind, 127)) + size.to_bytes(8)


@lru_cache(maxsize=4_096)
def text_header(size: int) -> bytes:
    """Return the header of a text frame. Frames have few different sizes."""
    return header(TEXT, size)


def backlog(transport: WSTransport) -> int:
    """Return the bytes that the socket has not sent yet."""
    return transport.underlying_transport.get_write_buffer_size()


def may_be_sent(close_code: int) -> bool:
    """Return True if a close frame may carry this code (RFC 6455, 7.4, and later registrations)."""
    return close_code in _STANDARD_CLOSE_CODES or 3_000 <= close_code < 5_000


_NONE: Final[tuple[ClientConnection, ...]] = ()


class Hub:
    """Keeps all connections of this process by user; notifies watchers when a user comes or
    goes."""

    def __init__(self, *, is_measured: bool = True) -> None:
        """Create an empty hub; `is_measured` is False if another process measures the same
        connections."""
        self.by_user: dict[UserKey, tuple[ClientConnection, ...]] = {}
        """The connections of each user who has one."""
        self._all: set[ClientConnection] = set()
        self._watchers: list[Callable[[UserKey, bool], None]] = []
        self._ticking: asyncio.TimerHandle | None = None
        self._empty: asyncio.Event | None = None
        if is_measured:
            report_queue("connections", self)
            report(self, socket_readings)

    def depths(self) -> Mapping[str, int]:
        """Return the numbers of connections and users, and how many bytes wait to be sent."""
        pending = [bytes_ for connection in self._all if (bytes_ := connection.pending_bytes)]
        return {
            "connections": len(self._all),
            "users": self.users,
            "away": sum(connection.conversation.is_away for connection in self._all),
            "by_heads": sum(connection.conversation.is_by_heads for connection in self._all),
            "behind": len(pending),
            "pending_bytes": sum(pending),
            "pending_bytes_most": max(pending, default=0),
        }

    @property
    def users(self) -> int:
        """Number of users who have a connection."""
        return len(self.by_user)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(list(self._all))

    def watch(self, changed: Callable[[UserKey, bool], None]) -> None:
        """Call `changed` when a user's first connection opens and when the last one closes."""
        self._watchers.append(changed)

    def opened(self, connection: ClientConnection) -> None:
        """Add a socket whose user is not known yet."""
        self._all.add(connection)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def enter(self, user: UserKey, connection: ClientConnection) -> bool:
        """Assign the connection to a user; return False if the user has too many in this process.

        The registry counts the user's connections in other processes.
        """
        present = self.by_user.get(user, _NONE)
        if len(present) >= limits.USER_CONNECTIONS_MAX:
            return False
        self.by_user[user] = (*present, connection)
        if not present:
            self._notify_watchers(user, True)
        return True

    def close_idle(self, user: UserKey, beside: ClientConnection, device: str) -> str | None:
        """Close a connection of a device to make room for another: of its idle connections, the one
        that was unused for the longest time.

        Returns the id of the closed connection; None if no connection is idle.
        """
        now = beside.now()
        idle = [
            connection
            for connection in self.of(user)
            if connection is not beside
            and connection.conversation.device == device
            and connection.conversation.is_idle(now)
        ]
        if not idle:
            return None
        longest = min(idle, key=lambda connection: connection.conversation.used_at)
        longest.close(Close.TOO_MANY_CONNECTIONS)
        self._remove(longest, user)  # the client may take two seconds to answer the close frame
        return longest.conversation.connection

    def give_up(self, user: UserKey, connection: ClientConnection) -> None:
        """Free the place of a connection that is being closed for another one."""
        if user in self.by_user:
            self._remove(connection, user)

    def closed(self, connection: ClientConnection, user: UserKey | None) -> None:
        """Remove a closed socket."""
        self._all.discard(connection)
        if not self._all and self._empty is not None:
            self._empty.set()
        if user is not None:
            self.give_up(user, connection)

    def _remove(self, connection: ClientConnection, user: UserKey) -> None:
        left = tuple(other for other in self.by_user[user] if other is not connection)
        if left:
            self.by_user[user] = left
        else:
            del self.by_user[user]
            self._notify_watchers(user, False)

    def of(self, user: UserKey) -> tuple[ClientConnection, ...]:
        """Return the user's connections in this process."""
        return self.by_user.get(user, _NONE)

    def online(self, users: Iterable[UserKey]) -> set[UserKey]:
        """Return the given users who have a connection in this process."""
        return {user for user in users if user in self.by_user}

    def of_tenant(self, tenant: str) -> list[UserKey]:
        """Return the tenant's users who have a connection in this process.

        With ten thousand users this takes a millisecond.
        """
        prefix = f"{tenant}:"
        return [user for user in self.by_user if user.startswith(prefix)]

    def _notify_watchers(self, user: UserKey, is_online: bool) -> None:
        for changed in self._watchers:
            changed(user, is_online)

    def _tick(self) -> None:
        """Tick all connections from one timer. This takes 0.3 µs per connection."""
        self._ticking = None
        if self._all:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        for connection in list(self._all):
            connection.tick()

    async def emptied(self, seconds_max: float) -> None:
        """Wait until the last connection has closed, for at most `seconds_max` plus one second."""
        self._empty = asyncio.Event()
        if self._all:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds_max + 1)

    def close(self) -> None:
        """Stop ticking."""
        if self._ticking is not None:
            self._ticking.cancel()
