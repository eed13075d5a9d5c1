# SPDX-License-Identifier: Apache-2.0
"""Ports for sessions, for the stored state of a user's credentials, and for the revocation feed."""

from typing import Literal, Protocol

import msgspec

from tidings.model.ids import UserKey


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

    async def standing(self, user: UserKey, session_id: str | None) -> StoredCredentials:
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
