# SPDX-License-Identifier: Apache-2.0
"""Keeps connections by user: those whose sockets are in this process, and those of fronts."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Generic, TypeVar

from tidings.diagnosis import report_queue
from tidings.gateway.client_connection import ClientConnection, ConnectedUsers, LocalConnection
from tidings.gateway.metering import socket_readings
from tidings.metrics.meters import report
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.wire.codes import Close

C = TypeVar("C", bound=ClientConnection)

TICK_SECONDS: Final = 1.0


class ConnectionsByUser(Generic[C]):
    """Keeps connections by user; notifies watchers when a user comes or goes."""

    def __init__(self) -> None:
        self.by_user: dict[UserKey, tuple[C, ...]] = {}
        """The connections of each user who has one."""
        self._all: set[C] = set()
        self._watchers: list[Callable[[UserKey, bool], None]] = []
        self._empty: asyncio.Event | None = None

    @property
    def users(self) -> int:
        """Number of users who have a connection."""
        return len(self.by_user)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[C]:
        return iter(list(self._all))

    def watch(self, changed: Callable[[UserKey, bool], None]) -> None:
        """Call `changed` when a user's first connection opens and when the last one closes."""
        self._watchers.append(changed)

    def opened(self, connection: C) -> None:
        """Add a connection, which is not assigned to a user yet."""
        self._all.add(connection)

    def enter(self, user: UserKey, connection: C) -> bool:
        """Assign the connection to a user; return False if the user has too many here.

        The registry counts the user's connections in other gateways.
        """
        present = self.by_user.get(user, ())
        if len(present) >= limits.USER_CONNECTIONS_MAX:
            return False
        self.by_user[user] = (*present, connection)
        if not present:
            self._notify_watchers(user, True)
        return True

    def give_up(self, user: UserKey, connection: C) -> None:
        """Free the place of a connection that is being closed for another one."""
        if user in self.by_user:
            self._remove(connection, user)

    def closed(self, connection: C, user: UserKey | None) -> None:
        """Remove a closed connection."""
        self._all.discard(connection)
        if not self._all and self._empty is not None:
            self._empty.set()
        if user is not None:
            self.give_up(user, connection)

    def _remove(self, connection: C, user: UserKey) -> None:
        left = tuple(other for other in self.by_user[user] if other is not connection)
        if left:
            self.by_user[user] = left
        else:
            del self.by_user[user]
            self._notify_watchers(user, False)

    def of(self, user: UserKey) -> tuple[C, ...]:
        """Return the user's connections."""
        return self.by_user.get(user, ())

    def online(self, users: Iterable[UserKey]) -> set[UserKey]:
        """Return the given users who have a connection."""
        return {user for user in users if user in self.by_user}

    def of_tenant(self, tenant: str) -> list[UserKey]:
        """Return the tenant's users who have a connection.

        With ten thousand users this takes a millisecond.
        """
        prefix = f"{tenant}:"
        return [user for user in self.by_user if user.startswith(prefix)]

    def _notify_watchers(self, user: UserKey, is_online: bool) -> None:
        for changed in self._watchers:
            changed(user, is_online)

    async def emptied(self, seconds_max: float) -> None:
        """Wait until the last connection has closed, for at most `seconds_max` plus one second."""
        self._empty = asyncio.Event()
        if self._all:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds_max + 1)


class Hub(ConnectionsByUser[LocalConnection]):
    """Keeps the connections whose sockets are in this process, and ticks them."""

    def __init__(self, *, is_measured: bool = True) -> None:
        """Create an empty hub; `is_measured` is False in an owner, whose fronts measure their own
        connections."""
        super().__init__()
        self._ticking: asyncio.TimerHandle | None = None
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

    def opened(self, connection: LocalConnection) -> None:
        """Add a socket whose user is not known yet."""
        super().opened(connection)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def close_idle(self, user: UserKey, beside: LocalConnection, device: str) -> str | None:
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

    def _tick(self) -> None:
        """Tick all connections from one timer. This takes 0.3 µs per connection."""
        self._ticking = None
        if self._all:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        for connection in list(self._all):
            connection.tick()

    def close(self) -> None:
        """Stop ticking."""
        if self._ticking is not None:
            self._ticking.cancel()


_conforms: type[ConnectedUsers] = Hub
