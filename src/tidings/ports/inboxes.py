# SPDX-License-Identifier: Apache-2.0
"""Inboxes: their settings, notifications and announcements, and what each user has of them.

Every write is durable when it returns, and safe to repeat. Every call raises StoreUnavailable if
the outcome is unknown or the store does not answer. What has expired may or may not be returned:
whoever shows it looks at `expires_at`.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidings.model.ids import UserKey
from tidings.model.notifications import Broadcast, Copy, InboxConfig, Notification, ReadState


class PostKey(msgspec.Struct, frozen=True, kw_only=True):
    """An Idempotency-Key as it was claimed by the first request under it."""

    digest: bytes
    """A keyed digest of what was asked for."""
    notification_id: str | None
    """Of one for listed users: the id it gets."""
    hint: int
    """Of one for everyone: its announcement stands at this sequence or after it, if anywhere."""
    claimed_at: int
    expires_at: int


class InboxSettings(Protocol):
    """What a tenant says about its inboxes."""

    async def settings(self, tenant: str) -> dict[str, object] | None:
        """The tenant's settings; None if it never said any."""
        ...

    async def put_settings(self, tenant: str, settings: dict[str, object]) -> None:
        """Replace the settings."""
        ...

    async def config(self, tenant: str, inbox: str) -> InboxConfig | None:
        """One inbox, read strongly."""
        ...

    async def put_config(self, tenant: str, inbox: str, config: InboxConfig) -> bool:
        """Make or replace an inbox; True if it is new."""
        ...


class Notifications(Protocol):
    """What was posted."""

    @property
    def announcements_age_ms(self) -> int:
        """How old what a process remembers of an inbox's log may be: 0 where it is read each time.

        A retraction is answered only when this much time has passed since it became durable.
        """
        ...

    async def claim_key(self, tenant: str, inbox: str, key: str, claim: PostKey) -> PostKey:
        """Claim an Idempotency-Key; returns the claim that counts: this one, or an earlier one.

        One whose `expires_at` is not after this one's `claimed_at` counts no longer.
        """
        ...

    async def put(self, notification: Notification) -> None:
        """Keep one for listed users, unless it is there: what is there stays as it is."""
        ...

    async def get(
        self, tenant: str, inbox: str, notification_ids: Sequence[str]
    ) -> list[Notification]:
        """Those for listed users with these ids, in any order; missing ones are left out."""
        ...

    async def empty(self, tenant: str, inbox: str, notification_id: str) -> None:
        """Remove the content of one for listed users, for good."""
        ...

    async def announce(self, announcement: Broadcast) -> bool:
        """Put the entry at its place in the inbox's log; False if something else stands there.

        True as well if it stands there already with the same mark.
        """
        ...

    async def empty_announcement(self, tenant: str, inbox: str, sequence: int) -> None:
        """Remove the content of a broadcast, for good. Its entry stays."""
        ...

    async def announcements(
        self, tenant: str, inbox: str, *, after: int, limit: int
    ) -> list[Broadcast]:
        """The next entries of the log after a sequence, in order, read strongly."""
        ...

    async def last_announcements(
        self, tenant: str, inbox: str, *, before: int | None, limit: int
    ) -> list[Broadcast]:
        """The newest entries of the log, or those right before a sequence; newest first, strong."""
        ...

    async def finish_job(self, tenant: str, inbox: str, notification_id: str, number: int) -> None:
        """The job with this number, 0, 1, ..., is done."""
        ...

    async def finished_jobs(self, tenant: str, inbox: str, notification_id: str) -> set[int]:
        """The numbers of the jobs that are done, read strongly."""
        ...


class Copies(Protocol):
    """What each user has in an inbox."""

    async def deliver(self, users: Sequence[UserKey], inbox: str, copy: Copy) -> list[UserKey]:
        """Give each of at most 100 users this copy; one who has it keeps what is there.

        Returns those who did not have it.
        """
        ...

    async def newest(
        self, user: UserKey, inbox: str, *, before: str | None, limit: int
    ) -> list[Copy]:
        """A user's copies by their ids, newest first, below an id or from the top; read strongly.

        One query, however many are asked for, up to 1,000.
        """
        ...

    async def holders(
        self, users: Sequence[UserKey], inbox: str, notification_id: str
    ) -> list[UserKey]:
        """Of at most 100 users, those who have a copy of this one."""
        ...

    async def mark_read(
        self, user: UserKey, inbox: str, notification_ids: Sequence[str], now: int
    ) -> None:
        """These copies are read, at most 100; one that is read already keeps its time.

        Those the user does not have are passed over.
        """
        ...

    async def read_state(self, user: UserKey, inbox: str) -> ReadState:
        """What else the user has read, read strongly."""
        ...

    async def read_before(self, user: UserKey, inbox: str, time: int, announced: int) -> None:
        """All copies made up to the time, and announcements up to the sequence, are read.

        Neither ever moves back. Single marks that it covers may go.
        """
        ...

    async def read_announcements(
        self, user: UserKey, inbox: str, sequences: Sequence[int], now: int
    ) -> None:
        """These announcements are read; one that is read already keeps its time.

        Of the single marks only the 1,000 with the highest sequences need to be kept.
        """
        ...
