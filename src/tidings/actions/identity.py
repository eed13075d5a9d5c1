# SPDX-License-Identifier: Apache-2.0
"""Who calls: root, a tenant or a user; what proves it, and whose things each may touch."""

import hashlib
import hmac
import logging
import re
from base64 import urlsafe_b64encode
from collections import OrderedDict
from typing import Final

import msgspec

from tidings.actions.tokens import SigningKeys, verify
from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import Forbidden, TenantNotFound, Unauthenticated
from tidings.ports.people import Tenants
from tidings.ports.world import Chance, Clock

log = logging.getLogger("tidings.identity")

VERIFIED_TOKENS_MAX: Final = 50_000
_TENANT_KEY: Final = re.compile(r"sk_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_SECRET_BYTES: Final = 32


class Root(msgspec.Struct, frozen=True):
    """The operator, who may do everything except act as a user."""


class TenantCaller(msgspec.Struct, frozen=True):
    """A tenant's own backend: everything of one tenant."""

    tenant: str
    key_id: str


class UserCaller(msgspec.Struct, frozen=True):
    """One user of one tenant."""

    user: UserKey
    device: str | None
    """The device the token is bound to; None if it is bound to none."""
    expires_at: int


Caller = Root | TenantCaller | UserCaller


def require_root(caller: Caller, tenant: str | None = None) -> None:
    """Refuse everyone but root: as not found whoever has nothing to do with the tenant.

    Raises:
        Forbidden: The caller belongs to the tenant, or there is none in question.
        TenantNotFound: The caller belongs to another tenant.
    """
    if isinstance(caller, Root):
        return
    if tenant is not None:
        _require_own(caller, tenant)
    raise Forbidden("this needs the root key")


def require_tenant(caller: Caller, tenant: str) -> None:
    """Refuse everyone but the tenant and root.

    Raises:
        Forbidden: The caller is a user of the tenant.
        TenantNotFound: The caller belongs to another tenant.
    """
    if isinstance(caller, Root):
        return
    _require_own(caller, tenant)
    if isinstance(caller, UserCaller):
        raise Forbidden("this needs a tenant key")


def require_user(caller: Caller) -> UserCaller:
    """The caller, who has to be a user: no key acts in a user's name.

    Raises:
        Forbidden: The caller is root or a tenant.
    """
    if isinstance(caller, UserCaller):
        return caller
    raise Forbidden("this needs a user token")


def _require_own(caller: TenantCaller | UserCaller, tenant: str) -> None:
    own = caller.tenant if isinstance(caller, TenantCaller) else tenant_of(caller.user)
    if own != tenant:
        log.warning(
            "refused across tenants",
            extra={"action": "cross_tenant", "tenant": own, "wanted": tenant},
        )
        raise TenantNotFound


class Authenticate:
    """Tells from a bearer credential who calls."""

    def __init__(self, root_key: str, tenants: Tenants, signing: SigningKeys, clock: Clock) -> None:
        self.refused = 0
        """How many credentials did not hold."""
        self._root_digest = _digest(root_key)
        self._tenants = tenants
        self._signing = signing
        self._clock = clock
        self._verified: OrderedDict[bytes, UserCaller] = OrderedDict()

    async def __call__(self, bearer: str) -> Caller:
        """The caller.

        Raises:
            Unauthenticated: The credential is unknown, malformed, revoked or expired.
            StoreUnavailable: The store cannot tell now.
        """
        try:
            return await self._caller(bearer)
        except Unauthenticated:
            self.refused += 1
            raise

    async def _caller(self, bearer: str) -> Caller:
        if not 0 < len(bearer) <= limits.TOKEN_BYTES_MAX or not bearer.isascii():
            raise Unauthenticated
        digest = _digest(bearer)
        if hmac.compare_digest(digest, self._root_digest):
            return Root()
        if bearer.startswith("sk_"):
            return await self._tenant(bearer, digest)
        return await self._user(bearer, digest)

    async def _tenant(self, bearer: str, digest: bytes) -> TenantCaller:
        match = _TENANT_KEY.fullmatch(bearer)
        key = await self._tenants.find_key(match[1]) if match else None
        if key is None or key.revoked_at is not None:
            raise Unauthenticated
        if not hmac.compare_digest(digest, key.digest):
            raise Unauthenticated
        return TenantCaller(key.tenant, key.key_id)

    async def _user(self, bearer: str, digest: bytes) -> UserCaller:
        now = self._clock.now()
        caller = self._verified.get(digest)
        if caller is None:
            token = await verify(bearer, self._signing, now)
            caller = UserCaller(token.user, token.device, token.expires_at)
            self._remember(digest, caller)
        elif now >= caller.expires_at + limits.TOKEN_LEEWAY_SECONDS * limits.SECOND_MS:
            del self._verified[digest]
            raise Unauthenticated
        return caller

    def _remember(self, digest: bytes, caller: UserCaller) -> None:
        self._verified[digest] = caller
        while len(self._verified) > VERIFIED_TOKENS_MAX:
            self._verified.popitem(last=False)


def new_tenant_key(chance: Chance) -> tuple[str, str, bytes]:
    """A new tenant key: its id, the key as the tenant holds it, and the digest that is kept."""
    key_id = chance.token(8).hex()
    key = f"sk_{key_id}_{urlsafe_b64encode(chance.token(_SECRET_BYTES)).decode().rstrip('=')}"
    return key_id, key, _digest(key)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
