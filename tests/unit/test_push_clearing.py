# SPDX-License-Identifier: Apache-2.0
"""Taking notices back: a slow push service makes neither the memory full nor other tenants wait."""

import asyncio
from collections import Counter
from typing import Any, cast

import pytest

from tests.support.waiting import until
from tests.unit.small_deployment import CHAT
from tidings.actions.push.noticing import Badges
from tidings.actions.push.sending import SendPush
from tidings.buses.in_process import InProcessBus
from tidings.delivery import push_clearing
from tidings.delivery.push_clearing import TENANT_WORKERS, PushClearing
from tidings.metrics import declared
from tidings.model.chats import Receipt
from tidings.model.ids import UserKey, tenant_of
from tidings.ports.bus import ReceiptMoved
from tidings.ports.push import PushClaims, PushNotice


class World:
    """Push services of which that of the tenant `slow` does not answer."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()

    def is_off(self, tenant: str) -> bool:
        return False

    async def is_reachable(self, user: UserKey) -> bool:
        return True

    async def clear(self, user: UserKey, chat: str, pushed: int) -> bool:
        return True

    def forget(self, user: UserKey) -> None:
        """Nothing is remembered."""

    async def of(self, user: UserKey, *, more: int) -> int:
        return 0

    async def __call__(self, user: UserKey, notice: PushNotice) -> None:
        self.begun[tenant_of(user)] += 1
        if tenant_of(user) == "slow":
            await asyncio.Event().wait()


async def test_a_slow_push_service_delays_only_its_own_tenant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(push_clearing, "TENANT_WAITING_MAX", 10)
    bus, world = InProcessBus(), World()
    some: Any = world
    clearing = PushClearing(cast(PushClaims, some), cast(SendPush, some), cast(Badges, some), bus)
    clearing.start()
    dropped = declared.push.counts["dropped"]

    def read(user: str) -> None:
        receipt = Receipt(UserKey(user), 5, 5, 4, pushed=5)
        bus.publish(ReceiptMoved(CHAT, receipt, by_reading=True))

    for number in range(TENANT_WORKERS):
        read(f"slow:u{number}")
    await until(lambda: world.begun["slow"] == TENANT_WORKERS)
    for number in range(100):
        read(f"slow:v{number}")
    await until(lambda: declared.push.counts["dropped"] == dropped + 90)
    read("quick:ann")
    await until(lambda: world.begun["quick"] == 1)
    assert world.begun["slow"] == TENANT_WORKERS
    await clearing.close()
