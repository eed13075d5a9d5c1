# SPDX-License-Identifier: Apache-2.0
"""Keeps the registrations of this gateway's connections alive, and reconciles after gaps.

An entry reaches a connection because a worker finds the connection in the registry, or because the
gateway compares heads: after a connection was unregistered for a while, after a handover may have
been lost, and repeatedly while the registry does not answer.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from tidings.gateway.context import WriteLease
from tidings.gateway.conversation import State
from tidings.gateway.hub import Hub
from tidings.gateway.reconcile import HeadReconciler
from tidings.model.ids import UserKey
from tidings.ports.cluster import Registry, RegistryUnavailable
from tidings.tasks import Tasks
from tidings.wire.codes import Close

log = logging.getLogger("tidings.gateway")

BEAT_SECONDS: Final = 2.5
"""A registration lasts 10 seconds: three beats may fail before it expires."""
BEAT_SECONDS_MIN: Final = 0.05
COMPARE_SECONDS: Final = 10.0
THOROUGH_EVERY: Final = 6
"""While the registry is down every sixth comparison is thorough: one a minute."""
PULSE_SECONDS: Final = 1.0


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
        """Whether entries may have missed this gateway."""
        self._soon = asyncio.Event()
        self._down_comparisons = 0
        self._compare_at = 0.0
        self._tasks = Tasks("registration")

    def start(self) -> None:
        """Start refreshing."""
        self._write_lease.renew_awake()
        self._reconciler.start()
        self._tasks.repeat(self._beat_when_due)
        self._tasks.repeat(self._pulse)

    async def close(self) -> None:
        """Stop refreshing; registrations expire by themselves."""
        await self._tasks.close()
        await self._reconciler.close()

    async def register(self, user: UserKey, connection: str) -> bool:
        """Register a connection; False if the user has too many over all gateways.

        A connection is served even if the registry does not answer. Then each gateway counts its
        own connections, and closes surplus ones when the registry is back.
        """
        try:
            return await self._registry.enter(user, connection)
        except RegistryUnavailable:
            # It is unknown whether and when it was registered: only a later comparison can show
            # which entries it missed.
            self.request_reconcile()
            return True

    def unregister(self, user: UserKey, connection: str) -> None:
        """Remove a connection from the registry."""
        self._registry.leave(user, connection)

    def request_reconcile(self) -> None:
        """Request a comparison of heads, after all connections are registered again."""
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
            self._needs_reconcile = True  # still owed, whatever failed
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
        """Detect a pause of the process; a write that comes first detects it by itself."""
        if self._write_lease.was_away:
            code = self._write_lease.close_code()
            log.warning("the process was paused", extra={"action": "was_paused", "code": code})
            for connection in self._hub:
                connection.close(code)
        self._write_lease.renew_awake()
        await asyncio.sleep(PULSE_SECONDS)
