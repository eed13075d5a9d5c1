# SPDX-License-Identifier: Apache-2.0
"""Enforce the daily quotas of tenants, counted in each process and added up in the store.

A send only checks a number in memory. Every two seconds each process adds its count to the total
in the store, and reads the new total. In each process, a tenant can therefore exceed its quota by
the actions of two seconds.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal, NamedTuple, get_args

from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import LimitReached, QuotaReached, Unavailable
from tidings.ports.people import Quotas, Tenant, Tenants, UserStore
from tidings.ports.sessions import Allowance, Budgets
from tidings.ports.world import Clock
from tidings.tasks import Tasks

log = logging.getLogger("tidings.quotas")

Kind = Literal["chats", "messages", "attachment_bytes"]
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

ADD_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 10.0
"""Maximum delay before a changed quota applies."""
PLENTY: Final = 1 << 62
NO_QUOTAS: Final = Quotas()


class UsedQuotas(NamedTuple):
    """How much of its quotas a tenant has used: about how many users it has, and how many chats,
    messages and bytes of uploads it has made today. A number without a limit is not counted and is
    None."""

    users: int
    chats_per_day: int | None
    messages_per_day: int | None
    attachment_bytes_per_day: int | None = None


class Meter:
    """Counts one kind of action by one tenant, in this process."""

    __slots__ = ("left", "uncounted")

    def __init__(self) -> None:
        self.left = PLENTY
        """Actions that the quota still allows, as far as this process knows."""
        self.uncounted = 0
        """Actions that are not in the store's total yet."""

    def count(self, number: int = 1) -> None:
        """Count one action, or this many bytes."""
        self.left -= number
        self.uncounted += number


class _TenantMeters:
    def __init__(self, day: int, quotas: Quotas = NO_QUOTAS) -> None:
        self.day = day
        self.quotas = quotas
        self.look_at = 0
        self.lock = asyncio.Lock()
        """Held while counts are added to the store, so that none is added twice."""
        self.meters: dict[Kind, Meter] = {kind: Meter() for kind in _KINDS}

    def most(self, kind: Kind) -> int | None:
        most: int | None = getattr(self.quotas, f"{kind}_per_day")
        return most

    @property
    def is_busy(self) -> bool:
        """Return True if the tenant's meters must be kept: some actions are not yet added to the
        store, a quota is used up, or no quota was loaded yet."""
        return not self.look_at or any(
            meter.uncounted or meter.left <= 0 for meter in self.meters.values()
        )

    @property
    def is_limited(self) -> bool:
        return any(self.most(kind) is not None for kind in _KINDS)


