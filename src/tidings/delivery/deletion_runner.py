# SPDX-License-Identifier: Apache-2.0
"""Deletes chats step by step.

In each round, a few chats advance. If a chat still has members, the round removes all of them,
because members can read the chat until they are removed. Otherwise the round does one step of the
deletion, so that a long chat does not delay the others. Each step stores its progress. If a process
dies, its lease expires, and another process continues.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tidings.delivery.rounds import repeat_rounds
from tidings.model import limits
from tidings.model.ids import ChatId
from tidings.model.refusals import Unavailable
from tidings.ports.bus import Appended, Bus
from tidings.ports.chats import Deletions
from tidings.ports.world import Clock
from tidings.tasks import Tasks

log = logging.getLogger("tidings.delivery")


class DeletionRunner:
    """Background task that deletes chats. Several runners share the work."""

    def __init__(
        self,
        *,
        deletions: Deletions,
        bus: Bus,
        clock: Clock,
        holder: str,
        delivery_ms: int,
        back_off: Callable[[int], Awaitable[None]],
    ) -> None:
        """Set up the runner.

        Args:
            delivery_ms: Time to wait before a deletion starts, so that members get the last entry.
            back_off: Waits before the n-th retry, with jitter, a few seconds at most.
        """
        self._deletions = deletions
        self._clock = clock
        self._holder = holder
        self._delivery_ms = delivery_ms
        self._back_off = back_off
        self._asked = asyncio.Event()
        self._tasks = Tasks("deletions")
        self.failed_steps = 0
        bus.subscribe(self._on_appended, Appended)

    def start(self) -> None:
        """Start. Services that are not reachable yet are tried again."""
        self._tasks.repeat(self._run)

    async def close(self) -> None:
        """Stop. Unfinished deletions continue after the next start, here or elsewhere."""
        await self._tasks.close()

    def _on_appended(self, event: Appended) -> None:
        if event.entry.kind == "deleted":
            self._asked.set()

    async def _run(self) -> None:
        await repeat_rounds(self.round, self._asked, self._back_off)

    async def round(self) -> bool:
        """Perform one round of deletions; return whether any of these chats needs more steps.

        Raises:
            Unavailable: The store does not answer.
        """
        before = self._clock.now() - self._delivery_ms
        chats = await self._deletions.unfinished(before=before, limit=limits.DELETIONS_AT_ONCE)
        return any([await self._step(chat) for chat in chats])

    async def _step(self, chat: ChatId) -> bool:
        try:
            job = await self._deletions.lease(chat, self._holder, self._clock.now())
            if job is None:
                return False
            after = await self._deletions.step(job, self._holder, self._clock.now())
            # All members are removed without a pause, because they can read the chat until then.
            while after is not None and after.phase == "started":
                after = await self._deletions.step(after, self._holder, self._clock.now())
        except Exception as error:
            # A failure with one chat must not stop the others. The chat is tried again later.
            self.failed_steps += 1
            if not isinstance(error, Unavailable):
                log.exception("deleting failed", extra={"action": "deleting_failed", "chat": chat})
            return False
        if after is None:
            return False
        if after.phase != job.phase:
            extra = {"action": "chat_deletion", "chat": chat, "phase": after.phase}
            log.info("deleting a chat", extra=extra)
        return after.phase != "done"
