# SPDX-License-Identifier: Apache-2.0
"""Authenticate callers by the root key, a tenant key or a user token.

Also contains the cache of verified user tokens, and the function that makes new tenant keys.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from tidings.actions.identity.caller import Caller, Root, TenantCaller, UserCaller
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.actions.identity.revocation_watch import RevocationIndex, RevocationWatch
from tidings.actions.identity.signing_keys import SigningKeys
from tidings.actions.identity.token_issuers import TenantIssuerKeys
from tidings.actions.identity.tokens import Token, verify
from tidings.metrics.counts import report_counts
from tidings.model import limits
from tidings.model.refusals import StoreUnavailable, Unauthenticated
from tidings.ports.people import Tenants
from tidings.ports.sessions import Revocation
from tidings.ports.world import Chance, Clock

VERIFIED_TOKENS_MAX: Final = 50_000
USER_TOKENS_MAX: Final = 100
"""Cached tokens per user. Further tokens displace older tokens of the same user, never those of
other users."""

Tokens = dict[bytes, None]
"""Set of token digests, in the order of insertion."""
LOOKS_MAX: Final = 3
TENANT_KEY_ID: Final = re.compile(r"[0-9a-f]{16}")
_TENANT_KEY: Final = re.compile(rf"sk_({TENANT_KEY_ID.pattern})_[A-Za-z0-9_-]{{43}}")
_SECRET_BYTES: Final = 32
_LEEWAY_MS: Final = limits.TOKEN_LEEWAY_SECONDS * limits.SECOND_MS


class VerifiedTokens:
    """Caches the callers of a bounded number of verified tokens, by the digests of the tokens.

    The oldest tokens are evicted first.
    """

    def __init__(self) -> None:
        self._callers: OrderedDict[bytes, UserCaller] = OrderedDict()
        self._of: dict[str, Tokens] = {}
        """Tokens by user and by session; a user key never equals a session id. Without this index,
        a logout would have to scan the whole cache, which would block the event loop."""

    def __len__(self) -> int:
        return len(self._callers)

    def get(self, digest: bytes) -> UserCaller | None:
        """Return the caller of a cached token, or None."""
        return self._callers.get(digest)

    def keep(self, digest: bytes, caller: UserCaller) -> None:
        """Cache a verified token."""
        self.forget(digest)
        self._callers[digest] = caller
        for name in _names(caller):
            self._of.setdefault(name, {})[digest] = None
        if len(own := self._of[caller.user]) > USER_TOKENS_MAX:
            self.forget(next(iter(own)))
        while len(self._callers) > VERIFIED_TOKENS_MAX:
            self.forget(next(iter(self._callers)))

    def forget(self, digest: bytes) -> None:
        """Remove a token from the cache."""
        caller = self._callers.pop(digest, None)
        if caller is None:
            return
        for name in _names(caller):
            own = self._of[name]
            del own[digest]
            if not own:
                del self._of[name]

    def revoked(self, revocations: Sequence[Revocation]) -> None:
        """Remove every token that the revocations may affect, so that its next use is checked."""
        ended = RevocationIndex(revocations)
        names: Iterable[str] = (*ended.users, *ended.sessions)
        for name in names:
            for digest in list(self._of.get(name, ())):
                self.forget(digest)
        if ended.is_wide:
            for digest in [key for key, user in self._callers.items() if ended.concerns(user)]:
                self.forget(digest)


def _names(caller: UserCaller) -> tuple[str, ...]:
    return (caller.user,) if caller.session is None else (caller.user, caller.session)


class Authenticate:
    """Authenticates a caller by a bearer credential.

    A token is checked in the store on first use. After that it is accepted until it expires or the
    revocation feed reports it as revoked. While the feed cannot be read, every use of a token is
    checked in the store.
    """

    def __init__(
        self,
        root_key: str,
        tenants: Tenants,
        signing: SigningKeys,
        own: TenantIssuerKeys,
        credential_status: CredentialStatus,
        watch: RevocationWatch,
        clock: Clock,
    ) -> None:
        self.refused = 0
        """Number of refused credentials."""
        report_counts(self, "credentials")
        self._root_digest = _digest(root_key)
        self._tenants = tenants
        self._signing = signing
        self._own = own
        self._status = credential_status
        self._watch = watch
        self._clock = clock
        self._verified = VerifiedTokens()
        watch.listen(self._verified.revoked)

    async def __call__(self, bearer: str) -> Caller:
        """Return the caller to whom a credential belongs, unless its revocation was reported.

        Raises:
            Unauthenticated: The credential is unknown, malformed, revoked or expired.
            StoreUnavailable: The store cannot be read now.
        """
        try:
            return await self._caller(bearer)
        except Unauthenticated:
            self.refused += 1
            raise

    def is_root_header(self, authorization: bytes) -> bool:
        """Return True if this `Authorization` header is the root key, without reading the store."""
        scheme, _, bearer = authorization.partition(b" ")
        digest = hashlib.sha256(bearer.strip()).digest()
        return scheme.lower() == b"bearer" and hmac.compare_digest(digest, self._root_digest)

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
        if not await self._status.is_tenant_active(key.tenant):
            raise Unauthenticated
        return TenantCaller(key.tenant, key.key_id)

    async def _user(self, bearer: str, digest: bytes) -> UserCaller:
        caller = self._verified.get(digest)
        if caller is None or not self._watch.sees:
            return await self._first_use(bearer, digest)
        if self._clock.now() >= caller.expires_at + _LEEWAY_MS:
            self._verified.forget(digest)
            raise Unauthenticated
        return caller

    async def _first_use(self, bearer: str, digest: bytes) -> UserCaller:
        for _ in range(LOOKS_MAX):
            position = self._watch.position
            caller = await self._look(bearer)
            # If the feed advanced meanwhile, it may have revoked this token before it was cached.
            if position == self._watch.position:
                self._verified.keep(digest, caller)
                return caller
        raise StoreUnavailable

    async def _look(self, bearer: str) -> UserCaller:
        token = await verify(bearer, self._signing, self._own, self._clock.now())
        caller = _caller_of(token)
        if not await self._status.is_token_valid(caller):
            raise Unauthenticated
        return caller


def _caller_of(token: Token) -> UserCaller:
    return UserCaller(
        user=token.user,
        device=token.device,
        expires_at=token.expires_at,
        session=token.session,
        issued_at=token.issued_at,
        key_id=token.key_id,
        made_by=token.made_by,
    )


def new_tenant_key(chance: Chance) -> tuple[str, str, bytes]:
    """Make a tenant key; return its id, the key for the tenant, and the digest to store."""
    key_id = chance.token(8).hex()
    key = f"sk_{key_id}_{urlsafe_b64encode(chance.token(_SECRET_BYTES)).decode().rstrip('=')}"
    return key_id, key, _digest(key)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
