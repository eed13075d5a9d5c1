# SPDX-License-Identifier: Apache-2.0
"""Find the push settings of tenants and the registered devices of users, and cache both.

Tokens, subscriptions and credentials are stored encrypted with a secret of the deployment. They are
opened only to send a notice.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.credential_status import FeedBackedCache
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.model.ids import UserKey
from tidings.model.push import ContentRule, PushRegistration, PushSettings
from tidings.model.refusals import CursorInvalid
from tidings.ports.push import PushCredentials, PushStore, PushTarget
from tidings.ports.sessions import Revocation

TENANTS_MAX: Final = 10_000
USERS_MAX: Final = 50_000
"""Number of tenants and users that are cached."""
BOX_CHARS_MAX: Final = 64 * 1024
_TARGET: Final = "push target"
_CREDENTIALS: Final = "push credentials"

_targets = msgspec.json.Decoder(PushTarget)
_credentials = msgspec.json.Decoder(dict[str, dict[str, object]])


class TenantPush(msgspec.Struct, frozen=True):
    """The push settings of a tenant, with the credentials of its providers."""

    content: ContentRule = "none"
    credentials: Mapping[str, PushCredentials] = {}
    updated_at: int | None = None
    """None if the tenant has never set anything."""


class PushSeal:
    """Encrypts and decrypts what is stored for push."""

    def __init__(self, cipher: Cursors) -> None:
        self._cipher = cipher

    def seal_target(self, user: UserKey, target: PushTarget) -> str:
        """Encrypt the token or the subscription of a user's device."""
        return self._cipher.seal(_TARGET, user, msgspec.json.encode(target))

    def open_target(self, registration: PushRegistration) -> PushTarget | None:
        """Return the target of a device; None if it was changed after it was stored."""
        text = self._open(_TARGET, registration.user_id, registration.box)
        return None if text is None else _targets.decode(text)

    def seal_credentials(self, tenant: str, credentials: Mapping[str, PushCredentials]) -> str:
        """Encrypt the credentials of a tenant's providers."""
        return self._cipher.seal(_CREDENTIALS, UserKey(tenant), msgspec.json.encode(credentials))

    def open_credentials(self, settings: PushSettings) -> Mapping[str, PushCredentials]:
        """Return the credentials; none if they were changed after they were stored."""
        text = self._open(_CREDENTIALS, UserKey(settings.tenant), settings.box)
        return {} if text is None else _credentials.decode(text)

    def _open(self, purpose: str, owner: UserKey, box: str) -> bytes | None:
        try:
            return self._cipher.open(purpose, owner, box, chars_max=BOX_CHARS_MAX)
        except CursorInvalid:
            return None


class PushDirectory:
    """Caches settings and registrations, which the revocation feed keeps current.

    Both are read once; then a process learns of changes within seconds from the feed.
    """

    def __init__(self, store: PushStore, watch: RevocationWatch, seal: PushSeal) -> None:
        self._store = store
        self._watch = watch
        self._seal = seal
        self._tenants: FeedBackedCache[TenantPush] = FeedBackedCache(watch, TENANTS_MAX)
        self._users: FeedBackedCache[tuple[PushRegistration, ...]] = FeedBackedCache(
            watch, USERS_MAX
        )
        watch.listen(self._reported)

    def is_off(self, tenant: str) -> bool:
        """Return True if it is known, without a read, that the tenant has no provider."""
        found = self._tenants.get(tenant)
        return found is not None and not found.credentials

    async def tenant(self, tenant: str) -> TenantPush:
        """Return the settings of a tenant, from the cache or the store.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        found = self._tenants.get(tenant)
        if found is None:
            position = self._watch.position
            stored = await self._store.settings(tenant)
            found = self.opened(stored)
            self._tenants.keep(tenant, found, position)
        return found

    async def devices(self, user: UserKey) -> tuple[PushRegistration, ...]:
        """Return the registered devices of a user, from the cache or the store.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        found = self._users.get(user)
        if found is None:
            position = self._watch.position
            found = tuple(await self._store.of(user))
            self._users.keep(user, found, position)
        return found

    def changed(self, name: str) -> None:
        """Drop a user or a tenant from the cache, because this process has changed their push
        data."""
        self._tenants.forget(name)
        self._users.forget(name)

    def opened(self, stored: PushSettings | None) -> TenantPush:
        """Return stored settings with their credentials decrypted; None stands for the defaults."""
        if stored is None:
            return TenantPush()
        credentials = self._seal.open_credentials(stored) if stored.providers else {}
        return TenantPush(stored.content, credentials, stored.updated_at)

    def _reported(self, revocations: Sequence[Revocation]) -> None:
        for revocation in revocations:
            if revocation.kind == "push":
                self.changed(revocation.subject)
