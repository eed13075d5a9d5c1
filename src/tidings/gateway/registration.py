# SPDX-License-Identifier: Apache-2.0
"""Keeps this gateway's registrations alive, and reconciles connections after gaps.

Normally an entry reaches a connection because a worker finds the connection in the registry. If
that may have failed, the gateway compares the entries that it has sent with the heads of the chats:
after a connection was not registered for a while, after a handover may have been lost, and
repeatedly while the registry does not answer.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from tidings.gateway.client_connection import LocalConnection
from tidings.gateway.context import WriteLease
from tidings.gateway.conversation import State
from tidings.gateway.hub import Hub
from tidings.metrics.counts import report_counts
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Unavailable
from tidings.ports.chats import Chats
from tidings.ports.delivery import Registry, RegistryUnavailable
from tidings.tasks import Tasks
from tidings.wire.codes import Close

AGAIN_SECONDS: Final = 1.0
CONNECTIONS_AT_ONCE: Final = 1_000
"""Number of connections that are compared together. The limit bounds memory, but the head of a chat
is read again for each group that follows the chat."""
CHATS_AT_ONCE: Final = 1_000
USERS_AT_ONCE: Final = 8
CONNECTIONS_PER_TURN: Final = 100

log = logging.getLogger("tidings.gateway")

BEAT_SECONDS: Final = 2.5
"""Interval at which registrations are refreshed. A registration lasts 10 seconds, so three attempts
may fail before it expires."""
BEAT_SECONDS_MIN: Final = 0.05
COMPARE_SECONDS: Final = 10.0
THOROUGH_EVERY: Final = 6
"""While the registry does not answer, every sixth comparison is thorough: one per minute."""
PULSE_SECONDS: Final = 1.0


class HeadReconciler:
    """Background task that compares the entries sent on connections with the heads of the chats.

    A quick comparison covers the chats that the connections follow. A thorough comparison also
    reads the list of chats of each user. Therefore it also finds chats that are new to a
    connection.
    """

    def __init__(self, hub: Hub, chats: Chats) -> None:
        self.compared = 0
        """Number of connections compared so far."""
        report_counts(self, "registration")
        self._hub = hub
        self._chats = chats
        self._wanted: set[LocalConnection] = set()
        self._is_thorough = False
        self._requested = asyncio.Event()
        self._tasks = Tasks("reconcile")

    def start(self) -> None:
        """Start to carry out requested comparisons."""
        self._tasks.repeat(self._compare_requested)

    async def close(self) -> None:
        """Stop comparing the registrations with the open connections."""
        await self._tasks.close()

    def request(
        self, connections: Iterable[LocalConnection] | None = None, *, is_thorough: bool
    ) -> None:
        """Queue a comparison of these connections, or of all. Heads are read after this call."""
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
            # The next round compares the connections that this round did not.
            self.request(connections, is_thorough=is_thorough)
            raise
        if left:
            await asyncio.sleep(AGAIN_SECONDS)
            self.request(left, is_thorough=is_thorough)

    async def _compare_all(
        self, connections: set[LocalConnection], is_thorough: bool
    ) -> list[LocalConnection]:
        """Compare these connections; return those that could not be compared yet."""
        left: list[LocalConnection] = []
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
        self, connections: Sequence[LocalConnection], is_thorough: bool
    ) -> list[LocalConnection]:
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
        self, connections: Sequence[LocalConnection]
    ) -> dict[UserKey, list[ChatId]]:
        """Return the chats of each user, including chats of which no entry has arrived here."""
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


class GatewayRegistration:
    """Background task that refreshes the registrations of this gateway's connections."""

    def __init__(
        self,
        hub: Hub,
        registry: Registry,
        reconciler: HeadReconciler,
        write_lease: WriteLease,
        *,
        beat_seconds: float = BEAT_SECONDS,
        compare_seconds: float = COMPARE_SECONDS,
    ) -> None:
        self._hub = hub
        self._registry = registry
        self._reconciler = reconciler
        self._write_lease = write_lease
        self._beat_seconds = beat_seconds
        self._compare_seconds = compare_seconds
        self._needs_reconcile = False
        """Whether this gateway may have missed entries."""
        self._soon = asyncio.Event()
        self._down_comparisons = 0
        self._compare_at = 0.0
        self._tasks = Tasks("registration")

    def start(self) -> None:
        """Start to refresh the registrations of this gateway's connections."""
        self._write_lease.renew_awake()
        self._reconciler.start()
        self._tasks.repeat(self._beat_when_due)
        self._tasks.repeat(self._pulse)

    async def close(self) -> None:
        """Stop refreshing; registrations expire by themselves."""
        await self._tasks.close()
        await self._reconciler.close()

    async def register(self, user: UserKey, connection: str, instead_of: str | None = None) -> bool:
        """Register a connection; return False if the user has too many on all gateways together.

        `instead_of` is a closed connection of this gateway, whose place is free from now on.

        A connection is served even if the registry does not answer. Then each gateway counts only
        its own connections, and closes surplus connections when the registry answers again.
        """
        try:
            return await self._registry.enter(user, connection, instead_of)
        except RegistryUnavailable:
            # It is unknown whether and when the connection was registered: only a later comparison
            # can show which entries it missed.
            self.request_reconcile()
            return True

    def unregister(self, user: UserKey, connection: str) -> None:
        """Remove a connection from the registry."""
        self._registry.leave(user, connection)

    def request_reconcile(self) -> None:
        """Request a comparison of heads; all connections are registered again before it."""
        self._needs_reconcile = True
        self._soon.set()

    async def _beat_when_due(self) -> None:
        await self._beat()
        await asyncio.sleep(BEAT_SECONDS_MIN)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._beat_seconds):
                await self._soon.wait()

    async def _beat(self) -> None:
        self._soon.clear()
        by_key = {
            (connection.conversation.user, connection.conversation.connection): connection
            for connection in self._hub
            if connection.conversation.connection
            and connection.conversation.state is not State.CLOSED
        }
        needed_reconcile, self._needs_reconcile = self._needs_reconcile, False
        keys = [(user, name) for user, name in by_key if user is not None]
        try:
            refreshed = await self._registry.refresh(keys)
        except RegistryUnavailable:
            self._needs_reconcile = True
            self._compare_now_and_then()
            return
        except Exception:
            self._needs_reconcile = True  # still needed, whatever failed
            raise
        self._down_comparisons, self._compare_at = 0, 0.0
        for key in refreshed.surplus:
            by_key[key].close(Close.TOO_MANY_CONNECTIONS)
        if needed_reconcile:
            self._reconciler.request(is_thorough=True)
        elif missing := refreshed.missing:
            log.warning(
                "registrations had expired", extra={"action": "forgotten", "count": len(missing)}
            )
            self._reconciler.request([by_key[key] for key in missing], is_thorough=True)

    def _compare_now_and_then(self) -> None:
        now = self._write_lease.now()
        if now < self._compare_at:
            return
        self._compare_at = now + self._compare_seconds
        is_thorough = self._down_comparisons % THOROUGH_EVERY == THOROUGH_EVERY - 1
        self._down_comparisons += 1
        self._reconciler.request(is_thorough=is_thorough)

    async def _pulse(self) -> None:
        """Close all connections if the process was paused; then renew the lease.

        A write to a socket may come before this check. It is safe, because each such write checks
        the lease itself.
        """
        if self._write_lease.was_away:
            code = self._write_lease.close_code()
            log.warning("the process was paused", extra={"action": "was_paused", "code": code})
            for connection in self._hub:
                connection.close(code)
        self._write_lease.renew_awake()
        await asyncio.sleep(PULSE_SECONDS)
