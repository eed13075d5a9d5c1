# SPDX-License-Identifier: Apache-2.0
"""Opens the store: checks the tables, then builds an adapter for every store port on one client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.ports.store import Sweeping
from tidings.ports.world import Chance, Clock, Failpoints
from tidings.stores.dynamodb.chat.chat_list import DynamoChatList
from tidings.stores.dynamodb.chat.chats import DynamoChats
from tidings.stores.dynamodb.chat.creating import ChatMaker
from tidings.stores.dynamodb.chat.deletions import DynamoDeletions
from tidings.stores.dynamodb.chat.delivering import DynamoDeliveryStore
from tidings.stores.dynamodb.chat.heads import Heads
from tidings.stores.dynamodb.chat.invites import DynamoInvites
from tidings.stores.dynamodb.chat.log import DynamoLog
from tidings.stores.dynamodb.chat.push_claims import DynamoPushClaims
from tidings.stores.dynamodb.chat.receipts import DynamoReceipts
from tidings.stores.dynamodb.chat.recent_chats import DynamoRecentChats
from tidings.stores.dynamodb.chat.runs import Runs
from tidings.stores.dynamodb.chat.scheduled import DynamoScheduled
from tidings.stores.dynamodb.chat.search import DynamoSearchIndex
from tidings.stores.dynamodb.chat.uploads import DynamoUploads
from tidings.stores.dynamodb.client.access import Recorder
from tidings.stores.dynamodb.client.dynamo import Dynamo, open_client
from tidings.stores.dynamodb.client.retrying import Item, Rejected
from tidings.stores.dynamodb.client.transport import CONNECTIONS_DEFAULT
from tidings.stores.dynamodb.export.items import value_key
from tidings.stores.dynamodb.formats import EPOCH, Formats, refuse_older, written_in
from tidings.stores.dynamodb.identity.audit import DynamoAuditLog
from tidings.stores.dynamodb.identity.blocks import DynamoBlocks
from tidings.stores.dynamodb.identity.erasing import (
    DynamoLedger,
    DynamoPersonalData,
    DynamoTenantData,
)
from tidings.stores.dynamodb.identity.logins import DynamoBudgets, DynamoLoginCodes
from tidings.stores.dynamodb.identity.push import DynamoPushStore
from tidings.stores.dynamodb.identity.reports import DynamoReports
from tidings.stores.dynamodb.identity.secrets import DynamoDataKeys, DynamoDeployment, ensure_epoch
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations, DynamoSessions
from tidings.stores.dynamodb.identity.tenant_jobs import DynamoExportParts, DynamoTenantJobs
from tidings.stores.dynamodb.identity.tenants import DynamoTenants
from tidings.stores.dynamodb.identity.users import DynamoUsers
from tidings.stores.dynamodb.identity.webhooks import DynamoWebhooks
from tidings.stores.dynamodb.inbox.copies import DynamoCopies
from tidings.stores.dynamodb.inbox.due import DynamoDueItems
from tidings.stores.dynamodb.inbox.escalations import DynamoEscalations
from tidings.stores.dynamodb.inbox.jobs import DynamoDeadLetters, DynamoJobs
from tidings.stores.dynamodb.inbox.notifications import DynamoInboxSettings, DynamoNotifications
from tidings.stores.dynamodb.inbox.preferences import DynamoPreferences
from tidings.stores.dynamodb.inbox.scheduled_notifications import DynamoScheduledNotifications
from tidings.stores.dynamodb.inbox.states import DynamoInboxStates
from tidings.stores.dynamodb.inbox.webhook_queue import DynamoTenantEventLog, DynamoWebhookQueue
from tidings.stores.dynamodb.patterns import READ_VALUE

IMPORT: Final = value_key("import")
"""Progress of an import; the item exists only while the import is unfinished."""


async def first_answer(dynamo: Dynamo) -> Item | None:
    """Return the item of the epoch, or None. This is the first read, so it checks the tables.

    Raises:
        SetupError: The tables do not exist.
    """
    try:
        return await dynamo.get(READ_VALUE, EPOCH)
    except StoreUnavailable as unavailable:
        cause = unavailable.__cause__
        if isinstance(cause, Rejected) and cause.code == "ResourceNotFoundException":
            raise SetupError(
                f"there are no tables with the prefix {dynamo.prefix!r}: "
                "`tidings schema apply` creates them"
            ) from cause
        raise


async def refuse_unfinished(dynamo: Dynamo) -> None:
    """Refuse to open tables whose import is not finished.

    Raises:
        SetupError: An import is not finished.
    """
    if await dynamo.get(READ_VALUE, IMPORT) is not None:
        raise SetupError(
            "an import into these tables is not finished: run `tidings import` with the same file "
            "again, which resumes where it stopped, or start over with another prefix"
        )


class DynamoSweeping:
    """Sweeping that does nothing, because DynamoDB itself deletes expired items by their TTL."""

    async def empty_expired(self, now: int, limit: int) -> list[tuple[ChatId, int]]:
        return []

    async def forget_keys(self, now: int, limit: int) -> int:
        return 0

    async def forget_notifications(self, now: int, limit: int) -> int:
        return 0


_conforms: type[Sweeping] = DynamoSweeping


@dataclass(frozen=True, slots=True)
class DynamoStore:
    """The adapters of all store ports, on the tables of one deployment."""

    log: DynamoLog
    chats: DynamoChats
    receipts: DynamoReceipts
    tenants: DynamoTenants
    users: DynamoUsers
    sessions: DynamoSessions
    login_codes: DynamoLoginCodes
    budgets: DynamoBudgets
    invites: DynamoInvites
    reports: DynamoReports
    blocks: DynamoBlocks
    push: DynamoPushStore
    push_claims: DynamoPushClaims
    recent_chats: DynamoRecentChats
    data_keys: DynamoDataKeys
    deployment: DynamoDeployment
    sweeping: DynamoSweeping
    revocations: DynamoRevocations
    inbox_settings: DynamoInboxSettings
    notifications: DynamoNotifications
    copies: DynamoCopies
    preferences: DynamoPreferences
    scheduled_notifications: DynamoScheduledNotifications
    escalations: DynamoEscalations
    inbox_states: DynamoInboxStates
    jobs: DynamoJobs
    dead_letters: DynamoDeadLetters
    deletions: DynamoDeletions
    audit: DynamoAuditLog
    tenant_jobs: DynamoTenantJobs
    export_parts: DynamoExportParts
    personal_data: DynamoPersonalData
    tenant_data: DynamoTenantData
    ledger: DynamoLedger
    search_index: DynamoSearchIndex
    uploads: DynamoUploads
    due: DynamoDueItems
    scheduled: DynamoScheduled
    webhooks: DynamoWebhooks
    webhook_queue: DynamoWebhookQueue
    tenant_events: DynamoTenantEventLog
    heads: Heads
    deliveries: DynamoDeliveryStore


@asynccontextmanager
async def open_store(
    *,
    endpoint: str | None,
    region: str,
    prefix: str,
    clock: Clock,
    chance: Chance,
    failpoints: Failpoints,
    writes_heads: bool = True,
    connections: int = CONNECTIONS_DEFAULT,
    record: Recorder | None = None,
) -> AsyncIterator[DynamoStore]:
    """Open the existing tables with this prefix, on AWS or at the given endpoint.

    With `writes_heads`, this process writes the head copy of each chat to which it appends. Use it
    only if there are no delivery workers: with workers, a head copy means "delivered up to here",
    and only delivery may write it.

    Raises:
        SetupError: There are no credentials or no such tables, or an import is not finished, or a
            newer version has written to them, or an older version may be running.
        StoreUnavailable: The tables cannot be reached.
    """
    async with open_client(
        endpoint=endpoint,
        region=region,
        prefix=prefix,
        clock=clock,
        chance=chance,
        connections=connections,
        record=record,
    ) as dynamo:
        found = await first_answer(dynamo)
        await refuse_unfinished(dynamo)
        epoch = found or await ensure_epoch(dynamo, chance)
        written = written_in(epoch)
        refuse_older(written)
        formats = Formats(dynamo, clock, written)
        await formats.start()
        heads = Heads(dynamo, epoch["value"], writes=writes_heads)
        deployment = DynamoDeployment(dynamo, epoch["value"], formats)
        runs = Runs(dynamo, heads, chance, failpoints, deployment)
        store = _store(dynamo, runs, heads, deployment, clock)
        try:
            yield store
        finally:
            await store.log.close()
            await heads.close()
            await store.notifications.close()
            await store.users.close()
            await formats.close()


def _store(
    dynamo: Dynamo, runs: Runs, heads: Heads, deployment: DynamoDeployment, clock: Clock
) -> DynamoStore:
    revocations = DynamoRevocations(dynamo)
    return DynamoStore(
        log=DynamoLog(dynamo, runs, heads, deployment),
        chats=DynamoChats(dynamo, ChatMaker(dynamo, runs, heads), DynamoChatList(dynamo, heads)),
        receipts=DynamoReceipts(dynamo, heads),
        tenants=DynamoTenants(dynamo, revocations),
        users=DynamoUsers(dynamo, revocations),
        sessions=DynamoSessions(dynamo, revocations),
        login_codes=DynamoLoginCodes(dynamo),
        budgets=DynamoBudgets(dynamo),
        invites=DynamoInvites(dynamo),
        reports=DynamoReports(dynamo),
        blocks=DynamoBlocks(dynamo, revocations),
        push=DynamoPushStore(dynamo, revocations),
        push_claims=DynamoPushClaims(dynamo),
        recent_chats=DynamoRecentChats(clock),
        data_keys=DynamoDataKeys(dynamo, revocations),
        deployment=deployment,
        sweeping=DynamoSweeping(),
        revocations=revocations,
        inbox_settings=DynamoInboxSettings(dynamo),
        notifications=DynamoNotifications(dynamo),
        copies=DynamoCopies(dynamo),
        preferences=DynamoPreferences(dynamo),
        scheduled_notifications=DynamoScheduledNotifications(dynamo),
        escalations=DynamoEscalations(dynamo),
        inbox_states=DynamoInboxStates(dynamo),
        jobs=DynamoJobs(dynamo),
        dead_letters=DynamoDeadLetters(dynamo),
        deletions=DynamoDeletions(dynamo),
        audit=DynamoAuditLog(dynamo),
        tenant_jobs=DynamoTenantJobs(dynamo),
        export_parts=DynamoExportParts(dynamo),
        personal_data=DynamoPersonalData(dynamo, revocations),
        tenant_data=DynamoTenantData(dynamo, revocations),
        ledger=DynamoLedger(dynamo),
        search_index=DynamoSearchIndex(dynamo),
        uploads=DynamoUploads(dynamo),
        due=DynamoDueItems(dynamo),
        scheduled=DynamoScheduled(dynamo),
        webhooks=DynamoWebhooks(dynamo, revocations),
        webhook_queue=DynamoWebhookQueue(dynamo, clock),
        tenant_events=DynamoTenantEventLog(dynamo),
        heads=heads,
        deliveries=DynamoDeliveryStore(dynamo, heads),
    )
