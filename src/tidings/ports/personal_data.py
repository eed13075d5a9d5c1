# SPDX-License-Identifier: Apache-2.0
"""Port for the data of one user that the deletion of this user removes."""

from collections.abc import Sequence
from typing import Protocol

from tidings.model.ids import ChatId, UserKey
from tidings.ports.people import User


class PersonalData(Protocol):
    """Finds and removes the data of a user. Every write is durable on return and safe to repeat."""

    async def mark_deleted(self, user: UserKey, now: int) -> User:
        """Replace the user by a row that only says that the user is deleted, and return it.

        One transaction removes the profile, releases the phone number, and revokes all tokens and
        sessions, also in the feed. If the user does not exist, the row is stored nevertheless, so
        that nobody gets this id. A repeat changes nothing.
        """
        ...

    async def sessions(self, user: UserKey, limit: int) -> list[str]:
        """Return the ids of some of the user's sessions, ended or not.

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
