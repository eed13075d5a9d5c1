# SPDX-License-Identifier: Apache-2.0
"""Tenants, their keys, and their users."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.audit import AuditEntry
from tidings.model.ids import UserKey


class Quotas(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tenant may use; None: as much as it likes."""

    users: int | None = None
    chats_per_day: int | None = None
    messages_per_day: int | None = None


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A customer of the deployment."""

    tenant: str
    name: str | None
    created_at: int
    suspended_at: int | None = None
    """While this is set, nothing of the tenant's counts: no key, no token, no login."""
    quotas: Quotas = Quotas()


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


class TokenIssuer(msgspec.Struct, frozen=True, kw_only=True):
    """Public keys with which a tenant signs its users' tokens itself, as a JWK Set."""

    tenant: str
    issuer: str | None
    """What their `iss` has to say; None: nothing in particular."""
    document: bytes
    """The set as JSON, checked before it was kept."""
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
    """While this is set the user can do nothing; to others it looks as before."""
    revoked_at: int | None = None
    """Tokens and sessions made up to this moment do not count any more."""


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

    async def set_suspended(self, tenant: str, is_suspended: bool, now: int) -> Tenant | None:
        """Suspend it, together with an entry in the feed, or let it go on; None if there is none.

        A tenant that is suspended already stays so since then, without another entry.
        """
        ...

    async def set_quotas(self, tenant: str, quotas: Quotas) -> Tenant | None:
        """Replace its quotas; None if there is no such tenant."""
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

    async def add_signing_key(self, key: SigningKey, most: int) -> bool:
        """Keep another one, which signs from now on; False if there are so many, or no tenant.

        Two that are added at once may end up one above the most.
        """
        ...

    async def remove_signing_key(self, tenant: str, key_id: str, now: int) -> bool:
        """Forget an older one, together with an entry in the feed: tokens it signed are void.

        False if there is no such key, or if it is the newest, which signs.
        """
        ...

    async def issuer(self, tenant: str) -> TokenIssuer | None:
        """The tenant's own public keys; None if it has registered none. Read strongly."""
        ...

    async def put_issuer(self, issuer: TokenIssuer, removed: Sequence[str]) -> None:
        """Replace them, together with an entry in the feed for each key id that is removed."""
        ...

    async def remove_issuer(self, tenant: str, removed: Sequence[str], now: int) -> bool:
        """Forget them, likewise; False if there were none."""
        ...

    async def signing_keys_wrapped_by_others(
        self, master_key_id: str, limit: int
    ) -> list[SigningKey]:
        """Some signing keys that another master key wraps; empty when there are none left."""
        ...

    async def rewrap_signing_keys(self, keys: list[SigningKey]) -> None:
        """Replace the wrapping of keys that are still there; others are passed over."""
        ...


class UserStore(Protocol):
    """Users and their profiles. Every write is durable when it returns."""

    async def put(
        self, user: UserKey, *, display_name: str | None, phone_number: str | None, now: int
    ) -> tuple[User, bool]:
        """Create or update a user; None leaves a field as it is. True if the user is new.

        A phone number is claimed for the user within its tenant, and the one before is let go,
        together with the change. If there was another one before, all that the user was given is
        revoked with it, as by `revoke_tokens`.

        Raises:
            PhoneTaken: The number is another user's; nothing was changed.
        """
        ...

    async def by_phone(self, tenant: str, numbers: Sequence[str]) -> Mapping[str, UserKey]:
        """Whose these numbers are, as far as they are somebody's in the tenant; read strongly."""
        ...

    async def with_phone(self, user: UserKey, phone_number: str, now: int) -> tuple[User, bool]:
        """The user whose number it is; if it is nobody's, `user` is made with it. True if new.

        However many ask at once, all get the same user.
        """
        ...

    async def release_phone(self, user: UserKey, now: int) -> User | None:
        """Let the user's number go and, if there was one, revoke as by `revoke_tokens` with it.

        None if there is no such user.
        """
        ...

    async def set_active(self, user: UserKey, is_active: bool, now: int) -> User | None:
        """Deactivate the user and revoke as by `revoke_tokens` with it, or let the user go on.

        None if there is no such user. One that is deactivated stays so since then. Who goes on
        needs new tokens and sessions.
        """
        ...

    async def revoke_tokens(self, user: UserKey, now: int) -> bool:
        """What the user was given up to now counts no more, together with an entry in the feed.

        `revoked_at` becomes now, or the start of the second after the one it was, if that is
        later: so a token is covered that was made after the last revocation and dated ahead. That
        is also the time of the entry. False if there is no such user.
        """
        ...

    async def get(self, user: UserKey) -> User | None:
        """One user."""
        ...

    async def missing(self, users: Sequence[UserKey]) -> list[UserKey]:
        """Of these users, those that do not exist, in the order given."""
        ...

    async def peers(self, user: UserKey) -> Mapping[UserKey, int | None]:
        """Who shares a small chat with the user, with when each was last seen.

        Those from the oldest chats, and no more than `PRESENCE_PEERS_MAX`: whoever puts somebody
        into many new groups does not take their peers away.
        """
        ...

    async def about_how_many(self, tenant: str) -> int:
        """About how many users a tenant has; may be off."""
        ...

    def seen(self, users: Mapping[UserKey, int]) -> None:
        """Keep when these users were last seen, soon, best effort."""
        ...


Place = tuple[int, str]
"""When an entry was begun, and its id."""


class AuditLog(Protocol):
    """Entries by time."""

    async def append(self, entry: AuditEntry) -> None:
        """Keep an entry; durable when it returns."""
        ...

    async def complete(self, entry: AuditEntry) -> None:
        """Add outcome, code and target to an entry that has no outcome yet; else nothing."""
        ...

    async def page(
        self, tenant: str | None, *, since: int, before: Place, limit: int
    ) -> list[AuditEntry]:
        """Entries from `since` on and below a place, newest first: a tenant's, or all.

        All of them may lack those of the last second.
        """
        ...
