# SPDX-License-Identifier: Apache-2.0
"""Opens the core of a process: the store, and the verbs that use it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
from msgspec.structs import replace

from tidings.actions.attachments.reserving import ReserveUploads
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
from tidings.actions.chat.scheduling import SendScheduled
from tidings.actions.content.rotation import RotateKeys
from tidings.actions.content.vault import Vault
from tidings.actions.explain.refusals import RefusalJournal
from tidings.actions.identity.audit import AuditTrail
from tidings.actions.identity.authenticate import Authenticate
from tidings.actions.identity.bans import Bans
from tidings.actions.identity.blocks import BlockLists
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.actions.identity.profiles import ProfileCache
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.actions.identity.signing_keys import SigningKeys
from tidings.actions.identity.token_issuers import TenantIssuerKeys
from tidings.actions.jobs.ledger import Erasures
from tidings.actions.jobs.starting import StartJob
from tidings.actions.push.directory import PushDirectory, PushSeal
from tidings.actions.push.verbs import PushVerbs
from tidings.actions.search.indexing import Indexer
from tidings.actions.verbs import ChatVerbs, FileVerbs, InboxVerbs, LoginVerbs, WebhookVerbs
from tidings.actions.webhooks.events import TenantEvents
from tidings.assembly.email import make_escalation
from tidings.assembly.foundation import Foundation, open_foundation
from tidings.assembly.logins import make_login_verbs, open_texts
from tidings.assembly.push import make_push_verbs
from tidings.assembly.stores import deletions_of, open_blobs, open_store
from tidings.assembly.system import ExitAt, SystemChance, SystemClock
from tidings.assembly.tenant_jobs import TenantWork, make_tenant_work
from tidings.assembly.verbs import (
    Identity,
    make_chat_verbs,
    make_file_verbs,
    make_identity,
    make_inbox_verbs,
    make_late_delivery,
)
from tidings.assembly.webhooks import (
    WebhookDelivery,
    make_webhook_delivery,
    make_webhook_verbs,
)
from tidings.buses.in_process import InProcessBus
from tidings.config import Config
from tidings.delivery.chat_states import NoticeStates
from tidings.keyrings import ensure_root_key
from tidings.ports.attachments import Blobs
from tidings.ports.bus import Jobs
from tidings.ports.delivery import DeliveryStore
from tidings.ports.due import DueKind, DueWork
from tidings.ports.store import Store
from tidings.ports.world import Clock, Failpoints, NoFailpoints
from tidings.stores.sqlite.engine.connections import StoreBroken


class Core(msgspec.Struct, frozen=True):
    """The store and the verbs that use it, without any network interface."""

    store: Store
    deliveries: DeliveryStore | None
    """None with the embedded store, where no other process delivers."""
    jobs: Jobs
    bus: InProcessBus
    vault: Vault
    appender: Appender
    notice_states: NoticeStates
    receipts: CoalescedReceipts
    verbs: ChatVerbs
    inbox: InboxVerbs
    files: FileVerbs
    webhooks: WebhookVerbs
    logins: LoginVerbs
    push: PushVerbs
    blocks: BlockLists
    bans: Bans
    watch: RevocationWatch
    """The server starts the watch. Until then, every credential is checked in the store."""
    signing: SigningKeys
    own_keys: TenantIssuerKeys
    credential_status: CredentialStatus
    authenticate: Authenticate
    rotate_keys: RotateKeys
    audit: AuditTrail
    refusals: RefusalJournal
    quotas: TenantQuotas
    start_job: StartJob
    tenant_work: TenantWork
    due_work: Mapping[DueKind, DueWork]
    email_work: Mapping[DueKind, DueWork]
    """What is due and waits for the mail server."""
    stop_emails: Callable[[], None]
    webhook_delivery: WebhookDelivery
    tenant_events: TenantEvents
    erasures: Erasures
    profiles: ProfileCache
    indexer: Indexer
    clock: Clock
    chance: SystemChance


@asynccontextmanager
async def open_core(
    config: Config,
    broken: Callable[[StoreBroken], None],
    *,
    clock: Clock | None = None,
    failpoints: Failpoints | None = None,
) -> AsyncIterator[Core]:
    """Open the store and create the operations that use it (the verbs).

    On exit, everything is closed in reverse order. A test may pass its own clock and failpoints.

    Raises:
        SetupError: The operator has to change something first.
        StoreUnavailable: The store cannot be reached now.
    """
    clock, chance = clock or SystemClock(), SystemChance()
    failpoints = failpoints or _failpoints(config)
    async with AsyncExitStack() as stack:
        store, deliveries = await stack.enter_async_context(
            open_store(config, clock, chance, failpoints, broken)
        )
        base = await open_foundation(config, store, deliveries, clock, chance, stack)
        audit = AuditTrail(store.audit, clock, chance)
        stack.push_async_callback(audit.close)
        receipts = CoalescedReceipts(store.receipts, base.bus, is_alone=config.is_alone)
        stack.push_async_callback(receipts.close)
        texts = await stack.enter_async_context(open_texts(config, clock))
        identity = _open_identity(config, base, stack)
        logins = make_login_verbs(base, identity.signing, texts, config.sms_per_day)
        blobs = await stack.enter_async_context(open_blobs(config, clock, chance))
        core = _make_core(config, base, audit, receipts, identity, logins, blobs)
        stack.push_async_callback(core.push.send.providers.close)
        yield core


def _open_identity(config: Config, base: Foundation, stack: AsyncExitStack) -> Identity:
    root_key = config.keys.root_key or ensure_root_key(config.data, base.chance)
    identity = make_identity(root_key, base.store, base.vault.wrapping, base.quotas, base.clock)
    stack.push_async_callback(identity.watch.close)
    base.vault.follow(identity.watch)
    base.webhooks.follow(identity.watch)
    return identity


def _make_core(
    config: Config,
    base: Foundation,
    audit: AuditTrail,
    receipts: CoalescedReceipts,
    identity: Identity,
    logins: LoginVerbs,
    blobs: Blobs,
) -> Core:
    directory = PushDirectory(base.store.push, identity.watch, PushSeal(base.vault.cursors))
    inbox = make_inbox_verbs(base, directory)
    blocks = BlockLists(base.store.blocks, identity.watch)
    chats = make_chat_verbs(base, inbox, receipts, blocks, identity.bans)
    erasures = Erasures(base.store.ledger, base.clock)
    webhooks = make_webhook_delivery(base, is_alone=config.is_alone)
    bytes_max = None if config.attachments == "off" else config.attachments.bytes_max
    files = make_file_verbs(
        base, chats, blobs, deletions_of(config), bytes_max, identity.credential_status
    )
    escalation = make_escalation(base, inbox, config)
    push = make_push_verbs(base, directory, config, inbox, chats.count_total.stored)
    return Core(
        store=base.store,
        deliveries=base.deliveries,
        jobs=base.jobs,
        bus=base.bus,
        vault=base.vault,
        appender=base.appender,
        notice_states=NoticeStates(base.appender.state_nowait, base.appender.state),
        receipts=receipts,
        verbs=chats,
        inbox=inbox,
        files=files,
        webhooks=make_webhook_verbs(base),
        logins=logins,
        push=push,
        blocks=blocks,
        bans=identity.bans,
        watch=identity.watch,
        signing=identity.signing,
        own_keys=identity.own_keys,
        credential_status=identity.credential_status,
        authenticate=identity.authenticate,
        rotate_keys=_rotation(base),
        audit=audit,
        refusals=RefusalJournal(base.clock),
        quotas=base.quotas,
        start_job=base.start_job,
        tenant_work=make_tenant_work(config, base, chats, inbox, files, erasures),
        due_work=_due_work(base, chats, inbox, identity, webhooks),
        email_work={"escalation": escalation},
        stop_emails=escalation.stop,
        webhook_delivery=webhooks,
        tenant_events=base.tenant_events,
        erasures=erasures,
        profiles=base.profiles,
        indexer=base.indexer,
        clock=base.clock,
        chance=base.chance,
    )


def _due_work(
    base: Foundation,
    chats: ChatVerbs,
    inbox: InboxVerbs,
    identity: Identity,
    webhooks: WebhookDelivery,
) -> Mapping[DueKind, DueWork]:
    return {
        "message": _send_scheduled(base, chats, identity),
        "inbox": make_late_delivery(base, inbox),
        "webhook": webhooks.reminder_work,
    }


def _send_scheduled(base: Foundation, chats: ChatVerbs, identity: Identity) -> SendScheduled:
    store = base.store
    return SendScheduled(
        chats.post,
        store.scheduled,
        base.vault,
        identity.credential_status,
        base.bus,
        ReserveUploads(store.uploads, base.clock),
        base.clock,
    )


def _rotation(base: Foundation) -> RotateKeys:
    store = base.store
    return RotateKeys(
        base.master, base.vault.wrapping, store.data_keys, store.tenants, store.deployment
    )


@asynccontextmanager
async def open_for_maintenance(config: Config) -> AsyncIterator[Core]:
    """Open the core for a command that runs without a server."""

    def broken(trouble: StoreBroken) -> None:
        raise trouble

    async with open_core(replace(config, sms="off"), broken) as core:
        yield core


def _failpoints(config: Config) -> Failpoints:
    visits = config.process.failpoints
    return ExitAt(visits) if visits else NoFailpoints()
