# SPDX-License-Identifier: Apache-2.0
"""Tenants, their keys, and their users."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.ids import UserKey


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A customer of the deployment."""

    tenant: str
    name: str | None
    created_at: int


class TenantKey(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant key, as it is kept: never the key itself."""

    key_id: str
    tenant: str
    digest: bytes
    """SHA-256 of the whole key as the tenant holds it."""
    created_at: int
    revoked_at: int | None = None


class SigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """An Ed25519 key that signs a tenant's user tokens; the private half is sealed."""

    key_id: str
    tenant: str
    public: bytes
    sealed_private: bytes
    master_key_id: str
    created_at: int


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user of a tenant."""

    user: UserKey
    display_name: str | None
    phone_number: str | None
    created_at: int
    updated_at: int
    last_seen_at: int | None = None


class Tenants(Protocol):
    """Tenants with their API keys and signing keys. Every write is durable when it returns."""

    async def put(self, tenant: Tenant, signing: SigningKey) -> tuple[Tenant, bool]:
        """Create the tenant with its first signing key, or, if it is there, update its name.

        Returns the tenant as it is now and whether it is new. A name of None changes nothing.
        """
        ...

    async def get(self, tenant: str) -> Tenant | None:
        """One tenant."""
        ...

    async def add_key(self, key: TenantKey) -> bool:
        """Keep a new key; False if there is no such tenant."""
        ...

    async def revoke_key(self, tenant: str, key_id: str, now: int) -> bool:
        """Make a key useless for ever; False if the tenant has no such key in use."""
        ...

    async def find_key(self, key_id: str) -> TenantKey | None:
        """A key by its id, revoked or not; read strongly."""
        ...

    async def signing_keys(self, tenant: str) -> list[SigningKey]:
        """The tenant's signing keys, newest first: the first signs, all verify."""
        ...

    async def signing_keys_wrapped_by_others(
        self, master_key_id: str, limit: int
    ) -> list[SigningKey]:
        """Some signing keys that another master key wraps; empty when there are none left."""
        ...

    async def rewrap_signing_keys(self, keys: list[SigningKey]) -> None:
        """Replace the wrapping of keys that are still there; others are passed over."""
        ...


class Users(Protocol):
    """Users and their profiles. Every write is durable when it returns."""

    async def put(
        self, user: UserKey, *, display_name: str | None, phone_number: str | None, now: int
    ) -> tuple[User, bool]:
        """Create or update a user; None leaves a field as it is. True if the user is new."""
        ...

    async def get(self, user: UserKey) -> User | None:
        """One user."""
        ...

    async def missing(self, users: Sequence[UserKey]) -> list[UserKey]:
        """Of these users, those that do not exist, in the order given."""
        ...

    async def peers(self, user: UserKey) -> Mapping[UserKey, int | None]:
        """Everyone who shares a small chat with the user, with when each was last seen."""
        ...

    async def about_how_many(self, tenant: str) -> int:
        """About how many users a tenant has; may be off."""
        ...

    def seen(self, users: Mapping[UserKey, int]) -> None:
        """Keep when these users were last seen, soon, best effort."""
        ...
