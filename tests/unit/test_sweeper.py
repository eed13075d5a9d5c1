# SPDX-License-Identifier: Apache-2.0
"""The sweeper: a busy store does not end it, and keys go as fast as they came."""

import pytest

from tests.support.clock import ManualClock
from tidings.actions.chat.deleting import Sweeper
from tidings.buses.in_process import InProcessBus
from tidings.model import limits
from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable


class Keys:
    """A store with stale keys and expired notifications, and with nothing else to sweep."""

    def __init__(self, stale: int, notifications: int = 0) -> None:
        self.stale = stale
        self.notifications = notifications
        self.is_busy = False

    async def empty_expired(self, now: int, limit: int) -> list[tuple[ChatId, int]]:
        if self.is_busy:
            raise StoreUnavailable("too many requests are waiting")
        return []

    async def forget_keys(self, now: int, limit: int) -> int:
        some = min(self.stale, limit)
        self.stale -= some
        return some

    async def forget_notifications(self, now: int, limit: int) -> int:
        some = min(self.notifications, limit)
        self.notifications -= some
        return some


async def test_one_sweep_forgets_all_keys_that_are_stale() -> None:
    keys = Keys(5 * limits.SWEEP_BATCH_ROWS)
    await Sweeper(keys, InProcessBus(), ManualClock()).sweep()
    assert keys.stale <= limits.SWEEP_BATCH_ROWS // 8


async def test_one_sweep_forgets_all_notifications_that_have_expired() -> None:
    keys = Keys(0, notifications=3 * limits.SWEEP_BATCH_ROWS + 1)
    await Sweeper(keys, InProcessBus(), ManualClock()).sweep()
    assert keys.notifications == 0


async def test_a_store_that_is_too_busy_is_swept_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SWEEP_TICK_MS", 0)
    keys = Keys(10)
    sweeper = Sweeper(keys, InProcessBus(), ManualClock())
    keys.is_busy = True
    await sweeper.sweep_when_due()
    assert keys.stale == 10
    keys.is_busy = False
    await sweeper.sweep_when_due()
    assert keys.stale == 0
