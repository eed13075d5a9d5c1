# SPDX-License-Identifier: Apache-2.0
"""Ports for login codes, budgets, rate limits, sessions, and the revocation feed."""

from collections.abc import Mapping, Sequence
from math import ceil
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
    """Keyed digest of the address that requested the code; None if it is unknown or local."""


class KeptCode(msgspec.Struct, frozen=True, kw_only=True):
    """A stored code with the number of attempts so far."""

    code: LoginCode
    attempts: int
    attempts_elsewhere: int


class LoginCodes(Protocol):
    """Stores the newest login code of each phone number. Writes are durable when they return."""

    async def put(self, code: LoginCode) -> None:
        """Store a code in place of the number's earlier code, and reset the attempts to 0."""
        ...

    async def find(self, tenant: str, phone_number: str) -> KeptCode | None:
        """Return the newest code, even if it has expired; None if there is none, or if it was
        used."""
        ...

    async def restore(self, code: LoginCode, before: KeptCode) -> None:
        """Replace `code` by the earlier code `before`, with its attempts, if `code` is still stored
        and unused."""
        ...

    async def attempt(
        self, tenant: str, phone_number: str, now: int, tried_by: str | None = None
    ) -> LoginCode | None:
        """Count an attempt to enter the code, from the address `tried_by`, and return the code.

        Returns None if there is no code, if it has expired, or if `limits.CODE_ATTEMPTS_MAX`
        attempts were counted before. The limit is exact even if many processes count at once.
        Attempts from an address that did not request the code have a lower limit,
        `limits.CODE_ATTEMPTS_ELSEWHERE_MAX`. Therefore an attacker at another address cannot use up
        all attempts of the user.
        """
        ...

    async def use(self, code: LoginCode) -> bool:
        """Mark the code as used; exactly one of several callers gets True."""
        ...


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """A limit on a count within one period of time."""

    name: str
    """Name of the count. It contains the period, so that each period has a count of its own."""
    most: int
    expires_at: int
    """When the period is over and the count may be removed."""


class Budgets(Protocol):
    """Stores counts that many processes share and that outlive a restart."""

    async def spend(self, allowances: Sequence[Allowance]) -> str | None:
        """Add 1 to each count and return None. If a count is at its limit, add nothing, and return
        its name.

        At most 20 allowances may be given.
        """
        ...

    async def give_back(self, allowances: Sequence[Allowance]) -> None:
        """Undo `spend`, if the action did not happen: subtract 1 from counts above zero."""
        ...

    async def add(self, allowance: Allowance, count: int) -> int:
        """Add `count` even beyond the limit, and return the sum."""
        ...

    async def spent(self, names: Sequence[str]) -> Mapping[str, int]:
        """Return the counts with these names; a count that nothing was added to is missing."""
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
    """Digest of the refresh token before the valid one; None until the first rotation."""
    sealed_refresh: bytes | None = None
    """The valid refresh token, encrypted with a key derived from the previous token. A client that
    lost the answer to a rotation can repeat the request, and gets this token again."""
    created_at: int
    rotated_at: int
    """When the valid refresh token was made."""
    expires_at: int
    """When the session ends. Each rotation postpones it; the caller has to compare it with the
    time."""
    revoked_at: int | None = None


class StoredCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """State of a user's credentials at one moment, from a strong read."""

    is_known: bool
    """Whether the user exists."""
    deactivated_at: int | None = None
    revoked_at: int | None = None
    """Tokens and sessions made up to this moment are not valid."""
    deleted_at: int | None = None
    banned_until: int | None = None
    session: Session | None = None
    """The session that was asked for, even if it has ended or belongs to another user."""


class Sessions(Protocol):
    """Stores sessions. Every write is durable when it returns; ended sessions may be removed later.

    Raises everywhere:
        StoreUnavailable: The outcome is unknown.
    """

    async def open(self, session: Session) -> None:
        """Store a new session."""
        ...

    async def get(self, session_id: str) -> Session | None:
        """Return a session, even if it has ended, from a strong read."""
        ...

    async def rotate(self, before: Session, after: Session) -> bool:
        """Replace the session if it still has the refresh token of `before` and is not revoked."""
        ...

    async def of(self, user: UserKey) -> list[Session]:
        """Return a user's sessions without revoked ones, newest first.

        A session opened a moment ago may be missing. A session that was revoked a moment ago, or
        has expired, may still be included.
        """
        ...

    async def revoke(self, user: UserKey, session_id: str, now: int) -> bool:
        """Revoke a session and append it to the revocation feed, in one transaction.

        Returns False if the user has no such session, or if it is revoked already.
        """
        ...

    async def stored_credentials(self, user: UserKey, session_id: str | None) -> StoredCredentials:
        """Return the state of the user's credentials and of a session, from a strong read."""
        ...


