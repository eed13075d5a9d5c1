# SPDX-License-Identifier: Apache-2.0
"""Upkeep: this gateway's registrations are kept alive, and made good for when they were not.

An entry reaches a connection because a worker finds it in the registry, or else because its
gateway compares heads: after it registered a connection that could not be found for a while, after
something may have been lost on the way, and again and again while the registry does not answer.
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
"""A registration lasts 10 seconds: three beats may fail before it is gone."""
BEAT_SECONDS_MIN: Final = 0.05
COMPARE_SECONDS: Final = 10.0
THOROUGH_EVERY: Final = 6
"""While the registry is down every sixth comparison is a thorough one: one a minute."""
PULSE_SECONDS: Final = 1.0


class GatewayRegistration:
    """Beats for all connections of this gateway."""

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
        """Whether something may have passed this gateway by."""
        self._soon = asyncio.Event()
        self._down_comparisons = 0
        self._compare_at = 0.0
        self._tasks = Tasks("upkeep")

    def start(self) -> None:
        """Begin to beat."""
        self._write_lease.renew_awake()
        self._reconciler.start()
        self._tasks.repeat(self._beat_when_due)
        self._tasks.repeat(self._pulse)

    async def close(self) -> None:
        """Beat no more: what is still registered runs out."""
        await self._tasks.close()
        await self._reconciler.close()

    async def register(self, user: UserKey, connection: str) -> bool:
        """Have the connection found; False if the user has too many, here and elsewhere.

        Where the registry does not answer it is served all the same: then each gateway counts
        its own, and what is too many is found when the registry is back.
        """
        try:
            return await self._registry.enter(user, connection)
        except RegistryUnavailable:
            # It may have been entered or not, at any time: only a later comparison can tell
            # what it missed.
            self.request_reconcile()
            return True

    def unregister(self, user: UserKey, connection: str) -> None:
        """It need not be found any more."""
        self._registry.leave(user, connection)

    def request_reconcile(self) -> None:
        """Something may have been missed: compare, once all connections are registered."""
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
        self._down_comparisons, self._compare_at = 0, 0.0
        for key in refreshed.surplus:
            by_key[key].close(Close.TOO_MANY_CONNECTIONS)
        if needed_reconcile:
            self._reconciler.request(is_thorough=True)
        elif missing := refreshed.missing:
            log.warning(
                "registrations were gone", extra={"action": "forgotten", "count": len(missing)}
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
        """Notice having been away for too long; a write that comes first notices it by itself."""
        if self._write_lease.was_away:
            code = self._write_lease.close_code()
            log.warning("was away for too long", extra={"action": "was_paused", "code": code})
            for connection in self._hub:
                connection.close(code)
        self._write_lease.renew_awake()
        await asyncio.sleep(PULSE_SECONDS)
