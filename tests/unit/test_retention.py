# SPDX-License-Identifier: Apache-2.0
"""Retention rules: what a tenant may set, and how a process learns of a change."""

import asyncio

import pytest

from tests.support.clock import ManualClock
from tests.support.waiting import until
from tidings.actions.chat.retention import Retention
from tidings.model.refusals import Invalid, StoreUnavailable
from tidings.model.retention import (
    KEEP_ALL,
    KEEP_DAYS_MAX,
    RULE_AGE_MS_MAX,
    RULE_REFRESH_MS,
    RetentionRule,
    retention_in,
)

CHAT = "01J00000000000000000000000"


class TenantSettings:
    """Settings of one tenant, whose reads are counted."""

    def __init__(self, chats: object) -> None:
        self.chats = chats
        self.reads = 0
        self.is_down = False

    async def settings(self, _tenant: str) -> dict[str, object]:
        self.reads += 1
        if self.is_down:
            raise StoreUnavailable
        return {"chats": self.chats}


def test_what_a_tenant_may_set() -> None:
    assert retention_in({}) == KEEP_ALL
    by_chat = {CHAT: 7}
    rule = retention_in({"chats": {"keep_days": 30, "keep_days_by_chat": by_chat}})
    assert rule == RetentionRule(30, {CHAT: 7})


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"keep_days": 0},
        {"keep_days": KEEP_DAYS_MAX + 1},
        {"keep_days": "1"},
        {"days": 1},
        {"keep_days_by_chat": {"x": 1}},
        {"keep_days_by_chat": {CHAT: 0}},
    ],
)
def test_what_a_tenant_may_not_set(wrong: object) -> None:
    with pytest.raises(Invalid):
        retention_in({"chats": wrong})


async def test_a_rule_is_known_until_it_is_old_and_read_again_before() -> None:
    clock, settings = ManualClock(), TenantSettings({"keep_days": 30})
    retention = Retention(settings, clock)  # type: ignore[arg-type]
    assert retention.rule_nowait("acme", clock.now()) is None
    assert (await retention.rule("acme")).keep_days == 30
    clock.time += RULE_REFRESH_MS - 1
    assert retention.rule_nowait("acme", clock.now()) == RetentionRule(30)
    assert settings.reads == 1
    settings.chats = {"keep_days": 7}
    clock.time += 1
    for _ in range(2):
        assert retention.rule_nowait("acme", clock.now()) == RetentionRule(30), "nobody waits"
    await until(lambda: retention.rule_nowait("acme", clock.now()) == RetentionRule(7))
    assert settings.reads == 2, "one read at a time"
    clock.time += RULE_AGE_MS_MAX
    assert retention.rule_nowait("acme", clock.now()) is None, "too old to follow"
    await retention.close()


async def test_a_store_that_is_down_is_asked_again() -> None:
    clock, settings = ManualClock(), TenantSettings({"keep_days": 30})
    retention = Retention(settings, clock)  # type: ignore[arg-type]
    await retention.rule("acme")
    settings.is_down = True
    clock.time += RULE_REFRESH_MS
    retention.rule_nowait("acme", clock.now())
    await until(lambda: settings.reads == 2)
    clock.time += RULE_AGE_MS_MAX
    with pytest.raises(StoreUnavailable):
        await retention.rule("acme")
    await retention.close()


async def test_what_was_stored_before_it_had_a_meaning_is_no_rule() -> None:
    retention = Retention(TenantSettings("all of them"), ManualClock())  # type: ignore[arg-type]
    assert await retention.rule("acme") == KEEP_ALL


async def test_those_who_wait_share_a_read() -> None:
    settings = TenantSettings({"keep_days": 30})
    retention = Retention(settings, ManualClock())  # type: ignore[arg-type]
    first, *others = [asyncio.create_task(retention.rule("acme")) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()
    assert await asyncio.gather(*others) == [RetentionRule(30)] * 4
    assert settings.reads == 1
    settings.is_down = True
    down = await asyncio.gather(
        *(retention.rule("other") for _ in range(3)), return_exceptions=True
    )
    assert [type(error) for error in down] == [StoreUnavailable] * 3
    assert settings.reads == 2
    settings.is_down = False
    waiting = asyncio.create_task(retention.rule("other"))
    await asyncio.sleep(0)
    await retention.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
