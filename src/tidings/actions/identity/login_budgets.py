# SPDX-License-Identifier: Apache-2.0
"""What may be spent on sending codes: texts cost money, and some people earn by having them sent.

The counts are in the store: all processes share them, and a restart forgets none. A stretch of
time begins when the clock says so, not with the first code, so that within one length of it up to
twice as many may be sent.

A number is counted for each tenant by itself, so that codes asked for at one tenant keep nobody
from logging in at another. What protects the operator (prefix, country, tenant, deployment) can be
used up by strangers who make numbers up; numbers that are a user's of the tenant have prefix and
country counts of their own, and a part of the rest is kept for them.
"""

from dataclasses import dataclass
from typing import Final, Literal

from tidings.actions.identity.phone_numbers import reach
from tidings.actions.identity.refresh_tokens import LoginDigests
from tidings.model import limits
from tidings.ports.logins import Allowance, Budgets

Kind = Literal[
    "number",
    "number_day",
    "number_all_tenants",
    "prefix",
    "country",
    "known_prefix",
    "known_country",
    "tenant",
    "tenant_unknown",
    "all",
    "all_unknown",
    "address",
    "address_day",
]
"""For whom or what a count is kept. `unknown` are numbers that are no user's of the tenant, `known`
those that are."""

_MOST: Final[dict[Kind, int]] = {
    "number": limits.NUMBER_CODES_MAX,
    "number_day": limits.NUMBER_DAY_CODES_MAX,
    "number_all_tenants": limits.NUMBER_ALL_TENANTS_DAY_CODES_MAX,
    "prefix": limits.PREFIX_DAY_CODES_MAX,
    "known_prefix": limits.PREFIX_DAY_CODES_MAX,
    "address": limits.ADDRESS_CODES_MAX,
    "address_day": limits.ADDRESS_DAY_CODES_MAX,
}
_SHORT: Final[frozenset[Kind]] = frozenset({"number", "address"})
"""Those that begin again after minutes, not the next day."""


@dataclass(frozen=True, slots=True)
class LoginBudgets:
    """Counts codes before they are sent."""

    budgets: Budgets
    digests: LoginDigests
    per_day: int
    """How many codes the whole deployment sends in a day."""

    async def spend_for_address(self, address: str | None, now: int) -> int | None:
        """Count a code for who asks; if it is one too many, how long until there may be another."""
        if address is None:
            return None
        both = self._of_address(address, now)
        used_up = await self.budgets.spend(both)
        return next((one.expires_at - now for one in both if one.name == used_up), None)

    async def spend(self, tenant: str, number: str, now: int, *, is_known: bool) -> Kind | None:
        """Count a code to this number; if something is used up nothing is counted: what it is.

        `is_known`: the number is a user's of the tenant.
        """
        allowances = self._allowances(tenant, number, now, is_known)
        used_up = await self.budgets.spend(list(allowances.values()))
        return next((kind for kind, one in allowances.items() if one.name == used_up), None)

    async def give_back(
        self, tenant: str, number: str, address: str | None, now: int, *, is_known: bool
    ) -> None:
        """Undo a `spend` at that time, and that for the address if there is one."""
        allowances = list(self._allowances(tenant, number, now, is_known).values())
        if address is not None:
            allowances += self._of_address(address, now)
        await self.budgets.give_back(allowances)

    async def give_back_address(self, address: str | None, now: int) -> None:
        """Undo a `spend_for_address` at that time."""
        if address is not None:
            await self.budgets.give_back(self._of_address(address, now))

    async def redeemed(self, number: str, now: int, *, is_known: bool) -> None:
        """A code arrived at somebody who logged in with it: such ones do not count for the number
        in all tenants, prefix and country, which are there for texts that nobody wants."""
        subjects = _reach(number, is_known)
        await self.budgets.give_back(
            [self._allowance(kind, of, now) for kind, of in subjects.items()]
        )

    def _allowances(
        self, tenant: str, number: str, now: int, is_known: bool
    ) -> dict[Kind, Allowance]:
        # A number begins with a plus, which no tenant has: two never share a subject.
        own = f"{tenant}{number}"
        subjects: dict[Kind, str] = {"number": own, "number_day": own}
        subjects |= _reach(number, is_known)
        subjects |= {"tenant": tenant, "all": ""}
        if not is_known:
            subjects |= {"tenant_unknown": tenant, "all_unknown": ""}
        return {kind: self._allowance(kind, of, now) for kind, of in subjects.items()}

    def _of_address(self, address: str, now: int) -> list[Allowance]:
        return [self._allowance(kind, address, now) for kind in ("address", "address_day")]

    def _allowance(self, kind: Kind, subject: str, now: int) -> Allowance:
        length = limits.CODES_MS if kind in _SHORT else limits.DAY_MS
        stretch = now // length
        return Allowance(
            name=f"codes:{kind}:{self.digests.name(kind, subject)}:{stretch}",
            most=self._most(kind),
            expires_at=(stretch + 1) * length,
        )

    def _most(self, kind: Kind) -> int:
        # So that neither a country nor a tenant takes it all from the others.
        share = max(limits.SHARE_DAY_CODES_MIN, self.per_day // 2)
        match kind:
            case "all":
                return self.per_day
            case "all_unknown":
                return _without_reserve(self.per_day)
            case "tenant_unknown":
                return _without_reserve(share)
            case _:
                return _MOST.get(kind, share)


def _reach(number: str, is_known: bool) -> dict[Kind, str]:
    """What else a code to this number counts for, besides the number and who sends it."""
    prefix, country = reach(number)
    if is_known:
        return {"known_prefix": prefix, "known_country": country}
    return {"number_all_tenants": number, "prefix": prefix, "country": country}


def _without_reserve(most: int) -> int:
    return most - most // limits.KNOWN_NUMBERS_RESERVE_PARTS
