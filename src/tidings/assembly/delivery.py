# SPDX-License-Identifier: Apache-2.0
"""Background delivery: the worker, the relay, push, delivery jobs and chat deletions."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tidings.assembly.cluster import ClusterLinks
from tidings.assembly.core import Core
from tidings.assembly.jobs import kafka_servers
from tidings.assembly.system import wait_patiently
from tidings.config import Config
from tidings.delivery.deletion_runner import DeletionRunner
from tidings.delivery.deliverer import Deliverer, UnreadRecount
from tidings.delivery.job_runner import JOBS_MAX, STORE_JOBS_MAX, JobRunner
from tidings.delivery.relay import Delivers, Relay, Republishing
from tidings.delivery.worker import Worker
from tidings.model import limits
from tidings.model.ids import ChatId
from tidings.ports.bus import Expired
from tidings.ports.delivery import Push
from tidings.wire.signatures import secrets_of


@asynccontextmanager
async def run_delivery(
    config: Config, core: Core, others: ClusterLinks | None
) -> AsyncIterator[None]:
    """Run the delivery that the roles of this process include; a single process runs all of it.

    Raises:
        SetupError: The tables have no stream.
        StoreUnavailable: The tables cannot be reached now.
    """
    async with AsyncExitStack() as stack:
        if core.deliveries is None:
            pass
        elif others is None:
            again = Republishing(core.store.log, core.deliveries, core.vault, core.bus, core.clock)
            await _run_relay(config, core, again, None, stack)
        else:
            push = _push(config, core, stack)
            if "worker" in config.roles:
                _run_worker(config, core, others, push, stack)
            if "relay" in config.roles:
                # A deliverer of its own, because each handles the steps for a chat one at a time.
                await _run_relay(config, core, _deliverer(core, others, push), others, stack)
        if "worker" in config.roles:
            _run_jobs(core, stack)
            _run_deletions(core, others, stack)
        yield


def _deliverer(core: Core, others: ClusterLinks, push: Push | None) -> Deliverer:
    assert core.deliveries is not None, "there are others only with a store that they share"
    return Deliverer(
        log=core.store.log,
        deliveries=core.deliveries,
        vault=core.vault,
        registry=others.registry,
        handover=others.handover,
        push=push,
        clock=core.clock,
    )


def _run_jobs(core: Core, stack: AsyncExitStack) -> None:
    # The store may also have jobs: from an import, or from the time before another queue was set.
    for jobs in dict.fromkeys((core.jobs, core.store.jobs)):
        runner = JobRunner(
            jobs=jobs,
            dead_letters=core.store.jobs_aside,
            notifications=core.store.notifications,
            copies=core.store.copies,
            views=core.inbox.views,
            bus=core.bus,
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
        delivery_ms=limits.DELETION_DELIVERY_MS if others else 0,
        back_off=wait_patiently,
    )
    runner.start()
    stack.push_async_callback(runner.close)


def _push(config: Config, core: Core, stack: AsyncExitStack) -> Push | None:
    if config.push == "log":
        from tidings.push.log import LogPush

        return LogPush()
    if config.push == "webhook":
        from tidings.push.webhook import WebhookPush

        assert config.push_url and config.push_secret, "settings are checked"
        push = WebhookPush(
            url=config.push_url,
            secrets=secrets_of(config.push_secret, config.push_secret_previous),
            clock=core.clock,
            back_off=wait_patiently,
        )
        push.start()
        stack.push_async_callback(push.close)
        return push
    return None


def _run_worker(
    config: Config, core: Core, others: ClusterLinks, push: Push | None, stack: AsyncExitStack
) -> None:
    from tidings.buses.kafka_clients import Topics
    from tidings.buses.kafka_feed import KafkaFeed

    feed = KafkaFeed(
        servers=kafka_servers(config),
        topics=Topics(config.kafka_prefix),
        cipher=core.vault.messages,
        group=f"{config.kafka_prefix}delivery",
    )
    deliverer = _deliverer(core, others, push)
    unread_recount = UnreadRecount(
        deliverer.states,
        others.registry,
        others.handover,
        lambda user, chat: core.store.receipts.unread(user, chat, core.clock.now()),
    )
    worker = Worker(feed, deliverer, unread_recount, wait_patiently)
    worker.start()
    stack.push_async_callback(worker.close)


async def _run_relay(
    config: Config,
    core: Core,
    deliverer: Delivers,
    others: ClusterLinks | None,
    stack: AsyncExitStack,
) -> None:
    from tidings.stores.dynamodb.stream import open_changes

    def expired(chat: ChatId, sequences: tuple[int, ...]) -> None:
        core.bus.publish(Expired(chat, sequences))

    assert core.deliveries is not None and config.dynamodb_region is not None
    changes = await stack.enter_async_context(
        open_changes(
            endpoint=config.dynamodb_endpoint,
            region=config.dynamodb_region,
            prefix=config.dynamodb_prefix,
            clock=core.clock,
            chance=core.chance,
        )
    )
    relay = Relay(
        changes,
        core.deliveries,
        deliverer,
        core.clock,
        hint=others.publisher.hint if others else None,
        cleaned=others.publisher.cleaned if others else expired,
    )
    relay.start()
    stack.push_async_callback(relay.close)
