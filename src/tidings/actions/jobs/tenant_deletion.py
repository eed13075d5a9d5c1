# SPDX-License-Identifier: Apache-2.0
"""Delete an inbox, or a tenant with everything that belongs to it.

The job of a tenant first destroys the data key of the tenant's notifications. Then it starts a
deletion for each chat, user and inbox. When these are finished, it removes the tenant's keys and
settings.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.actions.chat.deleting import DeleteChat
from tidings.actions.identity.caller import Caller, require_root, require_tenant
from tidings.actions.inbox.late_delivery import release_all
from tidings.actions.inbox.settings import InboxConfigs
from tidings.actions.inbox.showing import author_of
from tidings.actions.jobs.deleting_users import DeleteUser
from tidings.actions.jobs.ledger import Erasures
from tidings.actions.jobs.starting import StartJob
from tidings.actions.jobs.user_deletion import (
    INBOXES_AT_ONCE,
    JOBS_SEARCHED,
    ContentPart,
)
from tidings.model.ids import ChatId, UserKey, tenant_itself, user_id, user_key
from tidings.model.limits import SECOND_MS
from tidings.model.notifications import INBOX
from tidings.model.refusals import InboxNotFound, TenantNotFound
from tidings.ports.chats import Chats
from tidings.ports.erasing import PersonalData, TenantData
from tidings.ports.inboxes import Copies, InboxSettings, Notifications
from tidings.ports.people import Tenants, UserStore
from tidings.ports.scheduled_notifications import ScheduledNotifications
from tidings.ports.tenant_jobs import PENDING_MAX, NotYet, TenantJob, TenantJobs, job_id_of
from tidings.ports.webhooks import TenantEventLog, WebhookQueue, Webhooks
from tidings.ports.world import Clock

COPY_BATCHES: Final = 4
"""Maximum number of batches of copies that one step removes, so that other jobs need not wait."""
WEBHOOK_ROWS: Final = 100
"""Number of rows of a webhook endpoint, or of events, that one step removes."""

_DONE: Final = "done"


class InboxDeletion(msgspec.Struct, frozen=True):
    """Performs the steps of a job that deletes an inbox."""

    tenant_data: TenantData
    notifications: Notifications
    users: UserStore
    scheduled: ScheduledNotifications
    copies: Copies
    personal_data: PersonalData
    jobs: TenantJobs

    async def step(self, job: TenantJob) -> TenantJob:
        """Do the next step of the job, and return the job with its new progress."""
        match job.phase:
            case "started":
                await self.tenant_data.forget_inbox(job.tenant, job.subject)
                return job.at("inbox_removed")
            case "inbox_removed":
                return await self._notifications(job)
            case "notifications_emptied":
                return await self._broadcasts(job)
            case _:
                return await self._copies(job)

    async def _notifications(self, job: TenantJob) -> TenantJob:
        if job.pending:
            for name in job.pending:
                await self.notifications.empty(job.tenant, job.subject, name)
                await release_all(self.scheduled, job.tenant, job.subject, name)
            return msgspec.structs.replace(job, pending=())
        found = await self.notifications.newest(
            job.tenant, job.subject, before=job.cursor, limit=PENDING_MAX
        )
        if not found:
            return job.at("notifications_emptied")
        names = [each.notification_id for each in found if each.box is not None]
        return _counted(job, names, found[-1].notification_id, notifications=len(names))

    async def _broadcasts(self, job: TenantJob) -> TenantJob:
        if job.pending:
            for name in job.pending:
                await self.notifications.retract_broadcast(job.tenant, job.subject, int(name))
            return msgspec.structs.replace(job, pending=())
        before = None if job.cursor is None else int(job.cursor)
        found = await self.notifications.last_broadcasts(
            job.tenant, job.subject, before=before, limit=PENDING_MAX
        )
        if not found:
            return job.at("broadcasts_emptied")
        names = [str(each.sequence) for each in found if each.box is not None]
        return _counted(job, names, str(found[-1].sequence), broadcasts=len(names))

    async def _copies(self, job: TenantJob) -> TenantJob:
        """Remove the copies and read marks of the next users."""
        page = await self.users.by_id(job.tenant, prefix="", after=job.cursor, limit=PENDING_MAX)
        for user in page.rows:
            if not await self._forget(user.user, job.subject):
                return job  # the next step continues with this user
            job = msgspec.structs.replace(job, cursor=user_id(user.user))
        if page.end is not None:
            return msgspec.structs.replace(job, cursor=page.end)
        # The list lacks users who are being deleted, and their jobs do not find this inbox later.
        for other in await self.jobs.running(job.tenant, JOBS_SEARCHED):
            if other.kind == "user.delete":
                deleted = user_key(job.tenant, other.subject)
                if not await self._forget(deleted, job.subject):
                    return job
        return msgspec.structs.replace(job.at(_DONE), state="done")

    async def _forget(self, user: UserKey, inbox: str) -> bool:
        """Remove some of a user's copies in the inbox; return True if none is left."""
        for _ in range(COPY_BATCHES):
            copies = await self.copies.newest(user, inbox, before=None, limit=PENDING_MAX)
            if not copies:
                await self.personal_data.forget_marks(user, inbox)
                return True
            names = [copy.notification_id for copy in copies]
            await self.personal_data.forget_copies(user, inbox, names)
        return False


