# SPDX-License-Identifier: Apache-2.0
"""Ports for logins by phone, for sessions, and for the state of users' credentials."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from tidings.model.ids import UserKey


class LoginCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code that was sent to a phone number, stored only as a keyed digest."""

    tenant: str
    phone_number: str
    digest: bytes
    expires_at: int
    asked_by: str | None = None
    """Keyed digest of the address that requested the code; None if unknown or not counted."""


class KeptCode(msgspec.Struct, frozen=True, kw_only=True):
    """A stored code with the attempts counted so far."""

    code: LoginCode
    attempts: int
    attempts_elsewhere: int


class LoginCodes(Protocol):
    """Newest code of each phone number of a tenant. Every write is durable when it returns."""

    async def put(self, code: LoginCode) -> None:
        """Store a code in place of an earlier one, with no attempts counted."""
        ...

    async def find(self, tenant: str, phone_number: str) -> KeptCode | None:
        """Return the newest code, expired or not; None if there is none, or if it was used."""
        ...

    async def restore(self, code: LoginCode, before: KeptCode) -> None:
        """Replace `code` by `before` and its attempts, if `code` is still stored and unused."""
        ...

    async def attempt(
        self, tenant: str, phone_number: str, now: int, tried_by: str | None = None
    ) -> LoginCode | None:
        """Count an attempt from an address and return the code.

        None if there is no code, if it has expired, or if `limits.CODE_ATTEMPTS_MAX` attempts were
        counted before, even with many attempts at once through many processes. Also None if
        another address, as far as known, requested the code, and
        `limits.CODE_ATTEMPTS_ELSEWHERE_MAX` attempts from other addresses were counted before: an
        attacker who guesses from elsewhere leaves some attempts to the user.
        """
        ...

    async def use(self, code: LoginCode) -> bool:
        """Use up the code; exactly one of several callers gets True."""
        ...


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """A limit on a count within one period of time, which is part of the name."""

    name: str
    """Name of the count and its period; the next period has another name."""
    most: int
    expires_at: int
    """When the period is over and the count may be removed."""


class Budgets(Protocol):
    """Counts that many processes share and that outlive a restart."""

    async def spend(self, allowances: Sequence[Allowance]) -> str | None:
        """Add 1 to each count if none is used up; else add nothing and return a used-up name.

        At most 20 allowances at once.
        """
        ...

    async def give_back(self, allowances: Sequence[Allowance]) -> None:
        """Subtract 1 from each count, never below zero, because what it paid for did not happen."""
        ...

    async def add(self, allowance: Allowance, count: int) -> int:
        """Add `count` at once, whatever the limit is, and return the sum."""
        ...


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A login of a user on a device. Refresh tokens are stored only as SHA-256 digests."""

    session_id: str
    """A ULID."""
    user: UserKey
    device: str
    refresh_digest: bytes
    """Digest of the valid refresh token."""
    previous_digest: bytes | None = None
    """Digest of the refresh token before it; None until the first rotation."""
    sealed_refresh: bytes | None = None
    """The valid refresh token, sealed under a key derived from the previous one: a client that
    lost the answer to a rotation can get it again."""
    created_at: int
    rotated_at: int
    """When the valid refresh token was made."""
    expires_at: int
    """End of the session, checked by the reader; each rotation moves it."""
    revoked_at: int | None = None


class StoredCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """Stored state of a user's credentials at one moment, read strongly."""

    is_known: bool
    """Whether the user exists."""
    deactivated_at: int | None = None
    revoked_at: int | None = None
    """Tokens and sessions made up to this moment are not valid."""
    session: Session | None = None
    """The requested session, of any user, ended or not."""


class Sessions(Protocol):
    """Sessions. Every write is durable when it returns; ended sessions may be removed later.

    Raises everywhere:
        StoreUnavailable: Unknown outcome.
    """

    async def open(self, session: Session) -> None:
        """Store a new session."""
        ...

    async def get(self, session_id: str) -> Session | None:
        """Return a session, ended or not; read strongly."""
        ...

    async def rotate(self, before: Session, after: Session) -> bool:
        """Replace the session if it still has the refresh token of `before` and is not revoked."""
        ...

    async def of(self, user: UserKey) -> list[Session]:
        """Return a user's sessions, newest first; revoked and, best effort, expired are omitted.

        A session opened a moment ago may be missing; one ended a moment ago may be included.
        """
        ...

    async def revoke(self, user: UserKey, session_id: str, now: int) -> bool:
        """Revoke a session and append it to the feed in one transaction.

        Returns False if the user has no such session, or if it is revoked already.
        """
        ...

    async def stored_credentials(self, user: UserKey, session_id: str | None) -> StoredCredentials:
        """Return the user's credential state, and the session if named, in one strong read."""
        ...


RevokedKind = Literal["tenant_key", "user", "tenant", "session", "signing_key", "data_key"]


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """A credential or key that was revoked."""

    kind: RevokedKind
    subject: str
    """The id of the tenant key, session or signing key, the user's key, or the tenant.

    A user's credentials made after `at` are valid. `data_key` names the user whose content is
    erased.
    """
    at: int


class Revocations(Protocol):
    """The revocation feed: a log with places 1, 2, ... without gaps, never changed.

    A reader that has read up to a place misses nothing that is appended later. Other ports append
    to it themselves, in the transaction that revokes, where their docstrings say so.
    """

    async def append(self, revocation: Revocation) -> None:
        """Append a revocation; durable when it returns.

        Raises:
            StoreUnavailable: Unknown outcome; a repeat may append it twice, which is harmless.
        """
        ...

    async def head(self) -> int:
        """Return the last place, or 0 if the feed is empty; read strongly."""
        ...

    async def after(self, place: int) -> list[Revocation]:
        """Return the revocations after a place, in order, up to a bound; read strongly."""
        ...
