# SPDX-License-Identifier: Apache-2.0
"""Notifies listed users of new notifications after they were delivered."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from tidings.actions.push.inbox_notices import NotifyInbox
from tidings.actions.push.journal import NOTIFICATION, notification_subject
from tidings.metrics import declared
from tidings.model.ids import UserKey
from tidings.model.refusals import Unavailable
from tidings.ports.bus import Job
from tidings.tasks import Tasks
from tidings.tenant_queues import TenantQueues

WAITING_MAX: Final = 10_000
TENANT_WAITING_MAX: Final = 2_500
"""Maximum number of delivered jobs, each with up to 100 users, that wait to be pushed."""
WORKERS: Final = 8
TENANT_WORKERS: Final = 2


class _DeliveredJob(msgspec.Struct, frozen=True):
    tenant: str
    inbox: str
    notification_id: str
    users: tuple[UserKey, ...]


class InboxPush:
    """Notifies users who got a copy of a notification. Each copy is made once, so each user is
    notified at most once."""

    def __init__(self, notify: NotifyInbox) -> None:
        self._notify = notify
        self._queues: TenantQueues[_DeliveredJob] = TenantQueues(
            "inbox push",
            tenant_max=TENANT_WAITING_MAX,
            total_max=WAITING_MAX,
            at_once_max=TENANT_WORKERS,
        )
        self._tasks = Tasks("inbox push")

    def start(self) -> None:
        """Start the tasks that send notices."""
        for _ in range(WORKERS):
            self._tasks.repeat(self._work)

    async def close(self) -> None:
        """Stop. Notices that wait are lost; the notifications themselves are delivered."""
        await self._tasks.close()

    def delivered(self, job: Job, users: Sequence[UserKey]) -> None:
        """Notify the users who got their copy with this job."""
        if users and not self._notify.send.is_off(job.tenant):
            done = _DeliveredJob(job.tenant, job.inbox, job.notification_id, tuple(users))
            self._tasks.start(self._put(done))

    async def _put(self, done: _DeliveredJob) -> None:
        dropped = await self._queues.put(done.tenant, done)
        if dropped is not None:
            declared.push.counts["dropped"] += 1
            self._lose(dropped.item, "dropped")

    def _lose(self, done: _DeliveredJob, why: Literal["dropped", "failed"]) -> None:
        """Keep in the journal that nobody is notified of a notification."""
        about = notification_subject(done.inbox, done.notification_id)
        self._notify.journal.lost(done.users, about, NOTIFICATION, why)

    async def _work(self) -> None:
        tenant, done = await self._queues.get()
        try:
            await self._notify.listed(tenant, done.inbox, done.notification_id, done.users)
        except Unavailable:
            declared.push.counts["failed"] += 1
            self._lose(done, "failed")
        finally:
            await self._queues.done(tenant)
