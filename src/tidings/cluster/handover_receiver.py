# SPDX-License-Identifier: Apache-2.0
"""Receiving side of the handover: messages for one gateway, and its answers."""

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
    """Subscriber that passes handover messages to one gateway and sends its answers."""

    def __init__(
        self,
        link: RedisLink,
        gateway: str,
        target: HandoverTarget,
        *,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        self._link = link
        self._gateway = gateway
        self._target = target
        self._answers: deque[tuple[str, bytes]] = deque(maxlen=ANSWERS_MAX)
        self._has_answers = asyncio.Event()
        self._tasks = Tasks("registry")
        channels = link.name("gateway", gateway), link.name("gateway", EVERY_GATEWAY)
        # Messages sent while there was no subscription are lost: compare after each start.
        self._subscription = Subscription(
            link, channels, self._take, target.request_reconcile, quiet_seconds=quiet_seconds
        )

    def start(self) -> None:
        """Subscribe and start to answer."""
        self._subscription.start()
        self._tasks.repeat(self._send_answers)

    async def ready(self) -> None:
        """Wait until messages can arrive."""
        await self._subscription.up()

    async def close(self) -> None:
        """Unsubscribe and stop."""
        await self._subscription.close()
        await self._tasks.close()

    def _take(self, message: HandoverMessage) -> None:
        match message:
            case Entries(request, reply_to, encoded_entries, users):
                self._target.entries(encoded_entries, users, self._answer(request, reply_to))
            case Notice(frame, users, chat):
                self._target.notice(frame, users, chat)
            case Hint(event, but_not):
                if but_not != self._gateway:
                    self._target.hint(event)
            case Compare():
                self._target.request_reconcile()
            case HandedOver():
                pass

    def _answer(self, request: int, reply_to: str) -> Callable[[list[str]], None]:
        def answer(connections: list[str]) -> None:
            message = encode(HandedOver(request, self._gateway, frozenset(connections)))
            self._answers.append((reply_to, message))
            self._has_answers.set()

        return answer

    async def _send_answers(self) -> None:
        """Send all waiting answers in one round trip; a lost answer is not sent again."""
        await self._has_answers.wait()
        while self._answers:
            some = [
                self._answers.popleft() for _ in range(min(len(self._answers), ANSWERS_AT_ONCE))
            ]
            with suppress(RegistryUnavailable):
                await self._link.publish(some)
        self._has_answers.clear()
