# SPDX-License-Identifier: Apache-2.0
"""Create, change and list users, and erase their content."""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.bans import BanUser
from tidings.actions.identity.caller import Caller, listing_owner, require_tenant
from tidings.actions.identity.phone_numbers import normal_form
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.revoked_events import try_to_raise_revoked
from tidings.actions.jobs.ledger import Erasures
from tidings.model import limits
from tidings.model.attachments import ERASED_FILES_MS
from tidings.model.emails import EMAIL
from tidings.model.ids import DEVICE, USER, UserKey, is_visible, tenant_of, user_key
from tidings.model.refusals import Invalid, TenantNotFound, UserDeleted, UserNotFound
from tidings.ports.attachments import Uploads
from tidings.ports.bus import Bus, PresenceSwitched, ProfileChanged
from tidings.ports.people import NO_FIELDS, ProfileFields, Tenants, User, UserStore
from tidings.ports.push import PushStore
from tidings.ports.webhooks import RaiseEvent
from tidings.ports.world import Clock

USER_PREFIX: Final = re.compile(r"[A-Za-z0-9._@+-]{0,64}")
_PLAIN: Final = re.compile(r"[!-~]+")


class ProfileWriter(msgspec.Struct, frozen=True):
    """Store a user's changed fields, and publish the change for devices that show the user."""

    users: UserStore
    forget: Callable[[UserKey], None]
    """Removes the profile of a user from the cache."""
    bus: Bus
    clock: Clock

    async def put(
        self,
        user: UserKey,
        display_name: str | None,
        phone_number: str | None,
        fields: ProfileFields,
    ) -> tuple[User, bool]:
        """Create or change the user; return the stored user and whether it is new."""
        now = self.clock.now()
        put, is_new = await self.users.put(
            user, display_name=display_name, phone_number=phone_number, now=now, fields=fields
        )
        self.forget(user)
        if put.updated_at == now and not is_new:
            self.bus.publish(ProfileChanged(user, put.display_name, put.avatar_url))
        if fields.hidden_at is not msgspec.UNSET:
            self.bus.publish(PresenceSwitched(user, put.hidden_at is not None))
        return put, is_new


class PutUser(msgspec.Struct, frozen=True):
    """Create or update a user."""

    tenants: Tenants
    writer: ProfileWriter
    ban: BanUser
    events: RaiseEvent
    quotas: TenantQuotas | None = None

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        user_id: str,
        display_name: str | None = None,
        phone_number: str | msgspec.UnsetType | None = msgspec.UNSET,
        is_active: bool | None = None,
        fields: ProfileFields = NO_FIELDS,
        banned_until: int | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> tuple[User, bool]:
        """Create or change a user; return the stored user and whether it is new.

        A `display_name` or `is_active` of None leaves the field unchanged. A `phone_number` of
        UNSET leaves the number unchanged; None removes it. The same holds for `banned_until`.

        Changing or removing the number revokes all credentials of the user, and so does
        deactivating.
        """
        require_tenant(caller, tenant)
        check_user_id(user_id)
        fields = await without_known_email(self.writer.users, user_key(tenant, user_id), fields)
        check_profile(display_name, fields)
        number = normal_form(phone_number) if isinstance(phone_number, str) else None
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        user = user_key(tenant, user_id)
        if self.quotas is not None:
            await self.quotas.check_user(user)
        may_revoke = phone_number is not msgspec.UNSET or is_active is False
        before = await self._wanted_before(user) if may_revoke else None
        put, is_new = await self.writer.put(user, display_name, number, fields)
        put = await self._switch(put, phone_number is None, is_active)
        if before is not None and put.revoked_at != before.revoked_at:
            await try_to_raise_revoked(self.events, user, None)
        if banned_until is not msgspec.UNSET:
            put = await self.ban(user, banned_until)
        return put, is_new

    async def _switch(self, put: User, has_no_number: bool, is_active: bool | None) -> User:
        """Remove the user's number, and deactivate or reactivate the user, if that is asked for."""
        users, clock = self.writer.users, self.writer.clock
        if has_no_number:
            put = await users.release_phone(put.user, clock.now()) or put
        if is_active is not None:
            put = await users.set_active(put.user, is_active, clock.now()) or put
        return put

    async def _wanted_before(self, user: UserKey) -> User | None:
        """Return the user as it is before the change; None if no webhook wants to know what the
        change revokes, or if there is no such user."""
        if not self.events.is_wanted(tenant_of(user), "session.revoked"):
            return None
        return await self.writer.users.get(user)


