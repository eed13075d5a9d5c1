# SPDX-License-Identifier: Apache-2.0
"""Phone numbers: their normal form (E.164), and the budgets that limit text messages to them.

The counts are in the store: all processes share them, and they survive a restart. Each period
starts at a fixed time of the clock, not with the first code. Around the change of a period, up to
twice the limit can therefore be sent within the length of one period.

Each tenant has its own count for a number, so that codes requested at one tenant never prevent a
login at another. Strangers with made-up numbers can use up the budgets that protect the operator
(prefix, country, tenant, deployment). For this reason known numbers, which belong to a user of the
tenant, have separate counts for prefix and country, and a reserve in the other two budgets.
"""

import unicodedata
from typing import Final, Literal, NamedTuple

import msgspec

from tidings.actions.identity.refresh_tokens import LoginDigests
from tidings.model import limits
from tidings.model.refusals import Invalid
from tidings.ports.sessions import Allowance, Budgets

NUMBER_CHARS_MAX: Final = 64
"""Maximum length of a written number, with all grouping characters."""

_PLUS: Final = ("+", "\uff0b")
_DASHES: Final = "-\u2010\u2011\u2012\u2013\u2014\u2212\uff0d"
_GROUPING: Final = frozenset(" ()./\u00a0\u2009\u202f\u3000\uff08\uff09\uff0e\uff0f" + _DASHES)
_LAST_DIGITS: Final = 4

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
"""The kinds of counts. A `known` number belongs to a user of the tenant; an `unknown` number does
not."""

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
"""Kinds with a period of minutes instead of a day."""


class Reach(NamedTuple):
    """The two groups of numbers with which a number shares budgets."""

    prefix: str
    """The number without its last four digits."""
    country: str
    """The calling code, such as +41."""


def normal_form(text: str, pointer: str = "/phone_number") -> str:
    """Return the number in E.164, which is the same for every way to write the number.

    Raises:
        Invalid: The text is not a possible international number.
    """
    number = find_normal_form(text)
    if number is None:
        field = pointer.rpartition("/")[2]
        raise Invalid(f"{field} must be an international number, such as +14155550123", pointer)
    return number


def find_normal_form(text: str) -> str | None:
    """Return the number in E.164; None if the text is not a possible international number."""
    digits = _digits(text.strip(" "))
    if digits is None:
        return None
    # Imported on first use: it takes 40 ms, and most servers never handle a number.
    import phonenumbers

    try:
        number = phonenumbers.parse(f"+{digits}", None)
    except phonenumbers.NumberParseException:
        return None
    # Not `is_valid_number`: the library's list of assigned ranges becomes outdated.
    if not phonenumbers.is_possible_number(number):
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def reach(number: str) -> Reach:
    """Return the prefix and the country of a number in E.164."""
    import phonenumbers

    code = phonenumbers.parse(number, None).country_code
    return Reach(number[:-_LAST_DIGITS], f"+{code}")


def _digits(written: str) -> str | None:
    """Return the digits of a text that is written like an international number, else None.

    The library is not enough: it also accepts words, extensions and parameters, and does not know
    every space and dash that people group digits with.
    """
    if len(written) > NUMBER_CHARS_MAX or not written.startswith(_PLUS):
        return None
    grouped = [char for char in written[1:] if char not in _GROUPING]
    digits = [unicodedata.decimal(char, -1) for char in grouped]
    return None if -1 in digits else "".join(map(str, digits))


class LoginBudgets(msgspec.Struct, frozen=True):
    """Charges each login code to several budgets, before the code is sent."""

    budgets: Budgets
    digests: LoginDigests
    per_day: int
    """Daily limit for the whole deployment."""

    async def spend_for_request(
        self, tenant: str, number: str, address: str | None, now: int
    ) -> int | None:
        """Charge a request to the number at this tenant, and to the address unless it is None.

        Returns the milliseconds to wait, or None if a code may be requested. The number is charged
        whether or not it belongs to a user, so that the answer does not reveal this.
        """
        allowances = self._of_request(tenant, number, address, now)
        used_up = await self.budgets.spend(allowances)
        return next((each.expires_at - now for each in allowances if each.name == used_up), None)

    async def give_back_request(
        self, tenant: str, number: str, address: str | None, now: int
    ) -> None:
        """Undo the `spend_for_request` made at `now`."""
        await self.budgets.give_back(self._of_request(tenant, number, address, now))

    async def spend(self, tenant: str, number: str, now: int, *, is_known: bool) -> Kind | None:
        """Charge a code to the budgets that protect the operator; return None on success.

        If a budget is used up, charge nothing and return that budget. `is_known` means that the
        number belongs to a user of the tenant.
        """
        allowances = self._allowances(tenant, number, now, is_known)
        used_up = await self.budgets.spend(list(allowances.values()))
        return next((kind for kind, each in allowances.items() if each.name == used_up), None)

    async def give_back(self, tenant: str, number: str, now: int, *, is_known: bool) -> None:
        """Undo the `spend` made at `now`."""
        allowances = self._allowances(tenant, number, now, is_known)
        await self.budgets.give_back(list(allowances.values()))

    async def redeemed(self, number: str, now: int, *, is_known: bool) -> None:
        """Undo the charges that limit unwanted texts, because the code was used for a login.

        These are the charges to the prefix and the country. For an unknown number, the charge to
        the number in all tenants is undone as well.
        """
        subjects = _reach(number, is_known)
        await self.budgets.give_back(
            [self._allowance(kind, of, now) for kind, of in subjects.items()]
        )

    def _allowances(
        self, tenant: str, number: str, now: int, is_known: bool
    ) -> dict[Kind, Allowance]:
        subjects = _reach(number, is_known)
        subjects |= {"tenant": tenant, "all": ""}
        if not is_known:
            subjects |= {"tenant_unknown": tenant, "all_unknown": ""}
        return {kind: self._allowance(kind, of, now) for kind, of in subjects.items()}

    def _of_request(
        self, tenant: str, number: str, address: str | None, now: int
    ) -> list[Allowance]:
        # A number starts with a plus, which no tenant id contains, so subjects are unique.
        own = f"{tenant}{number}"
        subjects: dict[Kind, str] = {"number": own, "number_day": own}
        if address is not None:
            subjects |= {"address": address, "address_day": address}
        return [self._allowance(kind, of, now) for kind, of in subjects.items()]

    def _allowance(self, kind: Kind, subject: str, now: int) -> Allowance:
        length = limits.CODES_MS if kind in _SHORT else limits.DAY_MS
        period = now // length
        return Allowance(
            name=f"codes:{kind}:{self.digests.name(kind, subject)}:{period}",
            most=self._most(kind),
            expires_at=(period + 1) * length,
        )

    def _most(self, kind: Kind) -> int:
        # Half of the total, so that no country or tenant can use it up alone.
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
    """Return the two budgets that a code is charged to for the prefix and the country of its
    number."""
    prefix, country = reach(number)
    if is_known:
        return {"known_prefix": prefix, "known_country": country}
    return {"number_all_tenants": number, "prefix": prefix, "country": country}


def _without_reserve(most: int) -> int:
    return most - most // limits.KNOWN_NUMBERS_RESERVE_PARTS
