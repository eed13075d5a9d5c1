# SPDX-License-Identifier: Apache-2.0
"""Quotas of tenants: what is counted where, and what a store in trouble does to the counts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import NOW, ManualClock
from tests.support.users import BOB
from tests.unit.forgery import Forge, accepted, refused
from tests.unit.small_deployment import ALICE, ROOT, SmallDeployment, open_small_deployment
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.actions.identity.quotas import TenantQuotas, UsedQuotas
from tidings.actions.identity.users import ensure_user
from tidings.model import limits
from tidings.model.refusals import LimitReached, StoreUnavailable
from tidings.ports.people import Quotas
from tidings.ports.sessions import Allowance


class Sums:
    """Counts in memory, which fail as a test says."""

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}
        self.trouble: dict[str, Exception] = {}
        """What a tenant's counts meet."""
        self.gate: asyncio.Event | None = None
        """What each answer waits for."""
        self.adds = 0

    async def add(self, allowance: Allowance, count: int) -> int:
        tenant = allowance.name.split(":")[1]
        if tenant in self.trouble:
            raise self.trouble[tenant]
        if self.gate is not None:
            await self.gate.wait()
        self.adds += 1
        self.by_name[allowance.name] = self.by_name.get(allowance.name, 0) + count
        return self.by_name[allowance.name]


class Limited:
    """Tenants that all have the same quotas."""

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas

    async def get(self, _tenant: str) -> "Limited":
        return self


def quotas_of(limited: Limited, sums: Sums, clock: ManualClock | None = None) -> TenantQuotas:
    ports: Any = (limited, None, sums, clock or ManualClock())
    return TenantQuotas(*ports)


async def use(quotas: TenantQuotas, count: int, tenant: str = "acme") -> None:
    for _ in range(count):
        quotas.meter("messages", tenant).count()
    await quotas.add_up()


async def test_processes_share_a_quota() -> None:
    sums, limited = Sums(), Limited(Quotas(messages_per_day=10))
    one, other = quotas_of(limited, sums), quotas_of(limited, sums)
    await use(one, 4)
    await use(other, 5)
    assert other.meter("messages", "acme").left == 1
    await use(one, 1)
    assert one.meter("messages", "acme").left == 0
    await one.add_up()
    assert sums.by_name == {f"quota:acme:messages:{NOW // limits.DAY_MS}": 10}


async def test_counts_wait_for_a_store_that_does_not_answer() -> None:
    sums = Sums()
    quotas = quotas_of(Limited(Quotas(messages_per_day=10)), sums)
    sums.trouble["acme"] = StoreUnavailable()
    await use(quotas, 3)
    assert sums.by_name == {}
    sums.trouble.clear()
    await use(quotas, 1)
    assert quotas.meter("messages", "acme").left == 6


async def test_one_tenant_s_trouble_is_not_another_s(caplog: pytest.LogCaptureFixture) -> None:
    sums = Sums()
    quotas = quotas_of(Limited(Quotas(messages_per_day=10)), sums)
    sums.trouble["acme"] = ZeroDivisionError()
    quotas.meter("messages", "acme").count()
    await use(quotas, 2, "beta")
    assert quotas.meter("messages", "beta").left == 8
    assert "cannot be added up" in caplog.text


async def test_an_idle_tenant_is_forgotten_unless_it_is_limited_today() -> None:
    clock, limited = ManualClock(), Limited(Quotas(messages_per_day=10))
    quotas = quotas_of(limited, Sums(), clock)
    await use(quotas, 3)
    meter = quotas.meter("messages", "acme")
    await quotas.add_up()
    assert quotas.meter("messages", "acme") is meter, "what is left stays known"
    clock.time += limits.DAY_MS
    await quotas.add_up()
    assert quotas.meter("messages", "acme") is not meter, "a new day, a new count"


async def test_no_upload_is_checked_against_a_quota_that_is_still_being_read() -> None:
    sums = Sums()
    quotas = quotas_of(Limited(Quotas(attachment_bytes_per_day=10)), sums)
    sums.trouble["acme"] = StoreUnavailable()
    await quotas.add_up()
    with pytest.raises(StoreUnavailable):
        await quotas.current_meter("attachment_bytes", "acme")
    with pytest.raises(StoreUnavailable):
        await quotas.current_meter("attachment_bytes", "acme")
    sums.trouble.clear()
    sums.gate = asyncio.Event()
    several = [asyncio.create_task(quotas.current_meter("attachment_bytes", "acme")) for _ in "abc"]
    await asyncio.sleep(0)
    sums.gate.set()
    assert [(await one).left for one in several] == [10, 10, 10]
    assert sums.adds == 1, "the quota is read once for all of them"


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4), st.booleans()), max_size=12))
async def test_nothing_is_lost_and_nothing_counts_twice(
    steps: list[tuple[int, int, bool]],
) -> None:
    sums, limited = Sums(), Limited(Quotas(messages_per_day=1_000))
    processes = [quotas_of(limited, sums), quotas_of(limited, sums)]
    for process, count, is_down in steps:
        sums.trouble = {"acme": StoreUnavailable()} if is_down else {}
        await use(processes[process], count)
    sums.trouble = {}
    for quotas in processes:
        await use(quotas, 0)
    assert sum(sums.by_name.values()) == sum(count for _, count, _ in steps)


# Users.


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data") as opened:
        await opened.put_tenant(ROOT, "acme", None)
        yield opened


def users_quota(world: SmallDeployment) -> TenantQuotas:
    store = world.store
    return TenantQuotas(store.tenants, store.users, store.budgets, world.clock)


async def test_a_full_tenant_takes_no_new_user_and_keeps_those_it_has(
    world: SmallDeployment,
) -> None:
    users, quotas = world.store.users, users_quota(world)
    await ensure_user(users, ALICE, NOW, quotas)
    await world.store.tenants.set_quotas("acme", Quotas(users=0))
    await quotas.check_user(ALICE)
    await ensure_user(users, ALICE, NOW + 1, quotas)
    assert (await users.get(ALICE)).created_at == NOW  # type: ignore[union-attr]
    with pytest.raises(LimitReached, match="quota of 0 users"):
        await ensure_user(users, BOB, NOW, quotas)
    assert await users.get(BOB) is None


async def test_a_tenant_sees_what_it_has_used(world: SmallDeployment) -> None:
    tenants, quotas = world.store.tenants, users_quota(world)
    await ensure_user(world.store.users, ALICE, NOW, quotas)
    free = await tenants.get("acme")
    assert free is not None and await quotas.used(free) == UsedQuotas(1, None, None)
    limited = await tenants.set_quotas("acme", Quotas(messages_per_day=10))
    assert limited is not None and await quotas.used(limited) == UsedQuotas(1, None, 0)
    await use(quotas, 3)
    assert await quotas.used(limited) == UsedQuotas(1, None, 3)
    world.clock.time += limits.DAY_MS
    assert await quotas.used(limited) == UsedQuotas(1, None, 0), "a new day"


async def test_a_token_of_a_new_user_is_not_valid_at_a_full_tenant(world: SmallDeployment) -> None:
    store = world.store
    world.authenticate._status = CredentialStatus(
        store.tenants, store.users, store.sessions, world.clock, world.watch, users_quota(world)
    )
    token = Forge(*await world.signing.signer("acme")).with_claims()
    await store.tenants.set_quotas("acme", Quotas(users=0))
    assert await refused(world, token)
    await store.tenants.set_quotas("acme", Quotas())
    assert await accepted(world, token)
