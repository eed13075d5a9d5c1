# SPDX-License-Identifier: Apache-2.0
"""Sessions: a user logged in on a device, and what still counts of a user's credentials."""

from typing import Literal, Protocol

import msgspec

from tidings.model.ids import UserKey


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A login: user, device, end. Refresh tokens are kept as SHA-256 digests, never themselves."""

    session_id: str
    """A ULID."""
    user: UserKey
    device: str
    refresh_digest: bytes
    """Of the refresh token that counts now."""
    previous_digest: bytes | None = None
    """Of the one before it; None until the first rotation."""
    sealed_refresh: bytes | None = None
    """The token that counts now, sealed under a key that only the one before it opens: whoever
    lost the answer to a rotation gets it again."""
    created_at: int
    rotated_at: int
    """When the token that counts now was made."""
    expires_at: int
    """Judged by whoever reads; each rotation moves it."""
    revoked_at: int | None = None


class StoredCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """What the store says about a user's credentials at one moment, read strongly."""

    is_known: bool
    """Whether there is such a user."""
    deactivated_at: int | None = None
    revoked_at: int | None = None
    """Tokens and sessions made up to this moment do not count any more."""
    session: Session | None = None
    """The session asked for, whosever it is, ended or not."""


class Sessions(Protocol):
    """Sessions. Every write is durable when it returns; ended ones may be forgotten after a while.

    Raises everywhere:
        StoreUnavailable: Unknown outcome.
    """

    async def open(self, session: Session) -> None:
        """Keep a new one."""
        ...

    async def get(self, session_id: str) -> Session | None:
        """One session, ended or not; read strongly."""
        ...

    async def rotate(self, before: Session, after: Session) -> bool:
        """Replace it if its refresh token is still that of `before` and it is not revoked."""
        ...

    async def of(self, user: UserKey) -> list[Session]:
        """A user's sessions, newest first, without revoked and, best effort, expired ones.

        One that was opened or ended a moment ago may be missing, or still be there.
        """
        ...

    async def revoke(self, user: UserKey, session_id: str, now: int) -> bool:
        """End one, together with its entry in the feed; False if the user has no such session
        that is not revoked."""
        ...

    async def standing(self, user: UserKey, session_id: str | None) -> StoredCredentials:
        """How the user stands, and the session if one is named: one strong look."""
        ...


RevokedKind = Literal["tenant_key", "user", "tenant", "session", "signing_key", "data_key"]


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may not be used any more."""

    kind: RevokedKind
    subject: str
    """The id of the tenant key, session or signing key, the user's key, or the tenant.

    What a user was given after `at` counts. `data_key` is about the user whose content is erased.
    """
    at: int


class Revocations(Protocol):
    """A log of its own: places 1, 2, ... without a hole, never changed.

    Whoever has read up to a place misses nothing that is appended later. The other ports append by
    themselves, together with what they revoke, where they say so.
    """

    async def append(self, revocation: Revocation) -> None:
        """Put it at the end; durable when it returns.

        Raises:
            StoreUnavailable: Unknown outcome; a repeat puts it there twice, which is harmless.
        """
        ...

    async def head(self) -> int:
        """The last place; 0 if there is none. Read strongly."""
        ...

    async def after(self, place: int) -> list[Revocation]:
        """All that was appended after a place, in order, within a bound; read strongly."""
        ...
