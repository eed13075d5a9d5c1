# SPDX-License-Identifier: Apache-2.0
"""Write the text message with a login code, and send it in the background.

Only the phone learns whether a code was sent.

Also contains the lookup of tenants that allow phone login, and the health of the SMS provider.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

import msgspec

from tidings.actions.identity.phone_numbers import LoginBudgets
from tidings.actions.identity.refresh_tokens import LoginDigests
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.refusals import Invalid, SmsUnavailable, StoreUnavailable
from tidings.model.roles import LoginSettings, login_settings_in
from tidings.ports.delivery import Sms, TextRejected
from tidings.ports.inboxes import InboxSettings
from tidings.ports.people import Tenant, Tenants, UserStore
from tidings.ports.sessions import LoginCode, LoginCodes
from tidings.ports.world import Chance, Clock

log = logging.getLogger("tidings.identity")
provider_log = logging.getLogger("tidings.sms")

SHOWN_NAME_CHARS_MAX: Final = 40
"""Maximum length of the tenant's name in a text message."""
_CODES: Final = 10**limits.CODE_DIGITS
_DRAWN_BYTES: Final = 4

Failure = Literal["provider", "rejected", "store", "provider_down"]


class LoginTenant(msgspec.Struct, frozen=True):
    """A tenant whose users may currently log in by phone."""

    tenant: Tenant
    may_register: bool
    """Whether an unknown number becomes a new user."""


class LoginTenants(msgspec.Struct, frozen=True):
    """Looks up tenants that allow phone login.

    The reads are strong, so that a changed setting takes effect at once in every process.
    """

    tenants: Tenants
    settings: InboxSettings

    async def find(self, tenant: str) -> LoginTenant | None:
        """Return the tenant; None if it is unknown or suspended, or phone login is switched off.

        Both reads are always made, so that the response time does not reveal which case it is.
        """
        found = await self.tenants.get(tenant)
        login = _read(await self.settings.settings(tenant))
        if found is None or found.suspended_at is not None or not login.phone:
            return None
        return LoginTenant(found, login.register)


def _read(settings: dict[str, object] | None) -> LoginSettings:
    try:
        return login_settings_in(settings or {})
    except Invalid:
        # The value was stored before `login` had a meaning, so it switches nothing on.
        return LoginSettings()


class ProviderHealth:
    """Circuit breaker that marks the SMS provider as down for some seconds after repeated failures.

    After this pause, sending is tried again: the first success ends the outage, and the first
    failure starts another pause.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Assume that the provider is up; `now` is a monotonic clock in seconds."""
        self._now = now
        self._failures = 0
        self._down_until = 0.0

    def down_ms(self) -> int:
        """Return the milliseconds until sending is tried again; 0 while the provider is up."""
        left = self._down_until - self._now()
        return max(0, round(left * limits.SECOND_MS))

    @property
    def is_failing(self) -> bool:
        """Whether the last text message could not be sent."""
        return self._failures > 0

    def worked(self) -> None:
        """Record that the provider accepted a text."""
        if self._failures >= limits.SMS_FAILURES_MAX:
            provider_log.warning("SMS provider is up again", extra={"action": "sms_up"})
        self._failures = 0
        self._down_until = 0.0

    def failed(self) -> None:
        """Record a failure that was not caused by the text itself."""
        self._failures += 1
        if self._failures < limits.SMS_FAILURES_MAX:
            return
        self._down_until = self._now() + limits.SMS_DOWN_MS / limits.SECOND_MS
        if self._failures == limits.SMS_FAILURES_MAX:
            provider_log.error("SMS provider is down", extra={"action": "sms_down"})


class CodeOrder(msgspec.Struct, frozen=True):
    """A request for a login code."""

    tenant: str
    number: str
    address: str | None
    """The address of the request, if requests are counted by address."""
    asked_at: int


