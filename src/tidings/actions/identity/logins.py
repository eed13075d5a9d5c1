# SPDX-License-Identifier: Apache-2.0
"""Log in by phone: request a code for a number, and redeem it to prove possession of the number.

A tenant without phone login is treated like a tenant that does not exist. No answer reveals whether
a number belongs to a user.
"""

import hmac
from contextlib import suppress
from functools import partial
from typing import TypeGuard

import msgspec

from tidings.actions.identity.code_sending import CodeOrder, LoginTenant, LoginTenants, SendCode
from tidings.actions.identity.phone_numbers import LoginBudgets, normal_form
from tidings.actions.identity.refresh_tokens import LoginDigests
from tidings.actions.identity.tenants import check_tenant
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.refusals import (
    CodeWrong,
    LoginOff,
    RateLimited,
    SmsUnavailable,
    StoreUnavailable,
)
from tidings.ports.people import Tenant
from tidings.ports.sessions import LoginCode, LoginCodes
from tidings.ports.world import Clock
from tidings.tasks import BackgroundQueue


class RequestCode(msgspec.Struct, frozen=True):
    """Accept a request for a login code.

    Before the answer, only the requests for this number are counted. Nothing else that depends on
    the tenant or the number is read. The answer and its timing are therefore the same whether a
    code is sent or not, and whether the number belongs to a user or not.
    """

    send: SendCode
    queue: BackgroundQueue
    budgets: LoginBudgets
    clock: Clock

    async def __call__(self, tenant: str, phone_number: str, address: str | None) -> None:
        """Queue the sending of a code; charge the request to `address` unless it is None.

        Raises:
            LoginOff: This deployment sends no codes.
            Invalid: The phone number or the tenant is malformed.
            RateLimited: Too many codes were requested for this number or from this address.
            SmsUnavailable: The provider is down, or too many codes are waiting to be sent. Neither
                depends on the number.
        """
        if self.send.sms is None:
            raise LoginOff
        check_tenant(tenant)
        number = normal_form(phone_number)
        if down_ms := self.send.health.down_ms():
            raise SmsUnavailable(retry_after_ms=down_ms)
        now = self.clock.now()
        wait_ms = await self.budgets.spend_for_request(tenant, number, address, now)
        if wait_ms is not None:
            raise RateLimited("too many codes were requested", wait_ms)
        order = CodeOrder(tenant, number, address, now)
        if not self.queue.put(f"{tenant}{number}", partial(self.send, order)):
            with suppress(StoreUnavailable):
                await self.budgets.give_back_request(tenant, number, address, now)
            raise SmsUnavailable(retry_after_ms=limits.SMS_DOWN_MS)


class RedeemCode(msgspec.Struct, frozen=True):
    """Check a login code, and use it up."""

    is_on: bool
    tenants: LoginTenants
    codes: LoginCodes
    budgets: LoginBudgets
    digests: LoginDigests
    clock: Clock

    async def check(
        self, tenant: str, phone_number: str, code: str, address: str | None
    ) -> tuple[LoginTenant, LoginCode]:
        """Return the tenant and the stored code if `code` is right, without using it up.

        `address` is the address of the client, or None if attempts are not counted by address.

        Raises:
            LoginOff: This deployment sends no codes.
            Invalid: The phone number or the tenant is malformed.
            CodeWrong: The code is wrong, used or expired, was tried too often, or phone login is
                off for this tenant.
        """
        if not self.is_on:
            raise LoginOff
        check_tenant(tenant)
        number = normal_form(phone_number)
        if not (len(code) == limits.CODE_DIGITS and code.isascii() and code.isdigit()):
            raise CodeWrong
        found = await self.tenants.find(tenant)
        tried_by = self.digests.address(address)
        stored = await self.codes.attempt(tenant, number, self.clock.now(), tried_by)
        digest = self.digests.code(tenant, number, code)
        is_right = stored is not None and hmac.compare_digest(stored.digest, digest)
        if stored is None or not is_right or found is None:
            declared.logins.counts["wrong"] += 1
            raise CodeWrong
        return found, stored

    async def use(self, code: LoginCode, *, is_known: bool) -> None:
        """Mark a code as used, because it opens a session.

        `is_known` says that the phone number belonged to a user before.

        Raises:
            CodeWrong: The code was used meanwhile.
        """
        if not await self.codes.use(code):
            raise CodeWrong
        declared.logins.counts["accepted"] += 1
        with suppress(StoreUnavailable):
            await self.budgets.redeemed(code.phone_number, self.clock.now(), is_known=is_known)


def is_open(tenant: Tenant | None) -> TypeGuard[Tenant]:
    """Return True if the tenant exists and is not suspended."""
    return tenant is not None and tenant.suspended_at is None
