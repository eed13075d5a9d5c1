# SPDX-License-Identifier: Apache-2.0
"""Makes the verbs that start tenants' jobs, the steps of each kind of job, and the replay of
erasures."""

from collections.abc import Mapping

import msgspec

from tidings.actions.chat.changes import Removing
from tidings.actions.jobs.deleting_users import DeleteUser
from tidings.actions.jobs.ledger import Erasures, ReplayErasures
from tidings.actions.jobs.person_export import ExportPerson
from tidings.actions.jobs.receipts import ErasureReceipts
from tidings.actions.jobs.starting import GetJob
from tidings.actions.jobs.tenant_deletion import (
    DeleteInbox,
    DeleteTenant,
    InboxDeletion,
    TenantDeletion,
)
from tidings.actions.jobs.user_deletion import (
    BlockPart,
    ChatPart,
    ContentPart,
    FilePart,
    InboxPart,
    InvitePart,
    Part,
    SessionPart,
    UserDeletion,
)
from tidings.actions.verbs import ChatVerbs, FileVerbs, InboxVerbs, JobVerbs
from tidings.actions.webhooks.raising import RaiseUserDeleted
from tidings.actions.webhooks.removing import RemoveOwed
from tidings.actions.webhooks.replaying import ReplayEvents
from tidings.assembly.foundation import Foundation
from tidings.config import Config, DynamoDb
from tidings.model import limits
from tidings.model.attachments import ERASED_FILES_MS
from tidings.model.ids import ChatId, UserKey
from tidings.ports.erasing import LedgerEntry
from tidings.ports.tenant_jobs import JobSteps


class TenantWork(msgspec.Struct, frozen=True):
    """The verbs and steps of tenants' jobs in one process."""

    verbs: JobVerbs
    kinds: Mapping[str, JobSteps]
    replay: ReplayErasures


def make_tenant_work(
    config: Config,
    base: Foundation,
    chats: ChatVerbs,
    inbox: InboxVerbs,
    files: FileVerbs,
    erasures: Erasures,
) -> TenantWork:
    """Make the verbs and the steps of all kinds of jobs."""
    store = base.store
    verbs = _verbs(config, base, inbox, erasures)
    inbox_deletion = InboxDeletion(
        store.tenant_data,
        store.notifications,
        store.users,
        store.scheduled_notifications,
        store.copies,
        store.personal_data,
        store.tenant_jobs,
    )
    replay = ReplayEvents(
        store.webhooks, base.webhooks, store.webhook_queue, base.remind, store.chats, store.log
    )
    kinds: dict[str, JobSteps] = {
        "user.delete": RaiseUserDeleted(
            _user_deletion(config, base, files, verbs.receipts), base.tenant_events
        ),
        "inbox.delete": inbox_deletion,
        "tenant.delete": _tenant_deletion(config, base, chats, verbs),
        "webhook.resume": replay,
        "webhook.replay": replay,
        "webhook.delete": RemoveOwed(store.webhooks, store.webhook_queue, base.clock),
        "user.export": ExportPerson(store, base.vault, inbox.list, base.clock),
    }
    return TenantWork(verbs, kinds, _replay(base, chats, verbs))


def _verbs(config: Config, base: Foundation, inbox: InboxVerbs, erasures: Erasures) -> JobVerbs:
    store, clock, start = base.store, base.clock, base.start_job
    jobs, tenant_data = store.tenant_jobs, store.tenant_data
    days = _backup_days(config)
    return JobVerbs(
        get=GetJob(jobs, store.deletions),
        delete_user=DeleteUser(store.users, store.personal_data, jobs, erasures, start, clock),
        delete_inbox=DeleteInbox(
            store.inbox_settings, inbox.configs, tenant_data, jobs, erasures, start
        ),
        delete_tenant=DeleteTenant(store.tenants, tenant_data, jobs, erasures, start, clock),
        receipts=ErasureReceipts(store.deployment, base.vault.wrapping, clock, base.chance, days),
    )


def _user_deletion(
    config: Config, base: Foundation, files: FileVerbs, receipts: ErasureReceipts
) -> UserDeletion:
    parts = _parts_of_user(base, files)
    return UserDeletion(
        base.store.personal_data, parts, receipts, base.clock, settle_ms=_settle_ms(config)
    )


def _settle_ms(config: Config) -> int:
    return limits.USER_SETTLE_MS if config.is_alone else limits.USER_SETTLE_MANY_MS


def _tenant_deletion(
    config: Config, base: Foundation, chats: ChatVerbs, verbs: JobVerbs
) -> TenantDeletion:
    store = base.store
    return TenantDeletion(
        tenant_data=store.tenant_data,
        chats=store.chats,
        users=store.users,
        settings=store.inbox_settings,
        jobs=store.tenant_jobs,
        content=ContentPart(store.data_keys, base.vault, base.clock),
        delete_chat=chats.delete,
        delete_user=verbs.delete_user,
        delete_inbox=verbs.delete_inbox,
        webhooks=store.webhooks,
        webhook_queue=store.webhook_queue,
        tenant_events=store.tenant_events,
        clock=base.clock,
        settle_ms=_settle_ms(config),
    )


def _replay(base: Foundation, chats: ChatVerbs, verbs: JobVerbs) -> ReplayErasures:
    async def erase(author: UserKey) -> None:
        due = base.clock.now() + ERASED_FILES_MS
        await base.store.uploads.visit_all(author, due)
        await base.vault.erase(author)

    content = ContentPart(base.store.data_keys, base.vault, base.clock)

    async def delete_content(erasure: LedgerEntry) -> None:
        await erase(UserKey(erasure.subject))

    async def delete_user(erasure: LedgerEntry) -> None:
        await verbs.delete_user.again(UserKey(erasure.subject), content)
        await erase(UserKey(erasure.subject))

    async def delete_chat(erasure: LedgerEntry) -> None:
        await chats.delete.again(ChatId(erasure.subject), UserKey(erasure.by))

    async def delete_inbox(erasure: LedgerEntry) -> None:
        tenant, _, inbox = erasure.subject.partition("/")
        await verbs.delete_inbox.again(tenant, inbox, erasure.at)

    async def delete_tenant(erasure: LedgerEntry) -> None:
        await verbs.delete_tenant.begin(erasure.subject)

    return ReplayErasures(
        base.store.ledger,
        {
            "user": delete_user,
            "content": delete_content,
            "chat": delete_chat,
            "inbox": delete_inbox,
            "tenant": delete_tenant,
        },
    )


def _parts_of_user(base: Foundation, files: FileVerbs) -> tuple[Part, ...]:
    store, clock = base.store, base.clock
    removing = Removing(base.appender, store.invites, clock)
    return (
        SessionPart(store.personal_data, store.push, base.clock),
        ContentPart(store.data_keys, base.vault, clock),
        FilePart(store.uploads, files.sweep, base.clock),
        InvitePart(store.personal_data, store.scheduled),
        BlockPart(store.blocks, base.clock),
        ChatPart(store.chats, removing),
        InboxPart(store.inbox_settings, store.copies, store.personal_data, store.tenant_jobs),
    )


def _backup_days(config: Config) -> int | None:
    """Return for how many days the deployment's own backups may still contain deleted data."""
    if not isinstance(config.store, DynamoDb):
        return None
    from tidings.stores.dynamodb.tables import BACKUP_DAYS

    return BACKUP_DAYS
