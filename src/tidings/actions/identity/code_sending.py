# SPDX-License-Identifier: Apache-2.0
"""Sending a login code, in the background: what becomes of it is told to nobody but the phone."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from tidings.actions.identity.login_budgets import LoginBudgets
from tidings.actions.identity.refresh_tokens import LoginDigests
from tidings.model import limits
from tidings.model.invites import LoginSettings, login_settings_in
from tidings.model.refusals import Invalid, SmsUnavailable, StoreUnavailable
from tidings.ports.inboxes import InboxSettings
from tidings.ports.logins import LoginCode, LoginCodes
from tidings.ports.people import Tenant, Tenants, UserStore
from tidings.ports.push import Sms, TextRejected
from tidings.ports.world import Chance, Clock


@dataclass(frozen=True, slots=True)
class LoginTenant:
    """A tenant whose users may log in by phone now."""

    tenant: Tenant
    may_register: bool
    """Whether a number that is nobody's becomes a new user."""


@dataclass(frozen=True, slots=True)
class LoginTenants:
    """Reads tenants with their settings, strongly: a switch counts at once in every process."""

    tenants: Tenants
    settings: InboxSettings

    async def find(self, tenant: str) -> LoginTenant | None:
        """The tenant; None if it is unknown or suspended, or has not switched phone login on.

        Both reads are made in every case, so that the time does not tell the cases apart.
        """
        found = await self.tenants.get(tenant)
        said = _read(await self.settings.settings(tenant))
        if found is None or found.suspended_at is not None or not said.phone:
            return None
        return LoginTenant(found, said.register)


def _read(settings: dict[str, object] | None) -> LoginSettings:
    try:
        return login_settings_in(settings or {})
    except Invalid:
        # Kept before `login` had a meaning: whatever it is, it does not switch anything on.
        return LoginSettings()


provider_log = logging.getLogger("tidings.sms")


class ProviderHealth:
    """Says that the provider is down after several failures in a row, for some seconds at a time.

    When these are over, texts are tried again. The first that is taken ends the outage, and the
    first that is not begins the next seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`now` is in seconds and never goes back."""
        self._now = now
        self._failures = 0
        self._down_until = 0.0

    def down_ms(self) -> int:
        """For how long no text is tried; 0 if they are."""
        left = self._down_until - self._now()
        return max(0, round(left * limits.SECOND_MS))

    def worked(self) -> None:
        """A text was taken."""
        if self._failures >= limits.SMS_FAILURES_MAX:
            provider_log.warning("texts can be sent again", extra={"action": "sms_up"})
        self._failures = 0
        self._down_until = 0.0

    def failed(self) -> None:
        """A text was not taken, and not because of what it was."""
        self._failures += 1
        if self._failures < limits.SMS_FAILURES_MAX:
            return
        self._down_until = self._now() + limits.SMS_DOWN_MS / limits.SECOND_MS
        if self._failures == limits.SMS_FAILURES_MAX:
            provider_log.error("texts cannot be sent", extra={"action": "sms_down"})


log = logging.getLogger("tidings.identity")

SHOWN_NAME_CHARS_MAX: Final = 40
"""How much of a tenant's name is in a text, which is short."""
_CODES: Final = 10**limits.CODE_DIGITS
_DRAWN_BYTES: Final = 4

Failure = Literal["provider", "rejected", "store", "provider_down"]


@dataclass(frozen=True, slots=True)
class CodeOrder:
    """Somebody asked for a code."""

    tenant: str
    number: str
    address: str | None
    """Who asked, where that is counted."""
    asked_at: int


@dataclass(frozen=True, slots=True)
class SendCode:
    """Send a code to a number, unless there are reasons not to."""

    sms: Sms | None
    """None: nobody logs in by phone here."""
    tenants: LoginTenants
    users: UserStore
    codes: LoginCodes
    budgets: LoginBudgets
    digests: LoginDigests
    health: ProviderHealth
    clock: Clock
    chance: Chance
    withheld: Counter[str] = field(default_factory=Counter)
    """How many codes were not sent because something was used up, by what it was."""
    failed: Counter[str] = field(default_factory=Counter)
    """How many could not be sent, by what was in the way."""

    async def __call__(self, wish: CodeOrder) -> None:
        """Send it, unless the tenant does not take part, the number is nobody's and may not
        become somebody's, or too much was sent already. Never raises what can be expected."""
        assert self.sms is not None, "nobody is asked for a code where none are sent"
        try:
            if self.health.down_ms():
                # It was taken on before the outage was known, and fails without being tried.
                await self.budgets.give_back_address(wish.address, wish.asked_at)
                self._fail("provider_down", wish)
            else:
                await self._decide(self.sms, wish)
        except StoreUnavailable:
            self._fail("store", wish)

    async def _decide(self, sms: Sms, wish: CodeOrder) -> None:
        tenant, number, now = wish.tenant, wish.number, wish.asked_at
        found = await self.tenants.find(tenant)
        is_known = bool(await self.users.by_phone(tenant, [number]))
        used_up = await self.budgets.spend(tenant, number, now, is_known=is_known)
        if used_up is not None:
            self._withhold(used_up, tenant)
        elif found is None or not (is_known or found.may_register):
            await self.budgets.give_back(tenant, number, None, now, is_known=is_known)
            # Kept all the same, and sent to nobody: trying a code then takes as long as ever.
            await self.codes.put(self._kept(wish, new_code(self.chance)))
        else:
            await self._send(sms, found.tenant, wish, is_known=is_known)

    async def _send(self, sms: Sms, tenant: Tenant, wish: CodeOrder, *, is_known: bool) -> None:
        """Keep the code, then send it: it counts before anybody can read it.

        If it cannot be sent, the code that is on the phone already goes on counting.
        """
        code = new_code(self.chance)
        kept = self._kept(wish, code)
        try:
            before = await self.codes.find(wish.tenant, wish.number)
            await self.codes.put(kept)
            failure = await self._hand_over(sms, wish.number, _text(tenant, code))
            if failure is None:
                return
            if before is not None:
                await self.codes.restore(kept, before)
        except StoreUnavailable:
            failure = "store"
        # Whoever makes numbers up that the provider rejects still pays for asking.
        address = None if failure == "rejected" else wish.address
        with suppress(StoreUnavailable):
            await self.budgets.give_back(
                wish.tenant, wish.number, address, wish.asked_at, is_known=is_known
            )
        self._fail(failure, wish)

    async def _hand_over(self, sms: Sms, number: str, text: str) -> Failure | None:
        try:
            await sms.send(number, text)
        except TextRejected:
            return "rejected"
        except SmsUnavailable:
            self.health.failed()
            return "provider"
        self.health.worked()
        return None

    def _kept(self, wish: CodeOrder, code: str) -> LoginCode:
        return LoginCode(
            tenant=wish.tenant,
            phone_number=wish.number,
            digest=self.digests.code(wish.tenant, wish.number, code),
            expires_at=self.clock.now() + limits.CODE_MS,
            asked_by=self.digests.address(wish.address),
        )

    def _withhold(self, used_up: str, tenant: str) -> None:
        self.withheld[used_up] += 1
        log.warning(
            "a login code was not sent: too many were",
            extra={"action": "code_withheld", "used_up": used_up, "tenant": tenant},
        )

    def _fail(self, failure: Failure, wish: CodeOrder) -> None:
        self.failed[failure] += 1
        log.warning(
            "a login code could not be sent",
            extra={"action": "code_failed", "reason": failure, "tenant": wish.tenant},
        )


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
    return f"{code} is your code for {name}. It expires in {minutes} minutes. Do not share it."
