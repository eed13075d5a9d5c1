# SPDX-License-Identifier: Apache-2.0
"""Port for escalations: users who get an e-mail if they have not read a notification in time.

Every write is durable when it returns, and safe to repeat. Every call raises StoreUnavailable if
the outcome is unknown or the store does not answer.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidings.model.escalations import Escalation, escalation_time
from tidings.model.ids import UserKey
from tidings.model.notifications import Copy
from tidings.ports.bus import Job
from tidings.ports.due import Due


def due_of_escalation(escalation: Escalation, now: int) -> Due:
    """Return the item that says when a portion of users is due."""
    return Due(
        kind="escalation",
        at=escalation.at,
        item_id=f"{escalation.notification_id}-{escalation.number}",
        subject=escalation.inbox,
        tenant=escalation.tenant,
        made_at=now,
    )


def escalations_for(jobs: Sequence[Job], minutes: int) -> list[Escalation]:
    """Return the portions of users who get an e-mail if they have not read the notification in this
    time after its delivery: one for each delivery job."""
    return [
        Escalation(
            tenant=job.tenant,
            inbox=job.inbox,
            notification_id=job.notification_id,
            number=job.number,
            users=job.users,
            category=job.category,
            at=escalation_time(job.posted_at, minutes),
            expires_at=job.expires_at,
        )
        for job in jobs
    ]


def portion_of(due: Due) -> tuple[str, int]:
    """Return the notification and the number of the portion of users that is due."""
    notification_id, _, number = due.item_id.rpartition("-")
    return notification_id, int(number)


class Escalations(Protocol):
    """Stores portions of users until they are due, and for each user whether an e-mail was
    claimed."""

    async def put(self, escalations: Sequence[Escalation], now: int) -> None:
        """Store portions, each with its due item; a portion that exists already is replaced."""
        ...

    async def get(
        self, tenant: str, inbox: str, notification_id: str, number: int
    ) -> Escalation | None:
        """Return a portion, from a strong read."""
        ...

    async def replace(self, before: Escalation, after: Escalation, now: int) -> bool:
        """Store `after` with its due item, if the stored portion is still as it was in `before`.

        Returns False if it is not, because another process worked on the same portion.
        """
        ...

    async def drop(self, escalation: Escalation) -> None:
        """Remove a portion, for whose users everything is decided, unless it was replaced since it
        was read."""
        ...

    async def copies(
        self, users: Sequence[UserKey], inbox: str, notification_id: str
    ) -> Mapping[UserKey, Copy]:
        """Return the copies of at most 100 users who have one. They may be a second old: a claim
        looks again."""
        ...

    async def claim(self, user: UserKey, inbox: str, notification_id: str, now: int) -> bool:
        """Store that the user gets an e-mail about the copy at `now`; return True if it is stored.

        Return False, and change nothing, if the copy is claimed already, read, archived or gone.
        """
        ...

    async def release(self, user: UserKey, inbox: str, notification_id: str, now: int) -> None:
        """Take back a claim made at `now`, because the mail server did not take the e-mail."""
        ...

    async def finish(self, user: UserKey, inbox: str, notification_id: str, now: int) -> None:
        """Store that the outcome of the claim made at `now` is known: `EMAIL_DECIDED`."""
        ...
