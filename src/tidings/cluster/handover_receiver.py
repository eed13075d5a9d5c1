# SPDX-License-Identifier: Apache-2.0
"""The receiving side of the handover: what comes for one gateway, and its answers."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tidings.cluster.handover import EVERY_GATEWAY
from tidings.cluster.handover_messages import (
    Compare,
    Entries,
    HandedOver,
    HandoverMessage,
    Hint,
    Notice,
    encode,
)
from tidings.cluster.redis_link import RedisLink
from tidings.cluster.subscription import QUIET_SECONDS, Subscription
from tidings.ports.cluster import HandoverTarget, RegistryUnavailable
from tidings.tasks import Tasks

ANSWERS_MAX: Final = 10_000
ANSWERS_AT_ONCE: Final = 200


class RedisHandoverReceiver:
    """Listens for a gateway and tells it what came."""

    def __init__(
        self,
        link: RedisLink,
        gateway: str,
        doorstep: HandoverTarget,
        *,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        self._link = link
        self._gateway = gateway
        self._doorstep = doorstep
        self._answers: deque[tuple[str, bytes]] = deque(maxlen=ANSWERS_MAX)
        self._has_answers = asyncio.Event()
        self._tasks = Tasks("registry")
        channels = link.name("gateway", gateway), link.name("gateway", EVERY_GATEWAY)
        # Each time it stands again, something may have been sent meanwhile.
        self._subscription = Subscription(
            link, channels, self._take, doorstep.request_reconcile, quiet_seconds=quiet_seconds
        )

    def start(self) -> None:
        """Listen."""
        self._subscription.start()
        self._tasks.repeat(self._send_answers)

    async def ready(self) -> None:
        """Wait until something could come."""
        await self._subscription.up()

    async def close(self) -> None:
        """Listen no more."""
        await self._subscription.close()
        await self._tasks.close()

    def _take(self, message: HandoverMessage) -> None:
        match message:
            case Entries(request, reply_to, encoded_entries, users):
                self._doorstep.entries(encoded_entries, users, self._answer(request, reply_to))
            case Notice(frame, users, chat):
                self._doorstep.notice(frame, users, chat)
            case Hint(event, but_not):
                if but_not != self._gateway:
                    self._doorstep.hint(event)
            case Compare():
                self._doorstep.request_reconcile()
            case HandedOver():
                pass

    def _answer(self, request: int, reply_to: str) -> Callable[[list[str]], None]:
        def answer(connections: list[str]) -> None:
            message = encode(HandedOver(request, self._gateway, frozenset(connections)))
            self._answers.append((reply_to, message))
            self._has_answers.set()

        return answer

    async def _send_answers(self) -> None:
        """All that piled up in one round trip. An answer that does not arrive is worth nothing."""
        await self._has_answers.wait()
        while self._answers:
            some = [
                self._answers.popleft() for _ in range(min(len(self._answers), ANSWERS_AT_ONCE))
            ]
            with suppress(RegistryUnavailable):
                await self._link.publish(some)
        self._has_answers.clear()