RevokedKind = Literal[
    "tenant_key",
    "user",
    "tenant",
    "session",
    "signing_key",
    "data_key",
    "author",
    "block",
    "ban",
    "webhook",
    "push",
]


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """A credential or key that was revoked."""

    kind: RevokedKind
    subject: str
    """Id of the revoked tenant key, session, signing key or tenant, or the key of the user.

    Kind `user` revokes only credentials made up to `at`. Kind `data_key` names a user whose data
    key is about to be destroyed. Kind `author` names a user whose data key was destroyed at `at`:
    what the user wrote until then is erased. Kind `block` revokes nothing: it names a user whose
    blocks have changed. Kind `ban` names a user who is banned until `at`, or not any more if that
    is 0. Kind `webhook` names a tenant whose webhook endpoints have changed. Kind `push` names a
    user or a tenant whose registrations for push or settings have changed.
    """
    at: int


class Erasure(msgspec.Struct, frozen=True):
    """A revocation of kind `author` in the revocation feed: the user's content was erased."""

    position: int
    author: UserKey
    at: int


class Revocations(Protocol):
    """Stores the revocation feed: an append-only log of revocations, at positions 1, 2, ...

    Positions have no gaps, and new revocations get higher positions. Therefore a reader that
    continues after its last position misses nothing. Other ports append to the feed where their
    docstrings say so, in the same transaction as the revocation.
    """

    async def append(self, revocation: Revocation) -> None:
        """Append a revocation; durable when it returns.

        Raises:
            StoreUnavailable: The outcome is unknown; a repeat may append it twice, which is
                harmless.
        """
        ...

    async def head(self) -> int:
        """Return the last position of the revocation feed, from a strong read; 0 if the feed is
        empty."""
        ...

    async def after(self, position: int) -> list[Revocation]:
        """Return the next revocations after a position, in order, from a strong read.

        One call returns a limited number; an empty list means the end of the feed.
        """
        ...

    async def erasures(self, tenant: str, after: int, limit: int) -> list[Erasure]:
        """Return a tenant's erasures after a position of the revocation feed, from a strong read.

        If there are more than `limit`, the newest are returned. They are in the order of the feed.
        Other revocations are not read.
        """
        ...


class Bucket(msgspec.Struct, frozen=True):
    """A token bucket that holds `burst` tokens when full and refills by `per_second`."""

    policy: str
    """Name of the limit, as clients see it."""
    subject: str
    """User, tenant or address that is limited."""
    per_second: float
    burst: int

    @property
    def seconds(self) -> int:
        """Whole seconds in which an empty bucket fills."""
        return ceil(self.burst / self.per_second)


class Verdict(msgspec.Struct, frozen=True):
    """Result of a request for tokens."""

    is_allowed: bool
    tightest: Bucket
    """The bucket that had too few tokens, or, if all had enough, the bucket with the fewest
    left."""
    left: int
    """Whole tokens left in the tightest bucket."""
    wait_ms: int
    """Time until the tightest bucket has as many tokens as requested; 0 if it has them."""


class Buckets(Protocol):
    """A bounded number of token buckets, which processes may share.

    A bucket that is not stored is full. A restart may fill all buckets.
    """

    async def take(self, buckets: Sequence[Bucket], tokens: int = 1) -> Verdict:
        """Take `tokens` from each bucket, or nothing if any bucket has fewer.

        At least one bucket must be given. A request for more tokens than a bucket can hold takes
        all tokens of a full bucket, because otherwise it could never succeed. Never raises: a
        process that cannot reach the shared buckets uses buckets of its own.
        """
        ...


class OwnBuckets(Buckets, Protocol):
    """Buckets that only this process uses, so that taking a token never waits."""

    def take_now(self, bucket: Bucket) -> int:
        """Take a token and return 0, or return the milliseconds until there is a token."""
        ...
