# SPDX-License-Identifier: Apache-2.0
"""Create and list users, read and change profiles, find contacts, and erase users' content."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.caller import Caller, listing_owner, require_tenant, require_user
from tidings.actions.identity.phone_numbers import find_normal_form, normal_form
from tidings.actions.identity.quotas import TenantQuotas
from tidings.model import limits
from tidings.model.ids import DEVICE, USER, UserKey, is_visible, tenant_of, user_key
from tidings.model.refusals import Invalid, RateLimited, TenantNotFound, UserNotFound
from tidings.ports.people import Tenants, User, UserStore
from tidings.ports.sessions import Allowance, Budgets
from tidings.ports.world import Clock

USER_PREFIX: Final = re.compile(r"[A-Za-z0-9._@+-]{0,64}")


@dataclass(frozen=True, slots=True)
class PutUser:
    """Create or update a user."""

    tenants: Tenants
    users: UserStore
    clock: Clock
    quotas: TenantQuotas | None = None

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        user_id: str,
        display_name: str | None = None,
        phone_number: str | msgspec.UnsetType | None = msgspec.UNSET,
        is_active: bool | None = None,
    ) -> tuple[User, bool]:
        """Create or change a user; return the stored user and whether it is new.

        A `display_name` or `is_active` of None leaves the field unchanged. A `phone_number` of
        UNSET leaves the number unchanged; None removes it.

        Changing or removing the number revokes all credentials of the user.
        """
        require_tenant(caller, tenant)
        check_user_id(user_id)
        if display_name is not None:
            check_visible_text("display_name", display_name)
        number = normal_form(phone_number) if isinstance(phone_number, str) else None
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        user = user_key(tenant, user_id)
        if self.quotas is not None:
            await self.quotas.check_user(user)
        put, is_new = await self.users.put(
            user, display_name=display_name, phone_number=number, now=self.clock.now()
        )
        if phone_number is None:
            put = await self.users.release_phone(user, self.clock.now()) or put
        if is_active is not None:
            put = await self.users.set_active(user, is_active, self.clock.now()) or put
        return put, is_new


@dataclass(frozen=True, slots=True)
class ListUsers:
    """List the users of a tenant."""

    tenants: Tenants
    users: UserStore
    cursors: Cursors

    async def __call__(
        self, caller: Caller, tenant: str, prefix: str, cursor: str | None, limit: int
    ) -> tuple[list[User], str | None]:
        """Return a page of the users whose ids begin with `prefix`, and the cursor of the next.

        Raises:
            Invalid: No user id begins with this prefix.
            CursorInvalid: The cursor is not for this list.
        """
        owner = await listing_owner(self.tenants, caller, tenant)
        if USER_PREFIX.fullmatch(prefix) is None:
            raise Invalid("prefix must be up to 64 characters of A-Z a-z 0-9 . _ @ + -", "/prefix")
        purpose = f"users {prefix}"
        after = self.cursors.position(purpose, owner, cursor)
        page = await self.users.by_id(tenant, prefix=prefix, after=after, limit=limit)
        return page.rows, self.cursors.after(purpose, owner, page.end)


@dataclass(frozen=True, slots=True)
class GetProfile:
    """Read the profile of the caller, or of another user of the same tenant."""

    users: UserStore

    async def __call__(self, caller: Caller, user_id: str | None = None) -> User:
        """Return the profile; the phone number is visible only to its owner."""
        me = require_user(caller).user
        if user_id is None:
            return await _existing(self.users, me)
        if USER.fullmatch(user_id) is None:
            raise UserNotFound
        user = await _existing(self.users, user_key(tenant_of(me), user_id))
        return user if user.user == me else msgspec.structs.replace(user, phone_number=None)


@dataclass(frozen=True, slots=True)
class PatchProfile:
    """Change the profile of the caller."""

    users: UserStore
    clock: Clock

    async def __call__(self, caller: Caller, display_name: str | None) -> User:
        """Return the new profile.

        Only the tenant may change the phone number, because the number identifies the user.
        """
        me = require_user(caller).user
        if display_name is None:
            return await _existing(self.users, me)
        check_visible_text("display_name", display_name)
        user, _ = await self.users.put(
            me, display_name=display_name, phone_number=None, now=self.clock.now()
        )
        return user


@dataclass(frozen=True, slots=True)
class EraseUserContent:
    """Destroy the data keys of a user, so that everything the user wrote is shown as `erased`."""

    users: UserStore
    vault: Vault

    async def __call__(self, caller: Caller, tenant: str, user_id: str) -> int:
        """Return the number of destroyed keys. The user remains and may write again."""
        require_tenant(caller, tenant)
        if USER.fullmatch(user_id) is None:
            raise UserNotFound
        user = await _existing(self.users, user_key(tenant, user_id))
        return await self.vault.erase(user.user)


async def ensure_user(
    users: UserStore, user: UserKey, now: int, quotas: TenantQuotas | None = None
) -> None:
    """Create the user if there is none yet.

    Raises:
        LimitReached: The tenant has reached its quota of users.
    """
    if await users.get(user) is None:
        if quotas is not None:
            await quotas.check_user(user)
        await users.put(user, display_name=None, phone_number=None, now=now)


def check_user_id(user_id: str) -> None:
    """Refuse a text that is not a user id."""
    if USER.fullmatch(user_id) is None:
        raise Invalid(
            "user_id must be 1 to 64 characters of A-Z a-z 0-9 . _ @ + -, not . or ..", "/user_id"
        )


def check_device(device: str) -> None:
    """Refuse a text that is not a device name."""
    if DEVICE.fullmatch(device) is None:
        raise Invalid("device must be 1 to 64 characters of A-Z a-z 0-9 . _ @ + -", "/device")


def check_visible_text(field: str, text: str) -> None:
    """Refuse a name that is blank or too long, or contains invisible characters."""
    if not is_visible(text):
        raise Invalid(
            f"{field} must be 1 to {limits.NAME_CHARS_MAX} visible characters, without control"
            " characters, direction marks, or joiners that join nothing",
            f"/{field}",
        )


async def _existing(users: UserStore, user: UserKey) -> User:
    found = await users.get(user)
    if found is None:
        raise UserNotFound
    return found


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
                tasks = {user: group.create_task(self.users.get(user)) for user in users}
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return {user: found for user, task in tasks.items() if (found := task.result()) is not None}
