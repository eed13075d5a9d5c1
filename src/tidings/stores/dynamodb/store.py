# SPDX-License-Identifier: Apache-2.0
"""Opening the store for scale: the client, and the ports on the tables behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tidings.ports.failpoints import Failpoints
from tidings.ports.world import Chance, Clock
from tidings.stores.dynamodb.audit import DynamoAuditLog
from tidings.stores.dynamodb.chats import DynamoChats
from tidings.stores.dynamodb.client import Dynamo, open_client
from tidings.stores.dynamodb.creating import ChatMaker
from tidings.stores.dynamodb.deletions import DynamoDeletions
from tidings.stores.dynamodb.delivering import DynamoDeliveries
from tidings.stores.dynamodb.first_look import first_answer, refuse_unfinished
from tidings.stores.dynamodb.heads import Heads
from tidings.stores.dynamodb.inbox_copies import DynamoCopies
from tidings.stores.dynamodb.inbox_jobs import DynamoJobs, DynamoJobsAside
from tidings.stores.dynamodb.inbox_notifications import DynamoNotifications
from tidings.stores.dynamodb.inbox_settings import DynamoInboxSettings
from tidings.stores.dynamodb.invites import DynamoInvites
from tidings.stores.dynamodb.listing import ChatList
from tidings.stores.dynamodb.log import DynamoLog
from tidings.stores.dynamodb.logins import DynamoBudgets, DynamoLoginCodes
from tidings.stores.dynamodb.receipts import DynamoReceipts
from tidings.stores.dynamodb.recording import Recorder
from tidings.stores.dynamodb.revocations import DynamoRevocations
from tidings.stores.dynamodb.runs import Runs
from tidings.stores.dynamodb.secrets import DynamoDataKeys, DynamoDeployment, ensure_epoch
from tidings.stores.dynamodb.sessions import DynamoSessions
from tidings.stores.dynamodb.sweeping import DynamoSweeping
from tidings.stores.dynamodb.tenants import DynamoTenants
from tidings.stores.dynamodb.transport import CONNECTIONS_DEFAULT
from tidings.stores.dynamodb.users import DynamoUsers


@dataclass(frozen=True, slots=True)
class DynamoStore:
    """Every port chat and inbox need, on the tables of one deployment."""

    log: DynamoLog
    chats: DynamoChats
    receipts: DynamoReceipts
    tenants: DynamoTenants
    users: DynamoUsers
    sessions: DynamoSessions
    login_codes: DynamoLoginCodes
    budgets: DynamoBudgets
    invites: DynamoInvites
    data_keys: DynamoDataKeys
    deployment: DynamoDeployment
    sweeping: DynamoSweeping
    revocations: DynamoRevocations
    inbox_settings: DynamoInboxSettings
    notifications: DynamoNotifications
    copies: DynamoCopies
    jobs: DynamoJobs
    jobs_aside: DynamoJobsAside
    deletions: DynamoDeletions
    audit: DynamoAuditLog
    heads: Heads
    deliveries: DynamoDeliveries


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
    """Open the tables with this prefix, which must be there: on AWS or at an own endpoint.

    With `writes_heads` this process writes the head copy of what it appends. That is right where
    no delivery worker does it: a head copy means "delivered up to here".

    Raises:
        StoreRefused: There are no credentials or no such tables, or an import is not finished.
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
        heads = Heads(dynamo, writes=writes_heads)
        runs = Runs(dynamo, heads, chance, failpoints)
        store = _store(dynamo, runs, heads, epoch)
        try:
            yield store
        finally:
            await store.log.close()
            await heads.close()
            await store.notifications.close()
            await store.users.close()


def _store(dynamo: Dynamo, runs: Runs, heads: Heads, epoch: str) -> DynamoStore:
    revocations = DynamoRevocations(dynamo)
    return DynamoStore(
        log=DynamoLog(dynamo, runs, heads),
        chats=DynamoChats(dynamo, ChatMaker(dynamo, runs, heads), ChatList(dynamo, heads)),
        receipts=DynamoReceipts(dynamo, heads),
        tenants=DynamoTenants(dynamo, revocations),
        users=DynamoUsers(dynamo, revocations),
        sessions=DynamoSessions(dynamo, revocations),
        login_codes=DynamoLoginCodes(dynamo),
        budgets=DynamoBudgets(dynamo),
        invites=DynamoInvites(dynamo),
        data_keys=DynamoDataKeys(dynamo, revocations),
        deployment=DynamoDeployment(dynamo, epoch),
        sweeping=DynamoSweeping(),
        revocations=revocations,
        inbox_settings=DynamoInboxSettings(dynamo),
        notifications=DynamoNotifications(dynamo),
        copies=DynamoCopies(dynamo),
        jobs=DynamoJobs(dynamo),
        jobs_aside=DynamoJobsAside(dynamo),
        deletions=DynamoDeletions(dynamo),
        audit=DynamoAuditLog(dynamo),
        heads=heads,
        deliveries=DynamoDeliveries(dynamo, heads),
    )