def _counted(job: TenantJob, names: Sequence[str], cursor: str, **counts: int) -> TenantJob:
    """Return a copy of the job for its next step, with the counts added to those of the job.

    Args:
        names: The names of the items that the step removes.
        cursor: The position after these items.
        counts: How many more items of each kind the job has removed.
    """
    return msgspec.structs.replace(job.counting(**counts), pending=tuple(names), cursor=cursor)


class DeleteInbox(msgspec.Struct, frozen=True):
    """Delete an inbox of the tenant with all its notifications."""

    settings: InboxSettings
    configs: InboxConfigs
    tenant_data: TenantData
    jobs: TenantJobs
    erasures: Erasures
    start: StartJob

    async def __call__(self, caller: Caller, tenant: str, inbox: str) -> TenantJob:
        """Remove the inbox and start the job. Within a second, no process finds the inbox any more.

        A repeated call returns the same job, until an inbox of this name is created again.

        Raises:
            InboxNotFound: The tenant has no such inbox.
        """
        require_tenant(caller, tenant)
        if INBOX.fullmatch(inbox) is None:
            raise InboxNotFound
        job_id = job_id_of("inbox.delete", inbox)
        if await self.settings.config(tenant, inbox) is None:
            job = await self.jobs.get(tenant, job_id)
            if job is None:
                raise InboxNotFound
            return job
        async with self.erasures.recorded("inbox", f"{tenant}/{inbox}"):
            return await self.begin(tenant, inbox)

    async def again(self, tenant: str, inbox: str, deleted_at: int) -> None:
        """Delete an inbox again in a restored store.

        If the store has a job of this deletion, it has carried it out and only failed to record
        that. An inbox of this name is then a new one.
        """
        job = await self.jobs.get(tenant, job_id_of("inbox.delete", inbox))
        if job is None or job.created_at < deleted_at:
            await self.begin(tenant, inbox)

    async def begin(self, tenant: str, inbox: str) -> TenantJob:
        """Store the job, then remove the inbox. If the process dies in between, the job removes the
        inbox."""
        earlier = await self.jobs.get(tenant, job_id_of("inbox.delete", inbox))
        if earlier is not None and earlier.state == "done":
            await self.jobs.remove(tenant, earlier.job_id)
        job = await self.start(tenant, "inbox.delete", inbox)
        await self.tenant_data.forget_inbox(tenant, inbox)
        self.configs.forget(tenant, inbox)
        return job


