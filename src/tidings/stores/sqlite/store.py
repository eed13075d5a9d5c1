# SPDX-License-Identifier: Apache-2.0
"""Opens the embedded store: locks its folder, then builds an adapter for every store port."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path

import msgspec

from tidings.data_folder import only_process
from tidings.ports.world import Failpoints
from tidings.stores.sqlite.chat.chats import SqliteChats
from tidings.stores.sqlite.chat.deletions import SqliteDeletions
from tidings.stores.sqlite.chat.log import SqliteLog
from tidings.stores.sqlite.chat.members import SqliteInvites
from tidings.stores.sqlite.chat.push_claims import SqlitePushClaims
from tidings.stores.sqlite.chat.receipts import SqliteReceipts, make_functions
from tidings.stores.sqlite.chat.recent_chats import SqliteRecentChats
from tidings.stores.sqlite.chat.scheduled import SqliteDueItems, SqliteScheduled
from tidings.stores.sqlite.chat.search import SqliteSearchIndex
from tidings.stores.sqlite.chat.uploads import SqliteUploads
from tidings.stores.sqlite.engine.checkpoints import Checkpoints
from tidings.stores.sqlite.engine.connections import (
    DATABASE,
    WRITER_CACHE_KIB,
    Readers,
    StoreBroken,
    connect,
)
from tidings.stores.sqlite.engine.schema import migrate
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.export.importing import refuse_unfinished
from tidings.stores.sqlite.identity.audit import SqliteAuditLog
from tidings.stores.sqlite.identity.blocks import SqliteBlocks
from tidings.stores.sqlite.identity.erasing import (
    SqliteLedger,
    SqlitePersonalData,
    SqliteTenantData,
)
from tidings.stores.sqlite.identity.logins import SqliteBudgets, SqliteLoginCodes
from tidings.stores.sqlite.identity.push import SqlitePushStore
from tidings.stores.sqlite.identity.reports import SqliteReports
from tidings.stores.sqlite.identity.secrets import SqliteDataKeys, SqliteDeployment, ensure_epoch
from tidings.stores.sqlite.identity.sessions import SqliteRevocations, SqliteSessions
from tidings.stores.sqlite.identity.tenant_jobs import SqliteExportParts, SqliteTenantJobs
from tidings.stores.sqlite.identity.tenants import SqliteTenants
from tidings.stores.sqlite.identity.users import SqliteUsers
from tidings.stores.sqlite.identity.webhooks import (
    FollowedTenants,
    SqliteTenantEventLog,
    SqliteWebhookQueue,
    SqliteWebhooks,
)
from tidings.stores.sqlite.inbox.copies import SqliteCopies
from tidings.stores.sqlite.inbox.escalations import SqliteEscalations
from tidings.stores.sqlite.inbox.jobs import SqliteDeadLetters, SqliteJobs
from tidings.stores.sqlite.inbox.notifications import SqliteInboxSettings, SqliteNotifications
from tidings.stores.sqlite.inbox.preferences import SqlitePreferences
from tidings.stores.sqlite.inbox.scheduled_notifications import SqliteScheduledNotifications
from tidings.stores.sqlite.inbox.states import SqliteInboxStates
from tidings.stores.sqlite.sweeping import SqliteSweeping


class SqliteStore(msgspec.Struct, frozen=True):
    """The adapters of all store ports, on one database file."""

    log: SqliteLog
    chats: SqliteChats
    receipts: SqliteReceipts
    tenants: SqliteTenants
    users: SqliteUsers
    sessions: SqliteSessions
    login_codes: SqliteLoginCodes
    budgets: SqliteBudgets
    invites: SqliteInvites
    blocks: SqliteBlocks
    push: SqlitePushStore
    push_claims: SqlitePushClaims
    recent_chats: SqliteRecentChats
    reports: SqliteReports
    data_keys: SqliteDataKeys
    deployment: SqliteDeployment
    sweeping: SqliteSweeping
    revocations: SqliteRevocations
    inbox_settings: SqliteInboxSettings
    notifications: SqliteNotifications
    copies: SqliteCopies
    preferences: SqlitePreferences
    scheduled_notifications: SqliteScheduledNotifications
    escalations: SqliteEscalations
    inbox_states: SqliteInboxStates
    jobs: SqliteJobs
    dead_letters: SqliteDeadLetters
    deletions: SqliteDeletions
    audit: SqliteAuditLog
    tenant_jobs: SqliteTenantJobs
    export_parts: SqliteExportParts
    personal_data: SqlitePersonalData
    tenant_data: SqliteTenantData
    ledger: SqliteLedger
    search_index: SqliteSearchIndex
    uploads: SqliteUploads
    due: SqliteDueItems
    scheduled: SqliteScheduled
    webhooks: SqliteWebhooks
    webhook_queue: SqliteWebhookQueue
    tenant_events: SqliteTenantEventLog


@asynccontextmanager
async def open_store(
    folder: Path, *, failpoints: Failpoints, broken: Callable[[StoreBroken], None]
) -> AsyncIterator[SqliteStore]:
    """Open the store in this folder, or create it if there is none.

    If the disk fails later, `broken` is called once, and the server must stop.

    Raises:
        SetupError: Another process has the store open, a newer version wrote it, the file is
            not a store, or an import into it is not finished.
    """
    with only_process(folder), ExitStack() as opened:
        path = folder / DATABASE
        main = opened.enter_context(closing(connect(path, cache_kib=WRITER_CACHE_KIB)))
        migrate(main)
        make_functions(main)
        refuse_unfinished(main)
        epoch = ensure_epoch(main)
        copier = opened.enter_context(closing(connect(path)))
        checkpoints = Checkpoints(main, copier)
        writer = Writer(main, checkpoints, failpoints=failpoints, broken=broken)
        readers = Readers(lambda: connect(path))
        followed = FollowedTenants(main)
        try:
            yield _store(writer, readers, folder, epoch, failpoints, followed)
        finally:
            await writer.close()
            readers.close()
            checkpoints.close()


def _store(
    writer: Writer,
    readers: Readers,
    folder: Path,
    epoch: str,
    failpoints: Failpoints,
    followed: FollowedTenants,
) -> SqliteStore:
    return SqliteStore(
        log=SqliteLog(writer, readers, failpoints, followed),
        chats=SqliteChats(writer, readers),
        receipts=SqliteReceipts(writer, readers),
        tenants=SqliteTenants(writer, readers),
        users=SqliteUsers(writer, readers),
        sessions=SqliteSessions(writer, readers),
        login_codes=SqliteLoginCodes(writer, readers),
        budgets=SqliteBudgets(writer, readers),
        invites=SqliteInvites(writer, readers),
        blocks=SqliteBlocks(writer, readers),
        push=SqlitePushStore(writer, readers),
        push_claims=SqlitePushClaims(writer, readers),
        recent_chats=SqliteRecentChats(readers),
        reports=SqliteReports(writer, readers),
        data_keys=SqliteDataKeys(writer, readers),
        deployment=SqliteDeployment(writer, readers, epoch),
        sweeping=SqliteSweeping(writer, readers),
        uploads=SqliteUploads(writer, readers),
        revocations=SqliteRevocations(writer, readers),
        inbox_settings=SqliteInboxSettings(writer, readers),
        notifications=SqliteNotifications(writer, readers),
        copies=SqliteCopies(writer, readers),
        preferences=SqlitePreferences(writer, readers),
        scheduled_notifications=SqliteScheduledNotifications(writer, readers),
        escalations=SqliteEscalations(writer, readers),
        inbox_states=SqliteInboxStates(writer),
        jobs=SqliteJobs(writer, readers),
        dead_letters=SqliteDeadLetters(writer, readers),
        deletions=SqliteDeletions(writer, readers),
        audit=SqliteAuditLog(writer, readers),
        tenant_jobs=SqliteTenantJobs(writer, readers),
        export_parts=SqliteExportParts(writer, readers),
        personal_data=SqlitePersonalData(writer, readers),
        tenant_data=SqliteTenantData(writer, readers),
        ledger=SqliteLedger(folder, writer, readers),
        search_index=SqliteSearchIndex(writer, readers),
        due=SqliteDueItems(writer, readers),
        scheduled=SqliteScheduled(writer, readers),
        webhooks=SqliteWebhooks(writer, readers, followed),
        webhook_queue=SqliteWebhookQueue(writer, readers),
        tenant_events=SqliteTenantEventLog(writer, readers),
    )
