# SPDX-License-Identifier: Apache-2.0
"""Users: making them, their profiles, and erasing what they wrote."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

import msgspec

from tidings.actions.identity import Caller, require_tenant, require_user
from tidings.actions.vault import Vault
from tidings.model import limits
from tidings.model.ids import USER, UserKey, tenant_of, user_key
from tidings.model.refusals import Invalid, TenantNotFound, UserNotFound
from tidings.ports.people import Tenants, User, Users
from tidings.ports.world import Clock

PHONE_NUMBER: Final = re.compile(r"\+[1-9][0-9]{6,14}")
"""E.164, the one form in which a number is kept."""


@dataclass(frozen=True, slots=True)
class PutUser:
    """Create or update a user."""

    tenants: Tenants
    users: Users
    clock: Clock

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        user_id: str,
        display_name: str | None = None,
        phone_number: str | None = None,
    ) -> tuple[User, bool]:
        """The user as it is now, and whether it is new. None leaves a field as it is."""
        require_tenant(caller, tenant)
        check_user_id(user_id)
        if display_name is not None:
            check_visible_text("display_name", display_name)
        if phone_number is not None and PHONE_NUMBER.fullmatch(phone_number) is None:
            raise Invalid("phone_number: E.164, such as +14155550123", "/phone_number")
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        return await self.users.put(
            user_key(tenant, user_id),
            display_name=display_name,
            phone_number=phone_number,
            now=self.clock.now(),
        )


@dataclass(frozen=True, slots=True)
class GetProfile:
    """The caller's own profile, or that of another user of the same tenant."""

    users: Users

    async def __call__(self, caller: Caller, user_id: str | None = None) -> User:
        """The profile. A phone number is shown to its owner only."""
        me = require_user(caller).user
        if user_id is None:
            return await _existing(self.users, me)
        if USER.fullmatch(user_id) is None:
            raise UserNotFound
        user = await _existing(self.users, user_key(tenant_of(me), user_id))
        return user if user.user == me else msgspec.structs.replace(user, phone_number=None)


@dataclass(frozen=True, slots=True)
class PatchProfile:
    """Change one's own profile."""

    users: Users
    clock: Clock

    async def __call__(self, caller: Caller, display_name: str | None) -> User:
        """The profile as it is now. The phone number is the tenant's to change: it identifies."""
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
    """Destroy the keys of a user: all the user ever wrote reads `erased`, for everyone."""

    users: Users
    vault: Vault

    async def __call__(self, caller: Caller, tenant: str, user_id: str) -> int:
        """How many keys were destroyed. The user stays, and may write anew."""
        require_tenant(caller, tenant)
        if USER.fullmatch(user_id) is None:
            raise UserNotFound
        user = await _existing(self.users, user_key(tenant, user_id))
        return await self.vault.erase(user.user)


async def ensure_user(users: Users, user: UserKey, now: int) -> None:
    """Create the user if there is none."""
    if await users.get(user) is None:
        await users.put(user, display_name=None, phone_number=None, now=now)


def check_user_id(user_id: str) -> None:
    """Refuse what is not a user id."""
    if USER.fullmatch(user_id) is None:
        raise Invalid("user_id: 1 to 64 of A-Z a-z 0-9 . _ @ + -", "/user_id")


def check_visible_text(field: str, text: str) -> None:
    """Refuse a name that is blank, too long, or holds control characters."""
    has_controls = any(unicodedata.category(char) in ("Cc", "Cs") for char in text)
    if not text.strip() or len(text) > limits.NAME_CHARS_MAX or has_controls:
        raise Invalid(
            f"{field}: 1 to {limits.NAME_CHARS_MAX} characters, without control characters",
            f"/{field}",
        )


async def _existing(users: Users, user: UserKey) -> User:
    found = await users.get(user)
    if found is None:
        raise UserNotFound
    return found
