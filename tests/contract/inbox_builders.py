# SPDX-License-Identifier: Apache-2.0
"""Notifications, announcements, copies and jobs for the contract suites of the inbox."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Final

import msgspec

from tests.contract.engines import Store
from tests.support.clock import NOW
from tidings.actions.inbox.preferences import Reachable
from tidings.actions.inbox.settings import InboxConfigs
from tidings.model.ids import ChatId, UserKey, ulid
from tidings.model.limits import DAY_MS, SECOND_MS
from tidings.model.notifications import Broadcast, Copy, Notification
from tidings.model.scheduled import Scheduled
from tidings.ports.bus import Job, Taken
from tidings.ports.inboxes import PostKey

TENANT: Final = "acme"
INBOX: Final = "news"
EXPIRES: Final = NOW + 90 * DAY_MS

_numbers = itertools.count(1)


def new_id(time: int = NOW) -> str:
    """The id of a notification; each is above those made before it for the same time."""
    return ulid(time, next(_numbers).to_bytes(10, "big"))


def a_scheduled(number: int = 1, **changes: object) -> Scheduled:
    """A scheduled message of Ann, due in a minute."""
    message = Scheduled(
        user_id=UserKey(f"{TENANT}:ann"),
        scheduled_id=f"{number:032x}"[::-1],
        chat_id=ChatId("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        client_message_id="c1",
        send_at=NOW + 60 * SECOND_MS,
        box=b"box",
        digest=b"digest",
        created_at=NOW,
        updated_at=NOW,
    )
    return msgspec.structs.replace(message, **changes)


def a_notification(
    notification_id: str | None = None,
    *,
    tenant: str = TENANT,
    inbox: str = INBOX,
    category: str | None = None,
    box: bytes = b"sealed",
    recipients: int = 3,
    expires_at: int = EXPIRES,
    posted_at: int = NOW,
    everyone: bool = False,
) -> Notification:
    """One for listed users, unless it is a broadcast that waits."""
    return Notification(
        tenant=tenant,
        inbox=inbox,
        notification_id=notification_id or new_id(),
        category=category,
        posted_at=posted_at,
        everyone=everyone,
        expires_at=expires_at,
        recipients=recipients,
        box=box,
        box_key=1,
    )


def a_broadcast(
    sequence: int,
    *,
    tenant: str = TENANT,
    inbox: str = INBOX,
    mark: str | None = None,
    box: bytes = b"sealed",
    expires_at: int = EXPIRES,
) -> Broadcast:
    """Something for everyone, with every field said."""
    return Broadcast(
        tenant=tenant,
        inbox=inbox,
        sequence=sequence,
        kind="broadcast",
        posted_at=NOW + sequence,
        mark=mark or f"mark{next(_numbers)}",
        expires_at=expires_at,
        category="offers",
        late_joiners=False,
        recipients=1_000,
        key="digest-of-a-key",
        box=box,
        box_key=2,
    )


def a_retraction(sequence: int, target: str, *, mark: str | None = None) -> Broadcast:
    """That something was taken back."""
    return Broadcast(
        tenant=TENANT,
        inbox=INBOX,
        sequence=sequence,
        kind="retraction",
        posted_at=NOW + sequence,
        mark=mark or f"mark{next(_numbers)}",
        expires_at=EXPIRES,
        target=target,
    )


async def announce_all(store: Store, count: int, box: bytes = b"sealed") -> list[Broadcast]:
    """A log of so many broadcasts."""
    made = [a_broadcast(sequence, box=box) for sequence in range(1, count + 1)]
    for broadcast in made:
        assert await store.notifications.append_broadcast(broadcast)
    return made


def a_claim(
    *,
    digest: bytes = b"digest",
    notification_id: str | None = None,
    hint: int = 0,
    claimed_at: int = NOW,
    expires_at: int = NOW + DAY_MS,
) -> PostKey:
    """What a request claims its Idempotency-Key with."""
    return PostKey(
        digest=digest,
        notification_id=notification_id,
        hint=hint,
        claimed_at=claimed_at,
        expires_at=expires_at,
    )


def a_copy(
    notification_id: str | None = None,
    *,
    category: str | None = None,
    received_at: int = NOW,
    expires_at: int = EXPIRES,
    collapse: str | None = None,
) -> Copy:
    """A reference to a notification."""
    return Copy(
        notification_id=notification_id or new_id(),
        category=category,
        received_at=received_at,
        expires_at=expires_at,
        collapse=collapse,
    )


def some_jobs(
    count: int,
    *,
    tenant: str = TENANT,
    users: tuple[str, ...] = ("ann", "bob"),
    category: str | None = None,
) -> list[Job]:
    """All portions of one notification."""
    notification_id = new_id()
    return [
        Job(
            tenant=tenant,
            inbox=INBOX,
            notification_id=notification_id,
            number=number,
            users=users,
            category=category,
            posted_at=NOW,
            expires_at=EXPIRES,
        )
        for number in range(count)
    ]


async def take_so_many(store: Store, count: int, most: int = 100) -> list[Taken]:
    """Take until there are this many."""
    taken: list[Taken] = []
    async with asyncio.timeout(30):
        while len(taken) < count:
            some = await store.jobs.take(most)
            assert len(some) <= most
            taken += some
    return taken


def in_order(jobs: Sequence[Job]) -> list[Job]:
    """By what they are called, to compare with others."""
    return sorted(jobs, key=lambda job: (job.tenant, job.notification_id, job.number))


def a_reachable(store: Store) -> Reachable:
    """Whom notifications may reach, by what this store has."""
    configs = InboxConfigs(store.inbox_settings, store.tenants, store.tenant_jobs)
    return Reachable(configs, store.preferences)
