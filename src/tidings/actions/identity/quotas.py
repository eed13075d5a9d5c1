# SPDX-License-Identifier: Apache-2.0
"""Quotas of tenants: what one may use in a day, counted in each process and added up in the store.

Whoever sends asks a number in memory. Every two seconds each process adds what it has counted to
the sum in the store and learns what the others have. So a tenant can pass its quota by what it
does in that time, by as many processes as it does it in.
"""

import asyncio
import logging
from typing import Final, Literal

from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import LimitReached, QuotaReached, Unavailable
from tidings.ports.logins import Allowance, Budgets
from tidings.ports.people import Quotas, Tenants, UserStore
from tidings.ports.world import Clock
from tidings.tasks import Tasks

log = logging.getLogger("tidings.quotas")

Kind = Literal["chats", "messages"]

ADD_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 10.0
"""So long another quota may take to count."""
PLENTY: Final = 1 << 62


class Meter:
    """What one tenant does of one kind, in this process."""

    __slots__ = ("left", "uncounted")

    def __init__(self) -> None:
        self.left = PLENTY
        """As far as this process knows."""
        self.uncounted = 0
        """Done, and not in the store's sum yet."""

    def count(self) -> None:
        """One more was done."""
        self.left -= 1
        self.uncounted += 1


class _TenantMeters:
    def __init__(self, day: int) -> None:
        self.day = day
        self.quotas = Quotas()
        self.look_at = 0
        self.meters: dict[Kind, Meter] = {"chats": Meter(), "messages": Meter()}

    def most(self, kind: Kind) -> int | None:
        return self.quotas.chats_per_day if kind == "chats" else self.quotas.messages_per_day

    @property
    def is_busy(self) -> bool:
        """Whether something was done since, or is refused, or nothing is known yet."""
        return not self.look_at or any(
            meter.uncounted or meter.left <= 0 for meter in self.meters.values()
        )

    @property
    def is_limited(self) -> bool:
        return self.most("chats") is not None or self.most("messages") is not None


class TenantQuotas:
    """The meters of all tenants that do something; only those that have quotas are ever refused."""

    def __init__(
        self,
        tenants: Tenants,
        users: UserStore,
        budgets: Budgets,
        clock: Clock,
        *,
        add_seconds: float = ADD_SECONDS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._tenants = tenants
        self._users = users
        self._budgets = budgets
        self._clock = clock
        self._add_seconds = add_seconds
        self._look_ms = int(look_seconds * limits.SECOND_MS)
        self._active: dict[str, _TenantMeters] = {}
        self._newcomers = asyncio.Event()
        self._tasks = Tasks("quotas")

    def start(self) -> None:
        """Begin to add up."""
        self._tasks.start(self._run())

    async def close(self) -> None:
        """Add what is left, if the store can take it, and stop."""
        await self._tasks.close()
        await self.add_up()

    def meter(self, kind: Kind, tenant: str) -> Meter:
        """Where to count what the tenant does; nothing of it is left if `left` is not above 0."""
        active = self._active.get(tenant)
        if active is None:
            active = self._active[tenant] = _TenantMeters(self._today())
            self._newcomers.set()
        return active.meters[kind]

    def reached(self) -> QuotaReached:
        """What to say when nothing is left: come back tomorrow."""
        return QuotaReached(retry_after_ms=limits.DAY_MS - self._clock.now() % limits.DAY_MS)

    async def check_user(self, user: UserKey) -> None:
        """Refuse to make another user for a tenant that has as many as it may.

        Raises:
            LimitReached: It has, and this one is not among them.
        """
        most = await self._users_when_full(tenant_of(user))
        if most is not None and await self._users.get(user) is None:
            raise LimitReached(f"the tenant may have {most} users")

    async def check_number(self, tenant: str, phone_number: str) -> None:
        """Likewise for a user who would be made for a number.

        Raises:
            LimitReached: The number is nobody's yet.
        """
        most = await self._users_when_full(tenant)
        if most is not None and not await self._users.by_phone(tenant, [phone_number]):
            raise LimitReached(f"the tenant may have {most} users")

    async def _users_when_full(self, tenant: str) -> int | None:
        """How many users the tenant may have, if it has as many."""
        found = await self._tenants.get(tenant)
        most = found.quotas.users if found is not None else None
        if most is None or await self._users.about_how_many(tenant) < most:
            return None
        return most

    # Adding up.

    async def _run(self) -> None:
        while True:
            self._newcomers.clear()
            await self.add_up()
            try:
                async with asyncio.timeout(self._add_seconds):
                    await self._newcomers.wait()
            except TimeoutError:
                continue

    async def add_up(self) -> None:
        """Tell the store what was done, and learn what is left. What it cannot take now waits."""
        for tenant, active in list(self._active.items()):
            if not active.is_busy:
                self._forget_if_idle(tenant, active)
                continue
            try:
                await self._look(tenant, active)
                await self._add(tenant, active)
            except Unavailable:
                log.warning("quotas cannot be added up", extra={"action": "quotas_wait"})
                return
            if active.day != self._today():
                del self._active[tenant]  # met again, it starts with a new sum

    def _forget_if_idle(self, tenant: str, active: _TenantMeters) -> None:
        """Who is limited is kept for the day: who is met for the first time may do anything."""
        if active.day != self._today() or not active.is_limited:
            del self._active[tenant]

    async def _look(self, tenant: str, active: _TenantMeters) -> None:
        now = self._clock.now()
        if now < active.look_at:
            return
        found = await self._tenants.get(tenant)
        active.quotas = found.quotas if found is not None else Quotas()
        active.look_at = now + self._look_ms

    async def _add(self, tenant: str, active: _TenantMeters) -> None:
        for kind, meter in active.meters.items():
            most, adding = active.most(kind), meter.uncounted
            if most is None:
                meter.left, meter.uncounted = PLENTY, 0
                continue
            name = f"quota:{tenant}:{kind}:{active.day}"
            # Kept for a day more: some process may be late.
            ends = (active.day + 2) * limits.DAY_MS
            total = await self._budgets.add(
                Allowance(name=name, most=most, expires_at=ends), adding
            )
            meter.uncounted -= adding
            meter.left = most - total - meter.uncounted

    def _today(self) -> int:
        return self._clock.now() // limits.DAY_MS
