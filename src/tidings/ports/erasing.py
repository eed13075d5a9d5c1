# SPDX-License-Identifier: Apache-2.0
"""Ports for the deletion of users and tenants: their data, and the ledger of erasures.

The ledger is never restored from a backup. A store that was restored from a backup may know fewer
erasures than the ledger. The erasures that the store does not know are carried out again.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from tidings.model.ids import ChatId, UserKey
from tidings.ports.people import Tenant, User

ErasureKind = Literal["user", "content", "chat", "inbox", "tenant"]


class LedgerEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An erasure, which no backup may undo."""

    kind: ErasureKind
    subject: str
    """Key of the user, id of the chat or of the tenant, or `tenant/inbox`."""
    at: int
    by: str = ""
    """Key of the user, or of the tenant itself, who deleted the chat; empty for other kinds, and in
    entries of earlier versions. Whoever deleted a chat may ask for the progress of its job."""


class Ledger(Protocol):
    """Records the erasures of the deployment. Every write is durable when it returns."""

    async def append(self, erasure: LedgerEntry) -> None:
        """Record an erasure in the ledger. Call this before the erasure is carried out.

        If the same subject (a user, chat, inbox or tenant) is erased several times, only the last
        erasure has to stay in the ledger.
        """
        ...

    async def finish(self, erasure: LedgerEntry) -> None:
        """Record in the store that it knows an erasure, which was carried out after `append`.

        A copy of the store that was made before this lacks the erasure, so it is carried out again
        if the copy is restored. An engine whose copies are not made in between may do this in
        `append` already.
        """
        ...

    async def unknown(self) -> list[LedgerEntry]:
        """Return the erasures in the ledger that the store does not know, oldest first."""
        ...

    async def note(self, erasure: LedgerEntry) -> None:
        """Record in the store that an erasure was carried out again."""
        ...


class PersonalData(Protocol):
    """Finds and removes the data of a user. Every write is durable on return and safe to repeat."""

    async def mark_deleted(self, user: UserKey, now: int) -> User:
        """Replace the user by a row that only says that the user is deleted; return what is left.

        One transaction removes the profile, releases the phone number, revokes all tokens and
        sessions, and appends this to the revocation feed. If the user does not exist, the row is
        stored nevertheless, so that nobody gets this id. A repeat changes nothing.
        """
        ...

    async def sessions(self, user: UserKey, limit: int) -> list[str]:
        """Return the ids of some of the user's sessions, including sessions that have ended.

        A session opened a moment ago may be missing.
        """
        ...

    async def forget_sessions(self, session_ids: Sequence[str]) -> None:
        """Remove at most 25 sessions. The user's credentials must be revoked already."""
        ...

    async def forget_code(self, tenant: str, phone_number: str) -> None:
        """Remove the login code that was sent to a phone number."""
        ...

    async def invites(self, user: UserKey, limit: int) -> list[ChatId]:
        """Return some of the chats that the user is invited to, or has declined to join."""
        ...

    async def forget_invites(self, user: UserKey, chats: Sequence[ChatId]) -> None:
        """Remove at most 25 of the user's invitations."""
        ...

    async def mentions(self, user: UserKey, limit: int) -> list[str]:
        """Return the positions of some messages in the list of those that mention the user."""
        ...

    async def forget_mentions(self, user: UserKey, positions: Sequence[str]) -> None:
        """Remove at most 25 messages from the list of those that mention the user."""
        ...

    async def requests(self, user: UserKey, limit: int) -> list[str]:
        """Return some of the idempotency keys with which the user created chats."""
        ...

    async def forget_requests(self, user: UserKey, keys: Sequence[str]) -> None:
        """Remove at most 25 of these idempotency keys."""
        ...

    async def forget_copies(
        self, user: UserKey, inbox: str, notification_ids: Sequence[str]
    ) -> None:
        """Remove at most 25 of the user's copies of notifications."""
        ...

    async def forget_marks(self, user: UserKey, inbox: str) -> None:
        """Remove the user's read marks in an inbox."""
        ...


class TenantData(Protocol):
    """Removes the data of a tenant. Every write is durable when it returns, and safe to repeat."""

    async def mark_deleted(self, tenant: str, now: int) -> Tenant:
        """Suspend the tenant and mark it as deleted, for good; return the marked tenant.

        The suspension is also appended to the revocation feed. If the tenant does not exist, an
        empty tenant with this mark is stored. A repeat changes nothing.
        """
        ...

    async def forget_inbox(self, tenant: str, inbox: str) -> None:
        """Remove the configuration of an inbox, so that nobody can use it any more."""
        ...

    async def forget(self, tenant: str) -> None:
        """Remove everything about a deleted tenant, except that it is deleted.

        This includes its name, quotas and settings, its tenant keys and signing keys, its own
        public keys, and its entry in the list of tenants.
        """
        ...
