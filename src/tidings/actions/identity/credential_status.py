# SPDX-License-Identifier: Apache-2.0
"""Whether credentials still count: asked of the store at first sight, told by the feed later."""

from collections.abc import Sequence
from typing import Final

from tidings.actions.identity.caller import UserCaller
from tidings.actions.identity.feed_cache import FeedBackedCache
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.revocation_watch import RevocationIndex, RevocationWatch
from tidings.actions.identity.users import ensure_user
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import LimitReached
from tidings.ports.people import Tenants, UserStore
from tidings.ports.sessions import Revocation, Sessions, StoredCredentials
from tidings.ports.world import Clock

CACHED_TENANTS_MAX: Final = 10_000
CACHED_TENANT_KEYS_MAX: Final = 10_000


class CredentialStatus:
    """What the store says about tenants, tenant keys, users and sessions, read strongly.

    Only that a tenant or a tenant key counts is remembered: the feed does not tell when one that
    did not count does so again.
    """

    def __init__(
        self,
        tenants: Tenants,
        users: UserStore,
        sessions: Sessions,
        clock: Clock,
        watch: RevocationWatch,
        quotas: TenantQuotas | None = None,
    ) -> None:
        self._tenants = tenants
        self._users = users
        self._sessions = sessions
        self._clock = clock
        self._watch = watch
        self._quotas = quotas
        self._good_tenants: FeedBackedCache[bool] = FeedBackedCache(watch, CACHED_TENANTS_MAX)
        self._good_keys: FeedBackedCache[bool] = FeedBackedCache(watch, CACHED_TENANT_KEYS_MAX)
        watch.listen(self._revoked)

    async def is_tenant_active(self, tenant: str) -> bool:
        """Whether there is such a tenant and it is not suspended.

        Raises:
            StoreUnavailable: The store cannot tell now.
        """
        if self._good_tenants.get(tenant):
            return True
        place = self._watch.place
        found = await self._tenants.get(tenant)
        if found is None or found.suspended_at is not None:
            return False
        self._good_tenants.keep(tenant, True, place)
        return True

    async def is_token_valid(self, caller: UserCaller) -> bool:
        """Whether a token that was found in order counts. Its user is made if there is none.

        Raises:
            StoreUnavailable: The store cannot tell now.
        """
        tenant = tenant_of(caller.user)
        if not await self.is_tenant_active(tenant):
            return False
        if caller.made_by is not None and not await self._is_key_valid(tenant, caller.made_by):
            return False
        standing = await self._sessions.standing(caller.user, caller.session)
        if not _is_valid(caller, standing, self._clock.now()):
            return False
        if not standing.is_known:
            return await self._meet(caller.user)
        return True

    async def _meet(self, user: UserKey) -> bool:
        """Make a user of whom nothing was heard yet; False if the tenant may have no more."""
        try:
            await ensure_user(self._users, user, self._clock.now(), self._quotas)
        except LimitReached:
            return False
        return True

    async def _is_key_valid(self, tenant: str, key_id: str) -> bool:
        if self._good_keys.get(key_id):
            return True
        place = self._watch.place
        found = await self._tenants.find_key(key_id)
        if found is None or found.revoked_at is not None or found.tenant != tenant:
            return False
        self._good_keys.keep(key_id, True, place)
        return True

    def _revoked(self, revocations: Sequence[Revocation]) -> None:
        """Forget the tenants and tenant keys that these name."""
        ended = RevocationIndex(revocations)
        for tenant in ended.tenants:
            self._good_tenants.forget(tenant)
        for key_id in ended.tenant_keys:
            self._good_keys.forget(key_id)


def _is_valid(caller: UserCaller, standing: StoredCredentials, now: int) -> bool:
    if caller.session is not None:
        return is_session_valid(caller.user, standing, now)
    # Such a token may be the first that is heard of a user.
    return not standing.is_known or is_user_valid(standing, caller.issued_at)


def is_session_valid(user: UserKey, standing: StoredCredentials, now: int) -> bool:
    """Whether the session that was looked for is the user's and has not ended."""
    session = standing.session
    return (
        session is not None
        and session.user == user
        and session.revoked_at is None
        and now < session.expires_at
        and is_user_valid(standing, session.created_at)
    )


def is_user_valid(standing: StoredCredentials, given_at: int) -> bool:
    """Whether there is such a user, and what the user was given at that time counts."""
    revoked_at = -1 if standing.revoked_at is None else standing.revoked_at
    return standing.is_known and standing.deactivated_at is None and given_at > revoked_at
