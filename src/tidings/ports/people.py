# SPDX-License-Identifier: Apache-2.0
"""Ports for tenants with their keys and quotas, and for users."""

from collections.abc import Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from tidings.model.ids import UserKey

T = TypeVar("T")


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """Part of a list."""

    rows: list[T]
    end: str | None = None
    """Position of the last row, which the next part follows; None if nothing follows."""


def creation_position(created_at: int, name: str) -> str:
    """Return the position of a row in a list that is sorted by creation time."""
    return f"{created_at:015d}#{name}"


class Quotas(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits on a tenant's users, new chats, messages and uploads; None means no limit."""

    users: int | None = None
    chats_per_day: int | None = None
    messages_per_day: int | None = None
    attachment_bytes_per_day: int | None = None


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A customer of the deployment."""

    tenant: str
    name: str | None
    created_at: int
    suspended_at: int | None = None
    """While this is set, no key, token or login of the tenant is valid."""
    quotas: Quotas = Quotas()
    deleted_at: int | None = None
    """If this is set, the tenant is deleted for good, and soon only this mark is left."""


class TenantKey(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant key as it is stored: a digest, never the key itself."""

    key_id: str
    tenant: str
    digest: bytes
    """SHA-256 of the whole key as the tenant has it."""
    created_at: int
    revoked_at: int | None = None


class SigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """An Ed25519 key that signs a tenant's user tokens; its private half is encrypted."""

    key_id: str
    tenant: str
    public: bytes
    sealed_private: bytes
    master_key_id: str
    created_at: int


class TokenIssuer(msgspec.Struct, frozen=True, kw_only=True):
    """Public keys for the tokens that a tenant signs for its users itself, as a JWK Set."""

    tenant: str
    issuer: str | None
    """Value that the tokens must have as `iss`; None if any value is accepted."""
    document: bytes
    """The JWK Set as JSON, checked before it was stored."""
    updated_at: int


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user of a tenant."""

    user: UserKey
    display_name: str | None
    phone_number: str | None
    created_at: int
    updated_at: int
    last_seen_at: int | None = None
    deactivated_at: int | None = None
    """While this is set, the user has no access; other users see no difference."""
    revoked_at: int | None = None
    """Tokens and sessions made up to this moment are not valid."""
    avatar_url: str | None = None
    metadata: str | None = None
    """A JSON object."""
    email: str | None = None
    phone_verified_at: int | None = None
    """When the user proved the phone number with a login code; None if the tenant set it."""
    hidden_at: int | None = None
    """While this is set, nobody sees when the user is or was online, and the user does not see this
    of others."""
    deleted_at: int | None = None
    """If this is set, the user is deleted for good, and only this mark is left."""
    banned_until: int | None = None
    """Until this time, the user can read, but not write."""


class ProfileFields(msgspec.Struct, frozen=True, kw_only=True):
    """New values of a user's fields; None removes a value, and absent fields do not change."""

    avatar_url: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: str | msgspec.UnsetType | None = msgspec.UNSET
    email: str | msgspec.UnsetType | None = msgspec.UNSET
    hidden_at: int | msgspec.UnsetType | None = msgspec.UNSET

    def changes(self) -> dict[str, str | int | None]:
        """Return the fields that are present."""
        given = msgspec.structs.asdict(self)
        return {name: value for name, value in given.items() if value is not msgspec.UNSET}


NO_FIELDS: Final = ProfileFields()


class Tenants(Protocol):
    """Stores tenants with their tenant keys and signing keys. Writes are durable when they
    return."""

    async def put(self, tenant: Tenant, signing: SigningKey) -> tuple[Tenant, bool]:
        """Create the tenant with its first signing key, or, if it exists, update its name.

        Returns the tenant in its new state and whether it is new. A name of None changes nothing.

        Raises:
            TenantDeleted: The tenant is deleted.
        """
        ...

    async def get(self, tenant: str) -> Tenant | None:
        """Return a tenant."""
        ...

    async def set_suspended(self, tenant: str, is_suspended: bool, now: int) -> Tenant | None:
        """Suspend or resume a tenant; return None if there is no such tenant.

        A suspension is also appended to the revocation feed. Suspending a suspended tenant changes
        nothing.
        """
        ...

    async def set_quotas(self, tenant: str, quotas: Quotas) -> Tenant | None:
        """Replace a tenant's quotas; return None if there is no such tenant."""
        ...

    async def add_key(self, key: TenantKey) -> bool:
        """Store a new tenant key; return False if there is no such tenant."""
        ...

    async def revoke_key(self, tenant: str, key_id: str, now: int) -> bool:
        """Revoke a tenant key for good; return False if the tenant has no such valid key."""
        ...

    async def find_key(self, key_id: str) -> TenantKey | None:
        """Return a tenant key by its id, even if it is revoked, from a strong read."""
        ...

    async def newest(self, *, below: str | None, limit: int) -> Listed[Tenant]:
        """Return tenants, newest first, from the top or below a position, from a strong read.

        Deleted tenants are left out.
        """
        ...

    async def newest_keys(self, tenant: str, *, below: str | None, limit: int) -> Listed[TenantKey]:
        """Return a tenant's keys, including revoked ones, newest first, from a strong read."""
        ...

    async def signing_keys(self, tenant: str) -> list[SigningKey]:
        """Return the tenant's signing keys, newest first: the first signs, all verify."""
        ...

    async def add_signing_key(self, key: SigningKey, most: int) -> bool:
        """Store a signing key. From now on it signs the tenant's tokens.

        Returns False if there is no such tenant or it has `most` keys already. Two keys added at
        the same moment may exceed the limit by one.
        """
        ...

    async def remove_signing_key(self, tenant: str, key_id: str, now: int) -> bool:
        """Remove a signing key that is not the newest, and append it to the revocation feed.

        The tokens that it signed become invalid. Returns False if there is no such key, or if it is
        the newest key, which signs new tokens.
        """
        ...

    async def issuer(self, tenant: str) -> TokenIssuer | None:
        """Return the tenant's own public keys, from a strong read; None if it registered none."""
        ...

    async def put_issuer(
        self, issuer: TokenIssuer, before: TokenIssuer | None, removed: Sequence[str]
    ) -> bool:
        """Replace the tenant's own public keys, which were `before` until now; None for none.

        Each removed id is appended to the revocation feed. Return False, and change nothing, if
        other keys are stored by now: then other ids may have to be removed.
        """
        ...

    async def remove_issuer(self, before: TokenIssuer, removed: Sequence[str], now: int) -> bool:
        """Remove the tenant's own public keys, as `put_issuer` replaces them."""
        ...

    async def signing_keys_wrapped_by_others(
        self, master_key_id: str, limit: int
    ) -> list[SigningKey]:
        """Return some signing keys that are wrapped by another master key than this one; an empty
        list if none is left."""
        ...

    async def rewrap_signing_keys(self, keys: list[SigningKey]) -> None:
        """Store signing keys that were wrapped again; skip those that no longer exist."""
        ...


class UserStore(Protocol):
    """Stores users and their profiles. Every write is durable when it returns."""

    async def put(
        self,
        user: UserKey,
        *,
        display_name: str | None,
        phone_number: str | None,
        now: int,
        fields: ProfileFields = NO_FIELDS,
    ) -> tuple[User, bool]:
        """Create or update a user; a name or number that is None is not changed.

        If no value changes, `updated_at` does not change either.

        Returns the user and whether the user is new. The same transaction claims the phone number
        within the tenant. If the user had a different number before, the transaction also releases
        that number and revokes the user's tokens and sessions, as `revoke_tokens` does. A new
        number is not verified.

        Raises:
            PhoneTaken: The number belongs to another user; nothing was changed.
            UserDeleted: The user is deleted.
        """
        ...

    async def by_phone(self, tenant: str, numbers: Sequence[str]) -> Mapping[str, UserKey]:
        """Return the user of each number, from a strong read; unknown numbers are omitted."""
        ...

    async def with_phone(self, user: UserKey, phone_number: str, now: int) -> tuple[User, bool]:
        """Return the user who has this number, or create `user` with this number, verified.

        Also returns True if the user is new, False if not. All callers that do this at the same
        moment get the same user.
        """
        ...

    async def verify_phone(self, user: UserKey, phone_number: str, now: int) -> None:
        """Record that the user proved the number, unless the user has another number by now."""
        ...

    async def release_phone(self, user: UserKey, now: int) -> User | None:
        """Release the user's phone number; return None if there is no such user.

        If there was a number, the same transaction also revokes the user's tokens and sessions, as
        `revoke_tokens` does.
        """
        ...

    async def set_active(self, user: UserKey, is_active: bool, now: int) -> User | None:
        """Deactivate or reactivate the user; return None if there is no such user.

        Deactivating also revokes the user's tokens and sessions, as `revoke_tokens` does, in the
        same transaction, so a reactivated user needs new ones. Deactivating a deactivated user does
        not change `deactivated_at`.
        """
        ...

    async def ban(self, user: UserKey, until: int | None, now: int) -> User | None:
        """Ban the user until a time, or end the ban; return None if there is no such user.

        The same transaction appends a revocation of kind `ban` to the revocation feed.
        """
        ...

    async def revoke_tokens(self, user: UserKey, now: int) -> bool:
        """Revoke all tokens and sessions that the user has; return False if there is no such user.

        The user's `revoked_at` becomes `now` or, if that is later, the start of the second after
        its old value. The reason is that a token made right after the last revocation is dated to
        the next full second, and must be revoked too. The revocation is also appended to the
        revocation feed, with the same time.
        """
        ...

    async def get(self, user: UserKey) -> User | None:
        """Return a user; of a deleted user, only the id and `deleted_at` are left."""
        ...

    async def get_all(self, users: Sequence[UserKey]) -> Mapping[UserKey, User]:
        """Return the users among these that exist and are not deleted, by their keys."""
        ...

    async def by_id(
        self, tenant: str, *, prefix: str, after: str | None, limit: int
    ) -> Listed[User]:
        """Return a tenant's users whose ids begin with `prefix`, by id and without deleted ones.

        The list starts after the id `after`. A user whose creation was answered is in the list;
        profiles may be a moment old.
        """
        ...

    async def missing(self, users: Sequence[UserKey]) -> list[UserKey]:
        """Return the users among these that do not exist, in the given order.

        Raises:
            UserDeleted: One of the users is deleted.
        """
        ...

    async def peers(self, user: UserKey) -> Sequence[UserKey]:
        """Return the users who share a small chat with the user.

        At most `PRESENCE_PEERS_MAX` are returned, from the user's oldest chats. Therefore, adding
        the user to many new groups does not displace earlier peers.
        """
        ...

    async def visible_peers(self, user: UserKey) -> Mapping[UserKey, int | None]:
        """Return the peers who exchange presence with the user, and when each was last seen.

        Peers who hide their presence are left out. If the user hides their own presence, the result
        is empty.
        """
        ...

    async def about_how_many(self, tenant: str) -> int:
        """Return roughly how many users a tenant has."""
        ...

    def seen(self, users: Mapping[UserKey, int]) -> None:
        """Store when these users were last seen, in the background and with best effort."""
        ...
