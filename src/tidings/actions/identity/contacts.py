# SPDX-License-Identifier: Apache-2.0
"""Find the users whom a user knows by their phone numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tidings.actions.identity.caller import Caller, require_user
from tidings.actions.identity.phone_numbers import find_normal_form
from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import Invalid, RateLimited
from tidings.ports.people import UserStore
from tidings.ports.sessions import Allowance, Budgets
from tidings.ports.world import Clock


class Contact(msgspec.Struct, frozen=True):
    """A phone number, as it was written in the request, and the user whom it belongs to."""

    phone_number: str
    user: UserKey
    display_name: str | None


@dataclass(frozen=True, slots=True)
class FindContacts:
    """Find users of the caller's tenant by phone number.

    Each user has a daily limit of lookups, because unlimited lookups would reveal all users of the
    tenant.
    """

    users: UserStore
    budgets: Budgets
    clock: Clock

    async def __call__(self, caller: Caller, numbers: Sequence[str]) -> list[Contact]:
        """Return a contact for each number that has a user, in the given order.

        Malformed numbers are skipped.

        Raises:
            RateLimited: The daily limit of lookups is reached.
        """
        user = require_user(caller).user
        if not 1 <= len(numbers) <= limits.CONTACTS_MAX:
            raise Invalid(
                f"phone_numbers must contain 1 to {limits.CONTACTS_MAX} numbers", "/phone_numbers"
            )
        await self._spend(user, len(numbers))
        forms = {given: find_normal_form(given) for given in numbers}
        wanted = [form for form in dict.fromkeys(forms.values()) if form is not None]
        owners = await self.users.by_phone(tenant_of(user), wanted) if wanted else {}
        found = await self.users.get_all(list(owners.values())) if owners else {}
        return [
            Contact(given, owner, found[owner].display_name)
            for given, form in forms.items()
            if form is not None and (owner := owners.get(form)) is not None and owner in found
        ]

    async def _spend(self, user: UserKey, count: int) -> None:
        now = self.clock.now()
        day = now // limits.DAY_MS
        ends_at = (day + 1) * limits.DAY_MS
        allowance = Allowance(
            name=f"contacts:{user}:{day}", most=limits.USER_DAY_CONTACTS_MAX, expires_at=ends_at
        )
        if await self.budgets.add(allowance, count) > allowance.most:
            raise RateLimited("too many numbers were looked up today", ends_at - now)
