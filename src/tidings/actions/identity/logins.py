# SPDX-License-Identifier: Apache-2.0
"""Logging in by phone: a code is sent to a number, and whoever knows it has the number.

A tenant that has not switched phone login on is treated as one that does not exist. No answer
tells whether a number is anybody's.
"""

import hmac
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

from tidings.actions.identity.background_queue import BackgroundQueue
from tidings.actions.identity.code_sending import CodeOrder, LoginTenant, LoginTenants, SendCode
from tidings.actions.identity.login_budgets import LoginBudgets
from tidings.actions.identity.phone_numbers import normal_form
from tidings.actions.identity.refresh_tokens import LoginDigests
from tidings.actions.identity.tenants import check_tenant
from tidings.model import limits
from tidings.model.refusals import (
    CodeWrong,
    LoginOff,
    RateLimited,
    SmsUnavailable,
    StoreUnavailable,
)
from tidings.ports.logins import LoginCode, LoginCodes
from tidings.ports.people import Tenant
from tidings.ports.world import Clock


@dataclass(frozen=True, slots=True)
class RequestCode:
    """Take on the wish for a code.

    Before the answer nothing is looked up that depends on tenant or number: whatever becomes of
    the wish, the answer and the work before it are the same.
    """

    send: SendCode
    queue: BackgroundQueue
    budgets: LoginBudgets
    clock: Clock

    async def __call__(self, tenant: str, phone_number: str, address: str | None) -> None:
        """Have a code sent in the background. `address` is whose requests are counted; None:
        nobody's.

        Raises:
            LoginOff: This deployment sends none.
            Invalid: Not a phone number.
            RateLimited: Too many were asked for from this address.
            SmsUnavailable: The provider is down, or too many codes are waiting to be sent: for
                every number alike.
        """
        if self.send.sms is None:
            raise LoginOff
        check_tenant(tenant)
        number = normal_form(phone_number)
        if down_ms := self.send.health.down_ms():
            raise SmsUnavailable(retry_after_ms=down_ms)
        now = self.clock.now()
        wait_ms = await self.budgets.spend_for_address(address, now)
        if wait_ms is not None:
            raise RateLimited("too many codes were asked for", wait_ms)
        wish = CodeOrder(tenant, number, address, now)
        if not self.queue.put(f"{tenant}{number}", partial(self.send, wish)):
            with suppress(StoreUnavailable):
                await self.budgets.give_back_address(address, now)
            raise SmsUnavailable(retry_after_ms=limits.SMS_DOWN_MS)


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
