# SPDX-License-Identifier: Apache-2.0
"""Contacts: which of the phone numbers that a user knows are users, too."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tidings.actions.identity import Caller, require_user
from tidings.actions.phone_numbers import find_normal_form
from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import Invalid, RateLimited
from tidings.ports.logins import Allowance, Budgets
from tidings.ports.people import User, Users
from tidings.ports.world import Clock


class Contact(msgspec.Struct, frozen=True):
    """A number as it was given, and whose it is."""

    phone_number: str
    user: UserKey
    display_name: str | None


@dataclass(frozen=True, slots=True)
class FindContacts:
    """Look numbers up among the users of the caller's tenant.

    Whoever could ask for any number of them would soon have the whole tenant: a user may ask for
    so many in a day.
    """

    users: Users
    budgets: Budgets
    clock: Clock

    async def __call__(self, caller: Caller, numbers: Sequence[str]) -> list[Contact]:
        """Those that are somebody's, in the order given. What cannot be a number is nobody's.

        Raises:
            RateLimited: So many were looked up today already.
        """
        user = require_user(caller).user
        if not 1 <= len(numbers) <= limits.CONTACTS_MAX:
            raise Invalid(f"phone_numbers: 1 to {limits.CONTACTS_MAX}", "/phone_numbers")
        await self._spend(user, len(numbers))
        forms = {given: find_normal_form(given) for given in numbers}
        wanted = [form for form in dict.fromkeys(forms.values()) if form is not None]
        owners = await self.users.by_phone(tenant_of(user), wanted) if wanted else {}
        found = await self._users(set(owners.values()))
        return [
            Contact(given, owner, found[owner].display_name)
            for given, form in forms.items()
            if form is not None and (owner := owners.get(form)) in found
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

    async def _users(self, users: set[UserKey]) -> dict[UserKey, User]:
        try:
            async with asyncio.TaskGroup() as group:
                asked = {user: group.create_task(self.users.get(user)) for user in users}
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return {user: found for user, one in asked.items() if (found := one.result()) is not None}