class SendCode(msgspec.Struct, frozen=True):
    """Send a login code if the tenant, the number and the budgets allow it."""

    sms: Sms | None
    """None if phone login is switched off in this deployment."""
    tenants: LoginTenants
    users: UserStore
    codes: LoginCodes
    budgets: LoginBudgets
    digests: LoginDigests
    health: ProviderHealth
    clock: Clock
    chance: Chance
    withheld: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of codes that were not sent because a budget was used up, by budget."""
    failed: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of codes that could not be sent, by reason."""

    async def __call__(self, order: CodeOrder) -> None:
        """Send a code if the tenant allows phone login, the number belongs to a user or may
        register, and no budget is used up.

        While the provider is down, nothing is sent. Expected failures are logged, never raised.
        """
        assert self.sms is not None, "no code is requested where phone login is off"
        try:
            if self.health.down_ms():
                # The order was queued before the outage was known: fail without trying.
                await self._give_back(order)
                self._fail("provider_down", order)
            else:
                await self._decide(self.sms, order)
        except StoreUnavailable:
            self._fail("store", order)

    async def _decide(self, sms: Sms, order: CodeOrder) -> None:
        tenant, number, now = order.tenant, order.number, order.asked_at
        found = await self.tenants.find(tenant)
        is_known = bool(await self.users.by_phone(tenant, [number]))
        used_up = await self.budgets.spend(tenant, number, now, is_known=is_known)
        if used_up is not None:
            self._withhold(used_up, tenant)
        elif found is None or not (is_known or found.may_register):
            await self.budgets.give_back(tenant, number, now, is_known=is_known)
            if self.health.is_failing:
                # While texts fail, no request is charged, whether the number has a user or not.
                await self._give_back(order)
            # Store a code that is not sent, so that checking a guess takes equally long.
            await self.codes.put(self._stored_code(order, new_code(self.chance)))
        else:
            await self._send(sms, found.tenant, order, is_known=is_known)

    async def _send(self, sms: Sms, tenant: Tenant, order: CodeOrder, *, is_known: bool) -> None:
        """Store the code, then send it, so that it is valid before it arrives.

        If it cannot be sent, restore the earlier code, which may already be on the phone.
        """
        code = new_code(self.chance)
        stored = self._stored_code(order, code)
        try:
            before = await self.codes.find(order.tenant, order.number)
            await self.codes.put(stored)
            failure = await self._send_text(sms, order.number, _text(tenant, code))
            if failure is None:
                return
            if before is not None:
                await self.codes.restore(stored, before)
        except StoreUnavailable:
            failure = "store"
        with suppress(StoreUnavailable):
            await self.budgets.give_back(
                order.tenant, order.number, order.asked_at, is_known=is_known
            )
            # The number may be made up if the provider rejects it, so the request stays charged.
            if failure != "rejected":
                await self._give_back(order)
        self._fail(failure, order)

    async def _give_back(self, order: CodeOrder) -> None:
        await self.budgets.give_back_request(
            order.tenant, order.number, order.address, order.asked_at
        )

    async def _send_text(self, sms: Sms, number: str, text: str) -> Failure | None:
        try:
            await sms.send(number, text)
        except TextRejected:
            return "rejected"
        except SmsUnavailable:
            self.health.failed()
            return "provider"
        self.health.worked()
        declared.sms.counts["sent"] += 1
        return None

    def _stored_code(self, order: CodeOrder, code: str) -> LoginCode:
        return LoginCode(
            tenant=order.tenant,
            phone_number=order.number,
            digest=self.digests.code(order.tenant, order.number, code),
            expires_at=self.clock.now() + limits.CODE_MS,
            asked_by=self.digests.address(order.address),
        )

    def _withhold(self, used_up: str, tenant: str) -> None:
        self.withheld[used_up] += 1
        declared.sms.counts["withheld"] += 1
        log.warning(
            "login code withheld: a budget is used up",
            extra={"action": "code_withheld", "used_up": used_up, "tenant": tenant},
        )

    def _fail(self, failure: Failure, order: CodeOrder) -> None:
        self.failed[failure] += 1
        declared.sms.counts[failure] += 1
        log.warning(
            "login code could not be sent",
            extra={"action": "code_failed", "reason": failure, "tenant": order.tenant},
        )


def new_code(chance: Chance) -> str:
    """Return six random digits; all codes are equally likely."""
    span = 2 ** (8 * _DRAWN_BYTES)
    while True:
        drawn = int.from_bytes(chance.token(_DRAWN_BYTES), "big")
        if drawn < span - span % _CODES:  # else draw again: the remainder would favour small codes
            return f"{drawn % _CODES:0{limits.CODE_DIGITS}d}"


def _text(tenant: Tenant, code: str) -> str:
    name = (tenant.name or tenant.tenant)[:SHOWN_NAME_CHARS_MAX]
    minutes = limits.CODE_MS // (60 * limits.SECOND_MS)
    return f"{code} is your code for {name}. It expires in {minutes} minutes. Do not share it."
