# SPDX-License-Identifier: Apache-2.0
"""Makes the verbs for webhook endpoints."""

from tidings.actions.verbs import WebhookVerbs
from tidings.actions.webhooks.attempts import EventReader, WebhookAttempts
from tidings.actions.webhooks.configuring import ConfigureWebhooks
from tidings.actions.webhooks.deliveries import WebhookDeliveries
from tidings.actions.webhooks.pulling import PullEvents
from tidings.assembly.foundation import Foundation


def make_webhook_verbs(base: Foundation) -> WebhookVerbs:
    """Make the verbs for webhook endpoints, and for deliveries to them."""
    store, vault, clock = base.store, base.vault, base.clock
    configure = ConfigureWebhooks(
        store.webhooks,
        store.tenants,
        base.webhooks,
        vault.digest,
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
