# SPDX-License-Identifier: Apache-2.0
"""Makes the verbs for webhook endpoints, and the parts that deliver events to them."""

import msgspec

from tidings.actions.verbs import WebhookVerbs
from tidings.actions.webhooks.attempts import EventReader, WebhookAttempts
from tidings.actions.webhooks.configuring import ConfigureWebhooks
from tidings.actions.webhooks.deliveries import WebhookDeliveries
from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.actions.webhooks.health import EndpointHealth
from tidings.actions.webhooks.owing import OweEntries
from tidings.actions.webhooks.pulling import PullEvents
from tidings.actions.webhooks.resuming import ResumeEndpoints
from tidings.assembly.foundation import Foundation
from tidings.delivery.webhook_couriers import WebhookCouriers
from tidings.delivery.webhooks import WebhookReminderWork


class WebhookDelivery(msgspec.Struct, frozen=True):
    """The parts that deliver events to endpoints; the background work of the process runs them."""

    directory: WebhookDirectory
    couriers: WebhookCouriers
    owe: OweEntries
    reminder_work: WebhookReminderWork


def make_webhook_delivery(base: Foundation, *, is_alone: bool) -> WebhookDelivery:
    """Make the parts that deliver events to endpoints."""
    store, vault, clock = base.store, base.vault, base.clock
    couriers = WebhookCouriers(
        directory=base.webhooks,
        queue=store.webhook_queue,
        read=EventReader(store.log, store.tenant_events, vault, clock),
        attempt=WebhookAttempts(base.posts, vault.digest, clock),
        health=EndpointHealth(store.webhooks, base.webhooks),
        resume=ResumeEndpoints(base.start_job, clock),
        clock=clock,
    )
    work = WebhookReminderWork(couriers, clock, is_alone=is_alone)
    couriers.run_only(work.has)
    owe = OweEntries(base.webhooks, store.webhook_queue, base.remind, clock)
    return WebhookDelivery(base.webhooks, couriers, owe, work)


def make_webhook_verbs(base: Foundation) -> WebhookVerbs:
    """Make the verbs for webhook endpoints, and for deliveries to them."""
    store, vault, clock = base.store, base.vault, base.clock
    configure = ConfigureWebhooks(
        store.webhooks,
        store.tenants,
        base.webhooks,
        vault.digest,
        ResumeEndpoints(base.start_job, clock),
        base.start_job,
        clock,
        base.chance,
    )
    read = EventReader(store.log, store.tenant_events, vault, clock)
    deliveries = WebhookDeliveries(
        configure,
        store.webhook_queue,
        read,
        WebhookAttempts(base.posts, vault.digest, clock),
        vault.cursors,
        base.start_job,
        clock,
    )
    pull = PullEvents(configure, store.webhooks, store.webhook_queue, read)
    return WebhookVerbs(configure, deliveries, pull)
