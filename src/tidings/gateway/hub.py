# SPDX-License-Identifier: Apache-2.0
"""The hub: which connections each user has in this process."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from tidings.gateway.client_connection import ClientConnection
from tidings.model import limits
from tidings.model.ids import UserKey

TICK_SECONDS: Final = 1.0

_NONE: Final[tuple[ClientConnection, ...]] = ()


class Hub:
    """All live connections, by user; tells whoever asks who comes and who goes."""

    def __init__(self) -> None:
        self._by_user: dict[UserKey, tuple[ClientConnection, ...]] = {}
        self._all: set[ClientConnection] = set()
        self._watchers: list[Callable[[UserKey, bool], None]] = []
        self._ticking: asyncio.TimerHandle | None = None
        self._empty: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(list(self._all))

    def watch(self, changed: Callable[[UserKey, bool], None]) -> None:
        """Be told when a user's first connection comes, and when the last one goes."""
        self._watchers.append(changed)

    def opened(self, connection: ClientConnection) -> None:
        """A socket is there; nobody knows yet whose."""
        self._all.add(connection)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def enter(self, user: UserKey, connection: ClientConnection) -> bool:
        """The connection is this user's; False if the user has too many in this process.

        What the user has in others is counted where it is registered.
        """
        present = self._by_user.get(user, _NONE)
        if len(present) >= limits.USER_CONNECTIONS_MAX:
            return False
        self._by_user[user] = (*present, connection)
        if not present:
            self._notify_watchers(user, True)
        return True

    def closed(self, connection: ClientConnection, user: UserKey | None) -> None:
        """The socket is gone."""
        self._all.discard(connection)
        if not self._all and self._empty is not None:
            self._empty.set()
        if user is None or user not in self._by_user:
            return
        left = tuple(other for other in self._by_user[user] if other is not connection)
        if left:
            self._by_user[user] = left
        else:
            del self._by_user[user]
            self._notify_watchers(user, False)

    def of(self, user: UserKey) -> tuple[ClientConnection, ...]:
        """The user's connections here."""
        return self._by_user.get(user, _NONE)

    def online(self, users: Iterable[UserKey]) -> set[UserKey]:
        """Of these users, those who have a connection here."""
        return {user for user in users if user in self._by_user}

    def of_tenant(self, tenant: str) -> list[UserKey]:
        """The tenant's users who have a connection here: a millisecond for ten thousand."""
        prefix = f"{tenant}:"
        return [user for user in self._by_user if user.startswith(prefix)]

    def _notify_watchers(self, user: UserKey, is_online: bool) -> None:
        for changed in self._watchers:
            changed(user, is_online)

    def _tick(self) -> None:
        """Once a second for all, instead of timers for each: 0.3 µs a connection."""
        self._ticking = None
        if self._all:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        for connection in list(self._all):
            connection.tick()

    async def emptied(self, seconds_max: float) -> None:
        """Wait until the last connection is gone, but not longer than this and a little more."""
        self._empty = asyncio.Event()
        if self._all:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds_max + 1)

    def close(self) -> None:
        """Stop ticking."""
        if self._ticking is not None:
            self._ticking.cancel()
