# SPDX-License-Identifier: Apache-2.0
"""Removes push notices from devices, because their messages were read on another device."""

import logging
from typing import Final

from tidings.actions.push.noticing import Badges, clearing
from tidings.actions.push.sending import SendPush
from tidings.metrics import declared
from tidings.model.chats import Receipt
from tidings.model.ids import ChatId, tenant_of
from tidings.model.refusals import Unavailable
from tidings.ports.bus import Bus, ReceiptMoved
from tidings.ports.push import PushClaims
from tidings.tasks import Tasks
from tidings.tenant_queues import TenantQueues

log = logging.getLogger("tidings.push")

WAITING_MAX: Final = 10_000
TENANT_WAITING_MAX: Final = 2_500
"""Maximum number of chats that were read and whose notices wait to be removed."""
WORKERS: Final = 16
TENANT_WORKERS: Final = 4


class PushClearing:
    """Sends a clearing notice when a user has read up to the last notice of a chat."""

    def __init__(self, claims: PushClaims, send: SendPush, badges: Badges, bus: Bus) -> None:
        self._claims = claims
        self._send = send
        self._badges = badges
        self._queues: TenantQueues[tuple[ChatId, Receipt]] = TenantQueues(
            "push clearing",
            tenant_max=TENANT_WAITING_MAX,
            total_max=WAITING_MAX,
            at_once_max=TENANT_WORKERS,
        )
        self._tasks = Tasks("push clearing")
        bus.subscribe(self._on_moved, ReceiptMoved)

    def start(self) -> None:
        """Start the tasks that remove notices."""
        for _ in range(WORKERS):
            self._tasks.repeat(self._work)

    async def close(self) -> None:
        """Stop. Notices that were not removed yet stay until the app is opened."""
        await self._tasks.close()

    def _on_moved(self, event: ReceiptMoved) -> None:
        receipt = event.receipt
        if 0 < receipt.pushed <= receipt.read and not self._is_off(receipt):
            self._tasks.start(self._put(event.chat, receipt))

    def _is_off(self, receipt: Receipt) -> bool:
        return self._send.is_off(tenant_of(receipt.user))

    async def _put(self, chat: ChatId, receipt: Receipt) -> None:
        if await self._queues.put(tenant_of(receipt.user), (chat, receipt)) is not None:
            declared.push.counts["dropped"] += 1

    async def _work(self) -> None:
        tenant, (chat, receipt) = await self._queues.get()
        try:
            await self._clear(chat, receipt)
        finally:
            await self._queues.done(tenant)

    async def _clear(self, chat: ChatId, receipt: Receipt) -> None:
        user = receipt.user
        try:
            if not await self._send.is_reachable(user):
                return
            if not await self._claims.clear(user, chat, receipt.pushed):
                return
            self._badges.forget(user)
            badge = await self._badges.of(user, more=0)
            await self._send(user, clearing(chat, receipt.read, badge))
        except Unavailable:
            log.warning("the store does not answer", extra={"action": "push_waits"})
