# SPDX-License-Identifier: Apache-2.0
"""Logging in by phone: a code is sent to a number, and whoever knows it has the number.

A tenant that has not switched phone login on is treated as one that does not exist. No answer
tells whether a number is anybody's.
"""

import hmac
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from tidings.actions.login_budgets import LoginBudgets
from tidings.actions.login_digests import LoginDigests
from tidings.actions.login_tenants import LoginTenant, LoginTenants
from tidings.actions.phone_numbers import normal_form
from tidings.actions.tenants import check_tenant
from tidings.model import limits
from tidings.model.refusals import (
    CodeWrong,
    LoginOff,
    RateLimited,
    Refusal,
    StoreUnavailable,
)
from tidings.ports.logins import LoginCode, LoginCodes
from tidings.ports.people import Tenant, Users
from tidings.ports.sms import Sms
from tidings.ports.world import Chance, Clock

log = logging.getLogger("tidings.identity")

SHOWN_NAME_CHARS_MAX: Final = 40
"""How much of a tenant's name stands in a text, which is short."""
_CODES: Final = 10**limits.CODE_DIGITS
_DRAWN_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class RequestCode:
    """Send a code to a number."""

    sms: Sms | None
    """None: nobody logs in by phone here."""
    tenants: LoginTenants
    users: Users
    codes: LoginCodes
    budgets: LoginBudgets
    digests: LoginDigests
    clock: Clock
    chance: Chance
    withheld: Counter[str] = field(default_factory=Counter)
    """How many codes were not sent because something was used up, by what it was."""

    async def __call__(self, tenant: str, phone_number: str, address: str | None) -> None:
        """Send it, unless the tenant does not take part, the number is nobody's and may not
        become somebody's, or too much was sent already: none of which the caller is told.
        `address` is whose requests are counted; None: nobody's.

        Raises:
            LoginOff: This deployment sends none.
            Invalid: Not a phone number.
            RateLimited: Too many were asked for from this address.
            SmsUnavailable: It could not be sent; what it would have cost is given back.
        """
        if self.sms is None:
            raise LoginOff
        check_tenant(tenant)
        number = normal_form(phone_number)
        now = self.clock.now()
        wait_ms = await self.budgets.spend_for_address(address, now)
        if wait_ms is not None:
            raise RateLimited("too many codes were asked for", wait_ms)
        found = await self.tenants.find(tenant)
        owners = await self.users.by_phone(tenant, [number])
        used_up = await self.budgets.spend(tenant, number, now, is_known=bool(owners))
        if used_up is not None:
            self._withhold(used_up, tenant)
        elif found is None or not (owners or found.may_register):
            await self.budgets.give_back(tenant, number, None, now, is_known=bool(owners))
        else:
            await self._send(self.sms, found.tenant, number, address, now, is_known=bool(owners))

    async def _send(
        self,
        sms: Sms,
        tenant: Tenant,
        number: str,
        address: str | None,
        now: int,
        *,
        is_known: bool,
    ) -> None:
        code = new_code(self.chance)
        kept = LoginCode(
            tenant=tenant.tenant,
            phone_number=number,
            digest=self.digests.code(tenant.tenant, number, code),
            expires_at=now + limits.CODE_MS,
            asked_by=self.digests.address(address),
        )
        try:
            # Sent first: if it cannot be, the code that is on the phone already goes on counting.
            await sms.send(number, _text(tenant, code))
            await self.codes.put(kept)
        except Refusal:
            with suppress(StoreUnavailable):
                await self.budgets.give_back(tenant.tenant, number, address, now, is_known=is_known)
            raise

    def _withhold(self, used_up: str, tenant: str) -> None:
        self.withheld[used_up] += 1
        log.warning(
            "a login code was not sent: too many were",
            extra={"action": "code_withheld", "used_up": used_up, "tenant": tenant},
        )


@dataclass(frozen=True, slots=True)
class RedeemCode:
    """Take a code in exchange for the knowledge of who has the number."""

    is_on: bool
    tenants: LoginTenants
    codes: LoginCodes
    budgets: LoginBudgets
    digests: LoginDigests
    clock: Clock

    async def check(
        self, tenant: str, phone_number: str, code: str, address: str | None
    ) -> tuple[LoginTenant, LoginCode]:
        """The tenant, and the code that was sent to the number if this is it; not used up yet.

        `address` is from where it is tried, where that is counted.

        Raises:
            LoginOff: This deployment sends no codes.
            Invalid: Not a phone number.
            CodeWrong: In every other case: not the code, used, expired, tried too often, ...
        """
        if not self.is_on:
            raise LoginOff
        check_tenant(tenant)
        number = normal_form(phone_number)
        if not (len(code) == limits.CODE_DIGITS and code.isascii() and code.isdigit()):
            raise CodeWrong
        found = await self.tenants.find(tenant)
        tried_by = self.digests.address(address)
        kept = await self.codes.attempt(tenant, number, self.clock.now(), tried_by)
        digest = self.digests.code(tenant, number, code)
        is_right = kept is not None and hmac.compare_digest(kept.digest, digest)
        if kept is None or not is_right or found is None:
            raise CodeWrong
        return found, kept

    async def use(self, code: LoginCode, *, is_known: bool) -> None:
        """Use it up: it opens one session. `is_known`: the number was a user's before.

        Raises:
            CodeWrong: It was, meanwhile.
        """
        if not await self.codes.use(code):
            raise CodeWrong
        with suppress(StoreUnavailable):
            await self.budgets.redeemed(code.phone_number, self.clock.now(), is_known=is_known)


def is_open(tenant: Tenant | None) -> TypeGuard[Tenant]:
    """Whether there is such a tenant, and it is not suspended."""
    return tenant is not None and tenant.suspended_at is None


def new_code(chance: Chance) -> str:
    """Six digits, each code as likely as the next."""
    span = 2 ** (8 * _DRAWN_BYTES)
    while True:
        drawn = int.from_bytes(chance.token(_DRAWN_BYTES), "big")
        if drawn < span - span % _CODES:  # what is left over would favour the small ones
            return f"{drawn % _CODES:0{limits.CODE_DIGITS}d}"


def _text(tenant: Tenant, code: str) -> str:
    name = (tenant.name or tenant.tenant)[:SHOWN_NAME_CHARS_MAX]
    minutes = limits.CODE_MS // (60 * limits.SECOND_MS)
    return f"{code} is your code for {name}. It counts for {minutes} minutes. Tell it to nobody."
