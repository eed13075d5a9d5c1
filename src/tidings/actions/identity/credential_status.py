# SPDX-License-Identifier: Apache-2.0
"""Check whether credentials are valid; cache the result until the revocation feed names them."""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from tidings.actions.identity.bans import Bans
from tidings.actions.identity.caller import UserCaller
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.revocation_watch import RevocationIndex, RevocationWatch
from tidings.actions.identity.users import ensure_user
from tidings.caches import LruCache
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import LimitReached
from tidings.ports.people import Tenants, UserStore
from tidings.ports.sessions import Revocation, Sessions, StoredCredentials
from tidings.ports.world import Clock

T = TypeVar("T")

CACHED_TENANTS_MAX: Final = 10_000
CACHED_TENANT_KEYS_MAX: Final = 10_000


class FeedBackedCache(Generic[T]):
    """Caches a bounded number of values by name; the least recently used are evicted first.

    Its owner listens to the revocation feed, and must call `forget` for each name that the feed
    reports. Then `get` never returns a value after its revocation was reported.
    """

    def __init__(self, watch: RevocationWatch, most: int) -> None:
        self._watch = watch
        self._values: LruCache[str, T] = LruCache(most)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str) -> T | None:
        """Return the cached value; None if there is none, and also while the revocation feed cannot
        be read."""
        # Several caches are asked about every message, so this calls neither `sees` nor `get`.
        value = self._values.peek(name)
        if value is None or self._watch.now() > self._watch.sees_until:
            return None
        self._values.touch(name)
        return value

    def peek(self, name: str) -> T | None:
        """Return the cached value, even while the revocation feed cannot be read. The value may be
        revoked already."""
        return self._values.get(name)

    def keep(self, name: str, value: T, position: int) -> None:
        """Cache a value that was read after the revocation feed was read up to this position.

        Do nothing if the feed was read further since then: this name may have been reported
        meanwhile, and each revocation is reported only once.
        """
        if position == self._watch.position:
            self._values.put(name, value)

    def forget(self, name: str) -> None:
        """Remove the value with this name from the cache, so that its next use reads the store."""
        self._values.pop(name)


class CredentialStatus:
    """Checks whether tenants, tenant keys, users and sessions are valid, with strong reads.

    Only valid tenants and tenant keys are cached, because the revocation feed does not report when
    an invalid tenant becomes valid again.
    """

    def __init__(
        self,
        tenants: Tenants,
        users: UserStore,
        sessions: Sessions,
        clock: Clock,
        watch: RevocationWatch,
        quotas: TenantQuotas | None = None,
        bans: Bans | None = None,
    ) -> None:
        self._tenants = tenants
        self._users = users
        self._sessions = sessions
        self._clock = clock
        self._watch = watch
        self._quotas = quotas
        self._bans = bans
        self._valid_tenants: FeedBackedCache[bool] = FeedBackedCache(watch, CACHED_TENANTS_MAX)
        self._valid_keys: FeedBackedCache[bool] = FeedBackedCache(watch, CACHED_TENANT_KEYS_MAX)
        watch.listen(self._revoked)

    async def is_tenant_active(self, tenant: str) -> bool:
        """Return True if the tenant exists and is not suspended.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        if self._valid_tenants.get(tenant):
            return True
        position = self._watch.position
        found = await self._tenants.get(tenant)
        if found is None or found.suspended_at is not None:
            return False
        self._valid_tenants.keep(tenant, True, position)
        return True

    async def is_user_active(self, user: UserKey, issued_at: int) -> bool:
        """Return True if a credential that the user got at `issued_at` is still valid: the tenant
        and the user are active, and the user's credentials were not revoked since.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        if not await self.is_tenant_active(tenant_of(user)):
            return False
        return is_user_valid(await self._sessions.stored_credentials(user, None), issued_at)

    async def is_token_valid(self, caller: UserCaller) -> bool:
        """Return True if a token with a verified signature is valid.

        If the token is valid and its user does not exist yet, the user is created.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        tenant = tenant_of(caller.user)
        if not await self.is_tenant_active(tenant):
            return False
        if caller.made_by is not None and not await self._is_key_valid(tenant, caller.made_by):
            return False
        stored = await self.stored(caller.user, caller.session)
        if not _is_valid(caller, stored, self._clock.now()):
            return False
        if not stored.is_known:
            return await self._create_user(caller.user)
        return True

    async def stored(self, user: UserKey, session: str | None) -> StoredCredentials:
        """Read the user's credentials, and note a ban, unless the revocation feed was read
        meanwhile: it may have reported the end of the ban."""
        while True:
            position = self._watch.position
            stored = await self._sessions.stored_credentials(user, session)
            if self._bans is None or not stored.banned_until:
                return stored
            if position == self._watch.position:
                self._bans.learn(user, stored.banned_until)
                return stored

    async def _create_user(self, user: UserKey) -> bool:
        """Create the user; return False if the tenant has reached its quota of users."""
        try:
            await ensure_user(self._users, user, self._clock.now(), self._quotas)
        except LimitReached:
            return False
        return True

    async def _is_key_valid(self, tenant: str, key_id: str) -> bool:
        if self._valid_keys.get(key_id):
            return True
        position = self._watch.position
        found = await self._tenants.find_key(key_id)
        if found is None or found.revoked_at is not None or found.tenant != tenant:
            return False
        self._valid_keys.keep(key_id, True, position)
        return True

    def _revoked(self, revocations: Sequence[Revocation]) -> None:
        """Remove the revoked tenants and tenant keys from the cache."""
        ended = RevocationIndex(revocations)
        for tenant in ended.tenants:
            self._valid_tenants.forget(tenant)
        for key_id in ended.tenant_keys:
            self._valid_keys.forget(key_id)


def _is_valid(caller: UserCaller, stored: StoredCredentials, now: int) -> bool:
    if caller.session is not None:
        return is_session_valid(caller.user, stored, now)
    # A token without a session may belong to a user who does not exist yet.
    return not stored.is_known or is_user_valid(stored, caller.issued_at)


def is_session_valid(user: UserKey, stored: StoredCredentials, now: int) -> bool:
    """Return True if the session in `stored` belongs to the user and has not ended."""
    session = stored.session
    return (
        session is not None
        and session.user == user
        and session.revoked_at is None
        and now < session.expires_at
        and is_user_valid(stored, session.created_at)
    )


def is_user_valid(stored: StoredCredentials, issued_at: int) -> bool:
    """Return True if the user is active, and credentials issued at `issued_at` are not revoked."""
    revoked_at = -1 if stored.revoked_at is None else stored.revoked_at
    return stored.is_known and stored.deactivated_at is None and issued_at > revoked_at
