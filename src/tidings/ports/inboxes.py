# SPDX-License-Identifier: Apache-2.0
"""Ports for inboxes: their settings, notifications and broadcasts, and schema checks.

Every write is durable when it returns, and safe to repeat. Every call raises StoreUnavailable if
the outcome is unknown or the store does not answer. Expired notifications may be returned: the
caller checks `expires_at` before it shows them.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidings.model.ids import UserKey
from tidings.model.notifications import Broadcast, Copy, InboxConfig, Notification, ReadState
from tidings.model.refusals import StoreUnavailable
from tidings.ports.people import Listed


class DeliveredInPart(StoreUnavailable):
    """Some users may lack their copy; a repeat stores it."""

    def __init__(self, new: list[UserKey]) -> None:
        super().__init__()
        self.new = new
        """The users who got their copy now, and whom a repeat does not return."""


class TookTooLong(Exception):
    """The check was stopped at its time limit; a repeat would be stopped too."""


class CheckerBusy(Exception):
    """Nothing was checked, because too many checks wait; try again later."""


class Checker(Protocol):
    """Checks values against JSON schemas, without delaying other work."""

    async def is_valid(self, schema: dict[str, object], value: object) -> bool:
        """Return True if the value conforms to the schema.

        Raises:
            TookTooLong: The check takes longer than the time limit.
            CheckerBusy: Too many checks wait already.
        """
        ...


class PostKey(msgspec.Struct, frozen=True, kw_only=True):
    """The claim of an Idempotency-Key by the first request that used it."""

    digest: bytes
    """Keyed digest of the request."""
    notification_id: str | None
    """Id of the notification, if it is for listed users; None for a broadcast."""
    hint: int
    """Lowest sequence that a broadcast with this key can have in the inbox's log."""
    claimed_at: int
    expires_at: int


class InboxSettings(Protocol):
    """Stores the settings of each tenant, and the configuration of each inbox."""

    async def settings(self, tenant: str) -> dict[str, object] | None:
        """Return the tenant's settings; None if they were never set."""
        ...

    async def put_settings(self, tenant: str, settings: dict[str, object]) -> None:
        """Replace the tenant's settings."""
        ...

    async def config(self, tenant: str, inbox: str) -> InboxConfig | None:
        """Return the configuration of an inbox, from a strong read."""
        ...

    async def configs(
        self, tenant: str, *, after: str | None, limit: int
    ) -> Listed[tuple[str, InboxConfig]]:
        """Return a tenant's inboxes with their configurations, in the order of their names.

        The list comes from a strong read. It starts after the name `after`, or with the first name
        if `after` is None.
        """
        ...

    async def put_config(self, tenant: str, inbox: str, config: InboxConfig) -> bool:
        """Create an inbox or replace its configuration; return True if it is new."""
        ...


class Notifications(Protocol):
    """Stores notifications for listed users, and the log of broadcasts of each inbox."""

    @property
    def broadcasts_age_ms(self) -> int:
        """Maximum age of an inbox's log in the cache of any process; 0 without a cache.

        A retraction is answered only when this much time has passed since it became durable.
        Otherwise another process could still show the notification after the answer.
        """
        ...

    async def claim_key(self, tenant: str, inbox: str, key: str, claim: PostKey) -> PostKey:
        """Claim an Idempotency-Key unless an earlier claim is valid; return the valid claim.

        An earlier claim is valid if its `expires_at` is after `claim.claimed_at`.
        """
        ...

    async def put(self, notification: Notification) -> None:
        """Store a notification for listed users; if it exists already, nothing changes."""
        ...

    async def get(
        self, tenant: str, inbox: str, notification_ids: Sequence[str]
    ) -> list[Notification]:
        """Return those of the notifications with these ids that exist and are for listed users."""
        ...

    async def newest(
        self, tenant: str, inbox: str, *, before: str | None, limit: int
    ) -> list[Notification]:
        """Return the notifications for listed users by id, newest first, from a strong read.

        The list starts below the id `before`, or with the newest notification if it is None.
        """
        ...

    async def empty(self, tenant: str, inbox: str, notification_id: str) -> None:
        """Remove the content of a notification for listed users, for good."""
        ...

    async def append_broadcast(self, broadcast: Broadcast) -> bool:
        """Append a broadcast or retraction to the inbox's log, at its sequence.

        Return True if the log now has this entry there, even if an earlier call stored it, which
        its `mark` shows. Return False if another entry has this sequence.
        """
        ...

    async def retract_broadcast(self, tenant: str, inbox: str, sequence: int) -> None:
        """Remove the content of a broadcast, for good. Its entry remains."""
        ...

    async def broadcasts(
        self, tenant: str, inbox: str, *, after: int, limit: int
    ) -> list[Broadcast]:
        """Return the next entries of the log after a sequence, in order, from a strong read."""
        ...

    async def last_broadcasts(
        self, tenant: str, inbox: str, *, before: int | None, limit: int
    ) -> list[Broadcast]:
        """Return the last entries of the log, or the last ones before a sequence, newest first.

        The log is read with strong reads.
        """
        ...

    async def finish_job(self, tenant: str, inbox: str, notification_id: str, number: int) -> None:
        """Store that the notification's delivery job with this number (0, 1, ...) is done."""
        ...

    async def finished_jobs(self, tenant: str, inbox: str, notification_id: str) -> set[int]:
        """Return the numbers of the notification's finished delivery jobs, from a strong read."""
        ...


class Copies(Protocol):
    """Stores each user's copies of notifications, and each user's read marks."""

    async def deliver(self, users: Sequence[UserKey], inbox: str, copy: Copy) -> list[UserKey]:
        """Store this copy for each of at most 100 users; a user's existing copy does not change.

        Returns the users who did not have the copy before.

        Raises:
            DeliveredInPart: The store does not answer for some of the users.
        """
        ...

    async def newest(
        self, user: UserKey, inbox: str, *, before: str | None, limit: int
    ) -> list[Copy]:
        """Return a user's copies below the id `before`, newest first, from a strong read.

        Without `before`, the list starts with the newest copy. This is one query for any `limit` up
        to 1,000.
        """
        ...

    async def holders(
        self, users: Sequence[UserKey], inbox: str, notification_id: str
    ) -> list[UserKey]:
        """Return which of at most 100 users have a copy of the notification."""
        ...

    async def mark_read(
        self, user: UserKey, inbox: str, notification_ids: Sequence[str], now: int
    ) -> None:
        """Mark at most 100 copies as read; a copy that is read already does not change.

        Ids of notifications of which the user has no copy are skipped.
        """
        ...

    async def read_state(self, user: UserKey, inbox: str) -> ReadState:
        """Return the user's read marks that are not stored with copies, from a strong read."""
        ...

    async def read_before(self, user: UserKey, inbox: str, time: int, announced: int) -> None:
        """Mark all copies made up to `time` and broadcasts up to sequence `announced` as read.

        A smaller `time` or `announced` than before changes nothing. If `announced` covers a
        broadcast that was marked on its own, that mark may be removed.
        """
        ...

    async def read_broadcasts(
        self, user: UserKey, inbox: str, sequences: Sequence[int], now: int
    ) -> None:
        """Mark single broadcasts as read; a broadcast that is read already does not change.

        Only the marks of the 1,000 highest sequences need to be stored, and none of broadcasts that
        have expired.
        """
        ...