class TenantQuotas:
    """Counts the actions of all active tenants. Only actions of tenants with quotas are refused."""

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
        self._new_tenant = asyncio.Event()
        self._tasks = Tasks("quotas")

    def start(self) -> None:
        """Start adding the counts to the store in the background."""
        self._tasks.repeat(self._add_up_when_due)

    async def close(self) -> None:
        """Stop, after a last attempt to add the uncounted actions to the store."""
        await self._tasks.close()
        await self.add_up()

    def meter(self, kind: Kind, tenant: str) -> Meter:
        """Return the meter of a tenant; the quota is used up when `left` is 0 or less."""
        active = self._active.get(tenant)
        if active is None:
            active = self._active[tenant] = _TenantMeters(self._today())
            self._new_tenant.set()
        return active.meters[kind]

    async def current_meter(self, kind: Kind, tenant: str) -> Meter:
        """Return the meter of a tenant, with a quota that is at most `LOOK_SECONDS` old.

        This is for single actions that can use up a quota, such as the upload of a large file.

        Raises:
            StoreUnavailable: The quota cannot be read now.
        """
        meter, active = self.meter(kind, tenant), self._active[tenant]
        if self._clock.now() >= active.look_at:
            async with active.lock:
                # Another request may have read it meanwhile.
                if self._clock.now() >= active.look_at:
                    await self._update(tenant, active)
        return meter

    @asynccontextmanager
    async def counted(self, kind: Kind, tenant: str, amount: int) -> AsyncIterator[None]:
        """Count something that is stored in this context; if that fails, it does not count.

        Raises:
            QuotaReached: The quota has less left.
            StoreUnavailable: The quota cannot be read now.
        """
        meter = await self.current_meter(kind, tenant)
        if amount > 0 and meter.left < amount:
            raise self.reached()
        # It counts before it is stored, so that several at the same time cannot exceed the quota.
        meter.count(amount)
        try:
            yield
        except BaseException:
            meter.count(-amount)
            raise

    def reached(self) -> QuotaReached:
        """Return the refusal for a used-up quota; the client may retry tomorrow."""
        return QuotaReached(retry_after_ms=limits.DAY_MS - self._clock.now() % limits.DAY_MS)

    async def used(self, tenant: Tenant) -> UsedQuotas:
        """Return how much of its quotas a tenant has used, as far as it is added up."""
        limited = _TenantMeters(self._today(), tenant.quotas)
        names = {
            kind: _name(tenant.tenant, kind, limited.day)
            for kind in limited.meters
            if limited.most(kind) is not None
        }
        spent = await self._budgets.spent(list(names.values())) if names else {}
        today = {kind: spent.get(name, 0) for kind, name in names.items()}
        users = await self._users.about_how_many(tenant.tenant)
        return UsedQuotas(users, *(today.get(kind) for kind in _KINDS))

    async def check_user(self, user: UserKey) -> None:
        """Refuse a new user if the tenant has reached its quota of users.

        Raises:
            LimitReached: The quota is reached, and this user does not exist yet.
        """
        most = await self._users_when_full(tenant_of(user))
        if most is not None and await self._users.get(user) is None:
            raise LimitReached(f"the tenant has reached its quota of {most} users")

    async def check_number(self, tenant: str, phone_number: str) -> None:
        """Refuse a new user for a phone number if the tenant has reached its quota of users.

        Raises:
            LimitReached: The quota is reached, and the number belongs to no user yet.
        """
        most = await self._users_when_full(tenant)
        if most is not None and not await self._users.by_phone(tenant, [phone_number]):
            raise LimitReached(f"the tenant has reached its quota of {most} users")

    async def _users_when_full(self, tenant: str) -> int | None:
        """Return the quota of users if it is reached, else None."""
        found = await self._tenants.get(tenant)
        most = found.quotas.users if found is not None else None
        if most is None or await self._users.about_how_many(tenant) < most:
            return None
        return most

    # Adding up.

    async def _add_up_when_due(self) -> None:
        self._new_tenant.clear()
        await self.add_up()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._add_seconds):
                await self._new_tenant.wait()

    async def add_up(self) -> None:
        """Add uncounted actions to the totals in the store, and update the rest of each quota.

        While the store is unavailable, the counts stay in memory.
        """
        for tenant, active in list(self._active.items()):
            if not active.is_busy:
                self._forget_if_idle(tenant, active)
                continue
            try:
                async with active.lock:
                    await self._update(tenant, active)
            except Unavailable:
                log.warning("quotas cannot be added up", extra={"action": "quotas_wait"})
                return
            except Exception:
                # Continue with the other tenants.
                extra = {"action": "quota_failed", "tenant": tenant}
                log.exception("the quotas of a tenant cannot be added up", extra=extra)
                continue
            if active.day != self._today():
                del self._active[tenant]  # its next action starts a new total

    def _forget_if_idle(self, tenant: str, active: _TenantMeters) -> None:
        """Remove an idle tenant's meters from memory, but not on the same day if it has quotas.

        The next action of a removed tenant starts a new meter, which has no limit at first.
        """
        if active.day != self._today() or not active.is_limited:
            del self._active[tenant]

    async def _update(self, tenant: str, active: _TenantMeters) -> None:
        now = self._clock.now()
        is_old = now >= active.look_at
        if is_old:
            found = await self._tenants.get(tenant)
            active.quotas = found.quotas if found is not None else Quotas()
        await self._add(tenant, active)
        if is_old:
            # Only now do the meters know the quota.
            active.look_at = now + self._look_ms

    async def _add(self, tenant: str, active: _TenantMeters) -> None:
        for kind, meter in active.meters.items():
            most, adding = active.most(kind), meter.uncounted
            if most is None:
                meter.left, meter.uncounted = PLENTY, 0
                continue
            name = _name(tenant, kind, active.day)
            # Keep the total for a day longer, because another process may add to it late.
            ends = (active.day + 2) * limits.DAY_MS
            total = await self._budgets.add(
                Allowance(name=name, most=most, expires_at=ends), adding
            )
            meter.uncounted -= adding
            meter.left = most - total - meter.uncounted

    def _today(self) -> int:
        return self._clock.now() // limits.DAY_MS


def _name(tenant: str, kind: Kind, day: int) -> str:
    return f"quota:{tenant}:{kind}:{day}"
