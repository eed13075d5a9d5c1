# SPDX-License-Identifier: Apache-2.0
"""Runs the background work of a process: worker, relay, push, delivery jobs, deletions, timer."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from tidings.actions.webhooks.owing import OweEntries
from tidings.assembly.cluster import ClusterLinks
from tidings.assembly.core import Core
from tidings.assembly.jobs import kafka_servers
from tidings.assembly.push_queue import (
    NoDevices,
    make_push_to_everyone,
    open_offers,
    run_inbox_push,
    run_own_events,
)
from tidings.assembly.system import wait_patiently
from tidings.config import Config, DynamoDb
from tidings.delivery import push_answers
from tidings.delivery.deliverer import Deliverer, UnreadRecount
from tidings.delivery.job_runner import JOBS_MAX, STORE_JOBS_MAX, JobRunner
from tidings.delivery.push_answers import answer_with
from tidings.delivery.push_notices import PushOffers
from tidings.delivery.relay import Delivers, Relay, Republisher
from tidings.delivery.rounds import DeletionRunner, TenantJobRunner
from tidings.delivery.timer import EMAIL_PACE, USUAL_PACE, Pace, Timer
from tidings.delivery.webhook_events import BusEvents
from tidings.delivery.webhooks import WebhookFeed
from tidings.delivery.worker import Worker
from tidings.model.ids import ChatId
from tidings.ports.bus import Appended, Expired
from tidings.ports.delivery import Changes, DeliveryStore
from tidings.ports.due import DueKind, DueWork


@asynccontextmanager
async def run_delivery(
    config: Config, core: Core, others: ClusterLinks | None
) -> AsyncIterator[None]:
    """Run the background work that belongs to the roles of this process.

    In a data folder that was restored from a backup, the erasures of the ledger are carried out
    first: otherwise a webhook, a timer or a job could still send what was erased.

    Raises:
        SetupError: The DynamoDB tables have no stream.
        StoreUnavailable: The store cannot be reached now.
    """
    async with AsyncExitStack() as stack:
        events = _run_events(core, stack)
        # First, because what writes head copies has to owe the entries before, and because
        # endpoints are owed the entries of chats that are deleted again.
        feed = _listening_feed(core, others) if "worker" in config.process.roles else None
        if not isinstance(config.store, DynamoDb):
            await core.tenant_work.replay()
        if feed is not None:
            await _start_webhooks(core, feed, stack)
        if isinstance(config.store, DynamoDb) and core.deliveries is not None:
            await _run_entries(config, config.store, core, core.deliveries, others, events, stack)
        if "worker" in config.process.roles:
            _run_jobs(core, stack)
            _run_deletions(core, others, stack)
            _run_tenant_jobs(core, stack)
            _run_timer(core, core.due_work, USUAL_PACE, stack)
            _run_timer(core, core.email_work, EMAIL_PACE, stack)
            stack.callback(core.stop_emails)
        run_own_events(core, stack)
        yield


async def _run_entries(
    config: Config,
    tables: DynamoDb,
    core: Core,
    deliveries: DeliveryStore,
    others: ClusterLinks | None,
    events: BusEvents,
    stack: AsyncExitStack,
) -> None:
    """Deliver entries of chats from DynamoDB, where other processes may write too."""
    if others is None:
        again = Republisher(core.store.log, deliveries, core.vault, core.bus, core.clock)
        await _run_relay(tables, core, deliveries, again, None, events, stack)
        return
    push = None
    if {"worker", "relay"} & set(config.process.roles):
        push = open_offers(config, core, NoDevices(), stack)
        answers = {push_answers.SUBJECT: answer_with(core.push.send.journal)}
        await stack.enter_async_context(others.answerer(push_answers.PUSHERS, answers))
    if "worker" in config.process.roles:
        _run_worker(core, _deliverer(core, deliveries, others, push), others, stack)
    if "relay" in config.process.roles:
        # The relay has its own deliverer, because a deliverer handles one step of a chat at a time.
        deliverer = _deliverer(core, deliveries, others, push)
        await _run_relay(tables, core, deliveries, deliverer, others, events, stack)


def _deliverer(
    core: Core, deliveries: DeliveryStore, others: ClusterLinks, push: PushOffers | None
) -> Deliverer:
    return Deliverer(
        log=core.store.log,
        deliveries=deliveries,
        vault=core.vault,
        registry=others.registry,
        handover=others.handover,
        push=push,
        clock=core.clock,
        owe=core.webhook_delivery.owe,
    )


def _run_jobs(core: Core, stack: AsyncExitStack) -> None:
    core.inbox.deliver.listen(run_inbox_push(core, stack).delivered)
    # The store may have jobs too: from an import, or from before another queue was configured.
    for jobs in dict.fromkeys((core.jobs, core.store.jobs)):
        runner = JobRunner(
            jobs=jobs,
            dead_letters=core.store.dead_letters,
            deliver=core.inbox.deliver,
            clock=core.clock,
            back_off=wait_patiently,
            jobs_max=STORE_JOBS_MAX if jobs is core.store.jobs else JOBS_MAX,
        )
        runner.start()
        stack.push_async_callback(runner.close)


def _run_deletions(core: Core, others: ClusterLinks | None, stack: AsyncExitStack) -> None:
    runner = DeletionRunner(
        deletions=core.store.deletions,
        bus=core.bus,
        clock=core.clock,
        holder=core.chance.token(8).hex(),
        # A single process notifies every member before it answers the request.
        delivery=core.deliveries if others else None,
        back_off=wait_patiently,
    )
    runner.start()
    stack.push_async_callback(runner.close)


def _run_tenant_jobs(core: Core, stack: AsyncExitStack) -> None:
    runner = TenantJobRunner(
        jobs=core.store.tenant_jobs,
        kinds={**core.tenant_work.kinds, "push.everyone": make_push_to_everyone(core)},
        clock=core.clock,
        holder=core.chance.token(8).hex(),
        back_off=wait_patiently,
    )
    core.start_job.listen(runner.ask)
    runner.start()
    stack.push_async_callback(runner.close)


async def run_webhooks(core: Core, others: ClusterLinks | None, stack: AsyncExitStack) -> None:
    """Deliver events to webhook endpoints until the stack closes."""
    await _start_webhooks(core, _listening_feed(core, others), stack)


def _listening_feed(core: Core, others: ClusterLinks | None) -> WebhookFeed:
    """Return a feed that notes which entries endpoints are owed. It posts nothing until it is
    started."""
    delivery, is_alone = core.webhook_delivery, others is None
    feed = WebhookFeed(
        delivery.couriers, delivery.owe, delivery.directory, wait_patiently, is_alone=is_alone
    )
    if is_alone and core.deliveries is not None:
        owe_before_head_copies(core.deliveries, delivery.owe)
    elif is_alone:
        core.bus.subscribe(feed.on_appended, Appended)
    return feed


async def _start_webhooks(core: Core, feed: WebhookFeed, stack: AsyncExitStack) -> None:
    delivery = core.webhook_delivery
    delivery.owe.listen(feed.wake)
    core.tenant_events.listen(feed.wake)
    delivery.directory.listen(feed.on_changed)
    feed.start()
    stack.push_async_callback(feed.close)
    await delivery.couriers.start()
    stack.push_async_callback(delivery.couriers.close)


def owe_before_head_copies(deliveries: DeliveryStore, owe: OweEntries) -> None:
    """Make a process that writes head copies itself first store what endpoints are owed.

    If the process dies in between, the relay of the next process finds the entries, because they
    come after the head copy.
    """

    async def before(tenant: str, chat: ChatId, last: int) -> None:
        await owe.before_head_copy(tenant, chat, last, deliveries.reached)

    deliveries.before_head_copies(before)


def _run_events(core: Core, stack: AsyncExitStack) -> BusEvents:
    events = BusEvents(core.tenant_events, core.store.log, core.clock, wait_patiently)
    events.listen(core.bus)
    events.start()
    stack.push_async_callback(events.close)
    return events


def _run_timer(
    core: Core, work: Mapping[DueKind, DueWork], pace: Pace, stack: AsyncExitStack
) -> None:
    timer = Timer(
        due=core.store.due,
        kinds=work,
        clock=core.clock,
        holder=core.chance.token(8).hex(),
        back_off=wait_patiently,
        pace=pace,
    )
    timer.start()
    stack.push_async_callback(timer.close)


def _run_worker(
    core: Core, deliverer: Deliverer, others: ClusterLinks, stack: AsyncExitStack
) -> None:
    from tidings.buses.kafka_clients import Topics
    from tidings.buses.kafka_feed import KafkaFeed

    feed = KafkaFeed(
        servers=kafka_servers(others.kafka),
        topics=Topics(others.kafka.prefix),
        cipher=core.vault.messages,
        group=f"{others.kafka.prefix}delivery",
        backlog=others.backlog,
    )
    unread_recount = UnreadRecount(
        deliverer.states,
        others.registry,
        others.handover,
        core.verbs.count_unread,
    )
    worker = Worker(feed, deliverer, unread_recount, wait_patiently, others.backlog, core.clock)
    worker.start()
    stack.push_async_callback(worker.close)


async def _run_relay(
    tables: DynamoDb,
    core: Core,
    deliveries: DeliveryStore,
    deliverer: Delivers,
    others: ClusterLinks | None,
    events: BusEvents,
    stack: AsyncExitStack,
) -> None:
    def cleaned(expired: Expired, is_new: bool) -> None:
        if is_new and others is None:
            core.bus.publish(expired)  # `events` listens to the bus
            return
        if is_new and others is not None:
            others.publisher.cleaned(expired.chat, expired.sequences)
        events.on_expired(expired)

    relay = Relay(
        await stack.enter_async_context(_open_changes(tables, core)),
        deliveries,
        deliverer,
        core.clock,
        hint=others.publisher.hint if others else None,
        cleaned=cleaned,
        written=None if others else core.store.recent_chats.note,
    )
    relay.start()
    stack.push_async_callback(relay.close)


def _open_changes(tables: DynamoDb, core: Core) -> AbstractAsyncContextManager[Changes]:
    from tidings.stores.dynamodb.stream import open_changes

    return open_changes(
        endpoint=tables.endpoint,
        region=tables.region,
        prefix=tables.prefix,
        clock=core.clock,
        chance=core.chance,
    )