class ListUsers(msgspec.Struct, frozen=True):
    """List the users of a tenant."""

    tenants: Tenants
    users: UserStore
    cursors: Cursors

    async def __call__(
        self, caller: Caller, tenant: str, prefix: str, cursor: str | None, limit: int
    ) -> tuple[list[User], str | None]:
        """Return a page of the users whose ids begin with `prefix`, and the cursor of the next.

        Raises:
            Invalid: No user id can begin with this prefix.
            CursorInvalid: The cursor is not for this list.
        """
        owner = await listing_owner(self.tenants, caller, tenant)
        if USER_PREFIX.fullmatch(prefix) is None:
            raise Invalid("prefix must be up to 64 characters of A-Z a-z 0-9 . _ @ + -", "/prefix")
        purpose = f"users {prefix}"
        after = self.cursors.position(purpose, owner, cursor)
        page = await self.users.by_id(tenant, prefix=prefix, after=after, limit=limit)
        return page.rows, self.cursors.after(purpose, owner, page.end)


class GetUser(msgspec.Struct, frozen=True):
    """Return a user to the tenant."""

    tenants: Tenants
    users: UserStore

    async def __call__(self, caller: Caller, tenant: str, user_id: str) -> User:
        """Return the user.

        Raises:
            UserNotFound: The tenant has no such user, or the user is deleted.
        """
        await listing_owner(self.tenants, caller, tenant)
        if USER.fullmatch(user_id) is None:
            raise UserNotFound
        return await existing(self.users, user_key(tenant, user_id))


class EraseUserContent(msgspec.Struct, frozen=True):
    """Destroy the data keys of a user, so that everything the user wrote is shown as `erased`.

    The user's devices get no more push notices until they register again.
    """

    users: UserStore
    vault: Vault
    erasures: Erasures
    uploads: Uploads
    push: PushStore
    clock: Clock

    async def __call__(self, caller: Caller, tenant: str, user_id: str) -> int:
        """Destroy the user's data key; return 1, or 0 if there was none. The user remains and may
        write again."""
        require_tenant(caller, tenant)
        if USER.fullmatch(user_id) is None:
            raise UserNotFound
        user = await self.users.get(user_key(tenant, user_id))
        if user is None:
            raise UserNotFound
        if user.deleted_at is not None:
            raise UserDeleted
        async with self.erasures.recorded("content", user.user):
            # The files are unreadable with the key. Soon afterwards, their bytes are deleted.
            await self.uploads.visit_all(user.user, self.clock.now() + ERASED_FILES_MS)
            for device in await self.push.of(user.user):
                await self.push.remove(user.user, device.device, self.clock.now())
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


def check_profile(display_name: str | None, fields: ProfileFields) -> None:
    """Refuse a bad name, an avatar that is no https address, large metadata, or a bad e-mail."""
    if display_name is not None:
        check_visible_text("display_name", display_name)
    avatar, metadata, email = fields.avatar_url, fields.metadata, fields.email
    if isinstance(avatar, str) and not _is_web_address(avatar):
        raise Invalid(
            "avatar_url must be an https address of at most"
            f" {limits.AVATAR_URL_CHARS_MAX} characters",
            "/avatar_url",
        )
    if isinstance(metadata, str) and len(metadata.encode()) > limits.METADATA_BYTES_MAX:
        raise Invalid(f"metadata must be at most {limits.METADATA_BYTES_MAX} bytes", "/metadata")
    if isinstance(email, str) and EMAIL.fullmatch(email) is None:
        raise Invalid("email must be an e-mail address, such as ann@example.org", "/email")


async def without_known_email(
    users: UserStore, user: UserKey, fields: ProfileFields
) -> ProfileFields:
    """Leave out an unusual e-mail address that the user has already.

    It is from before addresses were checked strictly, and may be sent back with other fields.
    """
    if isinstance(fields.email, str) and EMAIL.fullmatch(fields.email) is None:
        found = await users.get(user)
        if found is not None and found.email == fields.email:
            return msgspec.structs.replace(fields, email=msgspec.UNSET)
    return fields


def _is_web_address(text: str) -> bool:
    """Return True if the text is an absolute https address without a user name."""
    if len(text) > limits.AVATAR_URL_CHARS_MAX or _PLAIN.fullmatch(text) is None:
        return False
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  # raises if the port is no number
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc


async def existing(users: UserStore, user: UserKey) -> User:
    """Return the user.

    Raises:
        UserNotFound: There is no such user.
    """
    found = await users.get(user)
    if found is None or found.deleted_at is not None:
        raise UserNotFound
    return found
