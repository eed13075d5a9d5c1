# SPDX-License-Identifier: Apache-2.0
"""Opens the parts that most verbs need, and finds the keys of a deployment."""

from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.before_send import BeforeSendHooks
from tidings.actions.chat.message_checks import check_content
from tidings.actions.chat.retention import Retention
from tidings.actions.chat.send_queues import SendQueues
from tidings.actions.content.data_keys import ALONE, KeyLeases
from tidings.actions.content.vault import Vault
from tidings.actions.export.exporting import BACKUP, ExportProof
from tidings.actions.identity.profiles import ProfileCache
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.jobs.starting import StartJob
from tidings.actions.search.indexing import Indexer
from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.actions.webhooks.events import TenantEvents
from tidings.actions.webhooks.reminders import Reminders
from tidings.assembly.jobs import open_jobs
from tidings.assembly.outgoing import LazySignedPosts
from tidings.assembly.system import SystemChance, back_off
from tidings.buses.in_process import InProcessBus
from tidings.config import Config, DynamoDb
from tidings.keyrings import EnvironmentKeyring, FileKeyring
from tidings.ports.bus import Jobs
from tidings.ports.delivery import DeliveryStore
from tidings.ports.secrets import MasterKeys
from tidings.ports.store import Store
from tidings.ports.world import Chance, Clock


class Foundation(msgspec.Struct, frozen=True):
    """The open parts that most verbs need."""

    store: Store
    deliveries: DeliveryStore | None
    """None with the embedded store."""
    master: MasterKeys
    vault: Vault
    jobs: Jobs
    bus: InProcessBus
    appender: Appender
    quotas: TenantQuotas
    retention: Retention
    hooks: BeforeSendHooks
    posts: LazySignedPosts
    webhooks: WebhookDirectory
    remind: Reminders
    tenant_events: TenantEvents
    send_queues: SendQueues
    start_job: StartJob
    profiles: ProfileCache
    indexer: Indexer
    clock: Clock
    chance: SystemChance
    has_limits: bool
    """Whether rate limits apply."""


async def open_foundation(
    config: Config,
    store: Store,
    deliveries: DeliveryStore | None,
    clock: Clock,
    chance: SystemChance,
    stack: AsyncExitStack,
) -> Foundation:
    """Open and start the foundation; `stack` closes its parts.

    Raises:
        SetupError: The operator has to change something first.
    """
    master = master_keys(config, chance)
    vault = await _open_vault(config, store, master, clock, chance, stack)
    jobs = await stack.enter_async_context(open_jobs(config, store, vault.messages, clock))
    bus = InProcessBus()
    appender = Appender(store.log, bus, clock, chance, back_off)
    stack.push_async_callback(appender.close)
    quotas = TenantQuotas(store.tenants, store.users, store.budgets, clock)
    stack.push_async_callback(quotas.close)
    quotas.start()
    retention = Retention(store.inbox_settings, clock)
    stack.push_async_callback(retention.close)
    send_queues = SendQueues()
    stack.push_async_callback(send_queues.close)
    posts = LazySignedPosts(config.network.outgoing_allow, clock, chance)
    stack.push_async_callback(posts.close)
    webhooks = WebhookDirectory(store.webhooks)
    remind = Reminders(store.due, clock, is_needed=not store.webhook_queue.is_fed_by_log)
    return Foundation(
        store=store,
        deliveries=deliveries,
        master=master,
        vault=vault,
        jobs=jobs,
        bus=bus,
        appender=appender,
        quotas=quotas,
        retention=retention,
        hooks=BeforeSendHooks(retention, posts, vault.digest, check_content, clock),
        posts=posts,
        webhooks=webhooks,
        remind=remind,
        tenant_events=TenantEvents(webhooks, store.tenant_events, remind, clock),
        send_queues=send_queues,
        start_job=StartJob(store.tenant_jobs, clock),
        profiles=ProfileCache(store.users, clock),
        indexer=Indexer(store.log, store.search_index, vault, clock),
        clock=clock,
        chance=chance,
        has_limits=config.network.has_limits,
    )


async def _open_vault(
    config: Config,
    store: Store,
    master: MasterKeys,
    clock: Clock,
    chance: SystemChance,
    stack: AsyncExitStack,
) -> Vault:
    leases = KeyLeases() if isinstance(config.store, DynamoDb) else ALONE
    vault = Vault(store.data_keys, store.deployment, master, chance, clock, leases)
    stack.push_async_callback(vault.close)
    await vault.start()
    return vault


def master_keys(config: Config, chance: Chance) -> MasterKeys:
    """Return the master keys of a deployment, from the settings or the data folder."""
    keys = config.keys
    if keys.master_key is not None:
        return EnvironmentKeyring(keys.master_key, keys.master_key_previous)
    return FileKeyring(config.data, chance)


def key_files(config: Config) -> tuple[Path | None, Path | None]:
    """Return the paths of the root key and the master key; None for a key in the settings."""
    return (
        None if config.keys.root_key else config.data / "root.key",
        None if config.keys.master_key else config.data / "master.key",
    )


def export_proof(config: Config) -> ExportProof:
    """Return the object that signs exports with the master key and verifies them.

    Raises:
        SetupError: The file of the master key cannot be read.
    """
    return ExportProof(master_keys(config, SystemChance()))


def backup_proof(config: Config) -> ExportProof | None:
    """Return the object that signs backups and verifies them; None if there is no master key.

    Raises:
        SetupError: The file of the master key cannot be read.
    """
    master = master_keys(config, SystemChance())
    return None if master.current is None else ExportProof(master, BACKUP)
