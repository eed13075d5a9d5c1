# SPDX-License-Identifier: Apache-2.0
"""The core: from the settings to an open store and the verbs over it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import Removing
from tidings.actions.chat.chats import CreateChat, GetChat, ListChats, Mute
from tidings.actions.chat.deleting import DeleteChat, GetJob
from tidings.actions.chat.invites import (
    AcceptInvite,
    DeclineInvite,
    Invitations,
    ListInvites,
    StrangerBudget,
)
from tidings.actions.chat.members import LeaveChats, PutMember, RemoveAsTenant, RemoveMember, Rename
from tidings.actions.chat.reading import (
    ListMembers,
    ListReactions,
    ListReceipts,
    ReadPage,
)
from tidings.actions.chat.receipts import CoalescedReceipts, MarkReceipt
from tidings.actions.chat.sending import Edit, Post, React, Redact
from tidings.actions.content.data_keys import ALONE, KeyLeases
from tidings.actions.content.rotation import RotateKeys
from tidings.actions.content.vault import Vault
from tidings.actions.identity.audit import AuditTrail
from tidings.actions.identity.authenticate import Authenticate
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.actions.identity.signing_keys import SigningKeys
from tidings.actions.identity.token_issuers import TenantIssuerKeys
from tidings.actions.verbs import ChatVerbs, InboxVerbs, LoginVerbs
from tidings.assembly.jobs import open_jobs
from tidings.assembly.logins import make_login_verbs, open_texts
from tidings.assembly.stores import open_store
from tidings.assembly.system import ExitAt, SystemChance, SystemClock, back_off
from tidings.assembly.verbs import make_identity, make_inbox_verbs
from tidings.buses.in_process import InProcessBus
from tidings.config import Config, DynamoDb
from tidings.keyrings import EnvironmentKeyring, FileKeyring, ensure_root_key
from tidings.ports.bus import Jobs
from tidings.ports.delivery import DeliveryStore
from tidings.ports.secrets import MasterKeys
from tidings.ports.store import Store
from tidings.ports.world import Chance, Clock, Failpoints, NoFailpoints
from tidings.stores.sqlite.engine.connections import StoreBroken


@dataclass(frozen=True, slots=True)
class Core:
    """Tidings without a network: the store and the verbs over it."""

    store: Store
    deliveries: DeliveryStore | None
    """None on the embedded store, which has no other process that delivers."""
    jobs: Jobs
    bus: InProcessBus
    vault: Vault
    appender: Appender
    receipts: CoalescedReceipts
    verbs: ChatVerbs
    inbox: InboxVerbs
    logins: LoginVerbs
    watch: RevocationWatch
    """Not started: the server starts it. Until then every credential is checked in the store."""
    signing: SigningKeys
    own_keys: TenantIssuerKeys
    standings: CredentialStatus
    authenticate: Authenticate
    rotate_keys: RotateKeys
    audit: AuditTrail
    quotas: TenantQuotas
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
    """Open the store and wire the actions. Closes in reverse order of opening.

    A test may pass its own clock and failpoints.

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
        master = master_keys(config, chance)
        vault = await _open_vault(config, store, master, chance, stack)
        jobs = await stack.enter_async_context(open_jobs(config, store, vault.messages, clock))
        bus = InProcessBus()
        appender = Appender(store.log, bus, clock, chance, back_off)
        stack.push_async_callback(appender.close)
        quotas = TenantQuotas(store.tenants, store.users, store.budgets, clock)
        stack.push_async_callback(quotas.close)
        quotas.start()
        audit = AuditTrail(store.audit, clock, chance)
        stack.push_async_callback(audit.close)
        receipts = CoalescedReceipts(store.receipts, bus)
        stack.push_async_callback(receipts.close)
        texts = await stack.enter_async_context(open_texts(config, clock))
        root_key = config.keys.root_key or ensure_root_key(config.data, chance)
        identity = make_identity(root_key, store, vault.wrapping, quotas, clock)
        stack.push_async_callback(identity.watch.close)
        vault.follow(identity.watch)
        inbox = make_inbox_verbs(store, jobs, vault, bus, clock, chance)
        yield Core(
            store=store,
            deliveries=deliveries,
            jobs=jobs,
            bus=bus,
            vault=vault,
            appender=appender,
            receipts=receipts,
            verbs=_verbs(config, store, bus, vault, appender, quotas, inbox, clock, chance),
            inbox=inbox,
            logins=make_login_verbs(
                config, store, vault, identity.signing, texts, quotas, clock, chance
            ),
            watch=identity.watch,
            signing=identity.signing,
            own_keys=identity.own_keys,
            standings=identity.standings,
            authenticate=identity.authenticate,
            rotate_keys=RotateKeys(
                master, vault.wrapping, store.data_keys, store.tenants, store.deployment
            ),
            audit=audit,
            quotas=quotas,
            clock=clock,
            chance=chance,
        )


async def _open_vault(
    config: Config, store: Store, master: MasterKeys, chance: SystemChance, stack: AsyncExitStack
) -> Vault:
    leases = KeyLeases() if isinstance(config.store, DynamoDb) else ALONE
    vault = Vault(store.data_keys, store.deployment, master, chance, leases)
    stack.push_async_callback(vault.close)
    await vault.start()
    return vault


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


def master_keys(config: Config, chance: Chance) -> MasterKeys:
    """Return the master keys of a deployment, from the settings or the data folder."""
    keys = config.keys
    if keys.master_key is not None:
        return EnvironmentKeyring(keys.master_key, keys.master_key_previous)
    return FileKeyring(config.data, chance)


def key_files(config: Config) -> tuple[Path | None, Path | None]:
    """Return the files of the root key and the master key; None if the settings have the key."""
    return (
        None if config.keys.root_key else config.data / "root.key",
        None if config.keys.master_key else config.data / "master.key",
    )


def _verbs(
    config: Config,
    store: Store,
    bus: InProcessBus,
    vault: Vault,
    appender: Appender,
    quotas: TenantQuotas,
    inbox: InboxVerbs,
    clock: Clock,
    chance: SystemChance,
) -> ChatVerbs:
    log, chats, users = store.log, store.chats, store.users
    strangers = StrangerBudget(chats, store.budgets, clock, is_counting=config.network.has_limits)
    invitations = Invitations(store.invites, inbox.settings.asks_strangers, bus, clock)
    removing = Removing(appender, store.invites, clock)
    remove_member = RemoveMember(removing)
    return ChatVerbs(
        create=CreateChat(chats, users, vault, bus, clock, chance, strangers, invitations, quotas),
        list=ListChats(chats, vault, vault.cursors, clock),
        get=GetChat(chats, vault, clock),
        mute=Mute(chats),
        put_member=PutMember(appender, users, strangers, invitations),
        remove_member=remove_member,
        leave=LeaveChats(remove_member),
        invites=ListInvites(store.invites, clock),
        accept_invite=AcceptInvite(store.invites, chats, appender, clock),
        decline_invite=DeclineInvite(store.invites, clock),
        remove_as_tenant=RemoveAsTenant(removing),
        delete=DeleteChat(appender, store.deletions),
        job=GetJob(store.deletions),
        rename=Rename(appender),
        members=ListMembers(chats),
        post=Post(appender, vault, clock, quotas),
        read=ReadPage(log, vault, clock),
        edit=Edit(appender, log, vault, clock),
        redact=Redact(appender, log),
        react=React(appender, log),
        reactions=ListReactions(log),
        receipts=ListReceipts(store.receipts),
        mark=MarkReceipt(store.receipts, bus, clock),
    )