class TenantDeletion(msgspec.Struct, frozen=True):
    """Performs the steps of a job that deletes a tenant."""

    tenant_data: TenantData
    chats: Chats
    users: UserStore
    settings: InboxSettings
    jobs: TenantJobs
    content: ContentPart
    delete_chat: DeleteChat
    delete_user: DeleteUser
    delete_inbox: DeleteInbox
    webhooks: Webhooks
    webhook_queue: WebhookQueue
    tenant_events: TenantEventLog
    clock: Clock
    settle_ms: int
    """How long requests that began before the tenant was marked as deleted may still add items."""

    async def step(self, job: TenantJob) -> TenantJob:
        """Do the next step of the job, and return the job with its new progress."""
        match job.phase:
            case "started":
                await self.tenant_data.mark_deleted(job.tenant, self.clock.now())
                return job.at("suspended")
            case "suspended":
                return await self._erase(job)
            case "content_erased":
                return await self._delete_chats(job)
            case "chats_deleted":
                return await self._delete_users(job)
            case "users_deleted":
                return await self._delete_inboxes(job)
            case _:
                return await self._finish(job)

    async def _erase(self, job: TenantJob) -> TenantJob:
        if job.pending:
            for author in _authors(job.tenant):
                await self.content.remove(author, job.pending)
            return job.at("content_erased")
        found = [await self.content.find(author) for author in _authors(job.tenant)]
        names = [name for part in found for name in part.names]
        if not names:
            return job.at("content_erased")
        return msgspec.structs.replace(job.counting(keys=len(names)), pending=("key",))

    async def _delete_chats(self, job: TenantJob) -> TenantJob:
        if job.pending:
            for chat in job.pending:
                await self.delete_chat.begin(job.tenant, ChatId(chat))
            return msgspec.structs.replace(job, pending=())
        if job.cursor is None:
            await self._wait_for_requests(job)
        page = await self.chats.of_tenant(job.tenant, below=job.cursor, limit=PENDING_MAX)
        names = [chat.chat_id for chat in page.rows]
        # A page is empty if all its chats are deleted already, but more pages may follow.
        if not names and page.end is None:
            return job.at("chats_deleted")
        return _counted(job, names, page.end or names[-1], chats=len(names))

    async def _delete_users(self, job: TenantJob) -> TenantJob:
        if job.pending:
            for name in job.pending:
                user = user_key(job.tenant, name)
                found = await self.users.get(user)
                await self.delete_user.begin(user, found.phone_number if found else None)
            return msgspec.structs.replace(job, pending=())
        page = await self.users.by_id(job.tenant, prefix="", after=job.cursor, limit=PENDING_MAX)
        names = [user_id(user.user) for user in page.rows]
        if not names and page.end is None:
            return job.at("users_deleted")
        return _counted(job, names, page.end or names[-1], users=len(names))

    async def _delete_inboxes(self, job: TenantJob) -> TenantJob:
        await self._wait_for_others(job)  # the jobs of users need the list of inboxes
        if job.pending:
            for inbox in job.pending:
                await self.delete_inbox.begin(job.tenant, inbox)
            return msgspec.structs.replace(job, pending=())
        page = await self.settings.configs(job.tenant, after=job.cursor, limit=INBOXES_AT_ONCE)
        names = [inbox for inbox, _ in page.rows][:PENDING_MAX]
        if not names:
            return job.at("inboxes_deleted")
        return _counted(job, names, names[-1], inboxes=len(names))

    async def _finish(self, job: TenantJob) -> TenantJob:
        await self._wait_for_others(job)
        for author in _authors(job.tenant):
            if (await self.content.find(author)).names:
                # A request that began before the tenant was marked has posted something with a new
                # key.
                await self.content.remove(author, ())
        for endpoint in await self.webhooks.of(job.tenant):
            if await self.webhook_queue.remove(endpoint.place, WEBHOOK_ROWS):
                return job  # the next step removes more
        if await self.tenant_events.remove(job.tenant, WEBHOOK_ROWS):
            return job
        await self.tenant_data.forget(job.tenant)
        return msgspec.structs.replace(job.at(_DONE), state="done")

    async def _wait_for_requests(self, job: TenantJob) -> None:
        """Wait until all requests that began before the tenant was marked as deleted have ended.
        Only then the lists of chats, users and inboxes are complete."""
        mark = await self.tenant_data.mark_deleted(job.tenant, self.clock.now())
        assert mark.deleted_at is not None
        if self.clock.now() < mark.deleted_at + self.settle_ms:
            raise NotYet(mark.deleted_at + self.settle_ms)

    async def _wait_for_others(self, job: TenantJob) -> None:
        running = await self.jobs.running(job.tenant, 2)
        if any(other.job_id != job.job_id for other in running):
            raise NotYet(self.clock.now() + SECOND_MS)


def _authors(tenant: str) -> tuple[UserKey, UserKey]:
    """Return the authors of what the tenant itself posts: notifications, and messages."""
    return author_of(tenant), tenant_itself(tenant)


class DeleteTenant(msgspec.Struct, frozen=True):
    """Delete a tenant with everything that belongs to it, for good."""

    tenants: Tenants
    tenant_data: TenantData
    jobs: TenantJobs
    erasures: Erasures
    start: StartJob
    clock: Clock

    async def __call__(self, caller: Caller, tenant: str) -> TenantJob:
        """Suspend the tenant for good and start the job. A repeat returns the same job.

        Raises:
            TenantNotFound: There is no such tenant.
        """
        require_root(caller, tenant)
        found = await self.tenants.get(tenant)
        if found is None:
            raise TenantNotFound
        job = await self.jobs.get(tenant, job_id_of("tenant.delete", tenant))
        if job is not None and found.deleted_at is not None:
            return job
        async with self.erasures.recorded("tenant", tenant):
            return await self.begin(tenant)

    async def begin(self, tenant: str) -> TenantJob:
        """Store the job, then mark the tenant as deleted. If the process dies in between, the job
        marks the tenant."""
        job = await self.start(tenant, "tenant.delete", tenant)
        await self.tenant_data.mark_deleted(tenant, self.clock.now())
        return job
