# SPDX-License-Identifier: Apache-2.0
"""Reconciles connections with the heads of their chats, to find entries that never arrived."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.conversation import State
from tidings.gateway.hub import Hub
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Unavailable
from tidings.ports.chats import Chats
from tidings.tasks import Tasks

AGAIN_SECONDS: Final = 1.0
CONNECTIONS_AT_ONCE: Final = 1_000
"""Limits the memory of a comparison, at the price of reading some heads more than once."""
CHATS_AT_ONCE: Final = 1_000
USERS_AT_ONCE: Final = 8
CONNECTIONS_PER_TURN: Final = 100


class HeadReconciler:
    """Background task that compares connections with heads, one comparison at a time.

    A quick comparison covers the chats that connections follow; a thorough one also reads which
    chats their users are members of.
    """

    def __init__(self, hub: Hub, chats: Chats) -> None:
        self.compared = 0
        """Number of connections compared."""
        self._hub = hub
        self._chats = chats
        self._wanted: set[ClientConnection] = set()
        self._is_thorough = False
        self._requested = asyncio.Event()
        self._tasks = Tasks("reconcile")

    def start(self) -> None:
        """Start to serve requests."""
        self._tasks.repeat(self._compare_requested)

    async def close(self) -> None:
        """Stop."""
        await self._tasks.close()

    def request(
        self, connections: Iterable[ClientConnection] | None = None, *, is_thorough: bool
    ) -> None:
        """Queue a comparison of these connections, or of all, with heads read after this call."""
        self._wanted.update(self._hub if connections is None else connections)
        self._is_thorough |= is_thorough
        self._requested.set()

    async def _compare_requested(self) -> None:
        await self._requested.wait()
        self._requested.clear()
        connections, self._wanted = self._wanted, set()
        is_thorough, self._is_thorough = self._is_thorough, False
        try:
            left = await self._compare_all(connections, is_thorough)
        except Exception:
            # The next step compares the connections that a failed step did not.
            self.request(connections, is_thorough=is_thorough)
            raise
        if left:
            await asyncio.sleep(AGAIN_SECONDS)
            self.request(left, is_thorough=is_thorough)

    async def _compare_all(
        self, connections: set[ClientConnection], is_thorough: bool
    ) -> list[ClientConnection]:
        """Return the connections that could not be compared yet."""
        left: list[ClientConnection] = []
        remaining = iter(connections)
        while group := list(islice(remaining, CONNECTIONS_AT_ONCE)):
            # A connection that has closed, or has not said hello yet, needs no comparison.
            is_open = [
                connection for connection in group if connection.conversation.state is State.OPEN
            ]
            try:
                left += await self._compare(is_open, is_thorough)
            except Unavailable:
                left += is_open
        return left

    async def _compare(
        self, connections: Sequence[ClientConnection], is_thorough: bool
    ) -> list[ClientConnection]:
        chats_of = await self._memberships(connections) if is_thorough else {}
        wanted = dict.fromkeys(
            chat for connection in connections for chat in connection.progress.chats()
        )
        wanted.update(dict.fromkeys(chat for chats in chats_of.values() for chat in chats))
        heads = await self._heads(list(wanted))
        left = []
        for number, connection in enumerate(connections, 1):
            user = connection.conversation.user
            own = {*connection.progress.chats(), *(chats_of.get(user, ()) if user else ())}
            if not connection.reconcile({chat: heads[chat] for chat in own if chat in heads}):
                left.append(connection)
            if number % CONNECTIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        self.compared += len(connections)
        return left

    async def _memberships(
        self, connections: Sequence[ClientConnection]
    ) -> dict[UserKey, list[ChatId]]:
        """Return the chats of the users, some of whom may have been added without an event."""
        users = {
            user for connection in connections if (user := connection.conversation.user) is not None
        }
        found: dict[UserKey, list[ChatId]] = {}
        remaining = iter(users)

        async def read_chats() -> None:
            for user in remaining:
                found[user] = await self._chats.ids(user)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(USERS_AT_ONCE):
                    group.create_task(read_chats())
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return found

    async def _heads(self, chats: Sequence[ChatId]) -> dict[ChatId, int]:
        heads: dict[ChatId, int] = {}
        for start in range(0, len(chats), CHATS_AT_ONCE):
            heads.update(await self._chats.heads(chats[start : start + CHATS_AT_ONCE]))
        return heads
