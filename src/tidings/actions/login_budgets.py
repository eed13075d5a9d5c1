# SPDX-License-Identifier: Apache-2.0
"""What may be spent on sending codes: texts cost money, and some people earn by having them sent.

The counts are in the store: all processes share them, and a restart forgets none. A stretch of
time begins when the clock says so, not with the first code, so that within one length of it up to
twice as many may be sent.
"""

from dataclasses import dataclass
from typing import Final, Literal

from tidings.actions.login_digests import LoginDigests
from tidings.actions.phone_numbers import reach
from tidings.model import limits
from tidings.ports.logins import Allowance, Budgets

Kind = Literal[
    "number", "number_day", "prefix", "country", "tenant", "all", "address", "address_day"
]
"""For whom or what a count is kept."""

_MOST: Final[dict[Kind, int]] = {
    "number": limits.NUMBER_CODES_MAX,
    "number_day": limits.NUMBER_DAY_CODES_MAX,
    "prefix": limits.PREFIX_DAY_CODES_MAX,
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

    async def spend(self, tenant: str, number: str, now: int) -> Kind | None:
        """Count a code to this number; if something is used up nothing is counted: what it is."""
        allowances = self._allowances(tenant, number, now)
        used_up = await self.budgets.spend(list(allowances.values()))
        return next((kind for kind, one in allowances.items() if one.name == used_up), None)

    async def give_back(self, tenant: str, number: str, address: str | None, now: int) -> None:
        """Undo a `spend` at that time, and that for the address if there is one."""
        allowances = list(self._allowances(tenant, number, now).values())
        if address is not None:
            allowances += self._of_address(address, now)
        await self.budgets.give_back(allowances)

    async def redeemed(self, number: str, now: int) -> None:
        """A code arrived at somebody who logged in with it: such ones do not count for prefix and
        country, which are there for texts that somebody has sent to earn by them."""
        prefix, country = reach(number)
        await self.budgets.give_back(
            [self._allowance("prefix", prefix, now), self._allowance("country", country, now)]
        )

    def _allowances(self, tenant: str, number: str, now: int) -> dict[Kind, Allowance]:
        prefix, country = reach(number)
        subjects: dict[Kind, str] = {
            "number": number,
            "number_day": number,
            "prefix": prefix,
            "country": country,
            "tenant": tenant,
            "all": "",
        }
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
        if kind == "all":
            return self.per_day
        # So that neither a country nor a tenant takes it all from the others.
        return _MOST.get(kind, max(limits.SHARE_DAY_CODES_MIN, self.per_day // 2))
