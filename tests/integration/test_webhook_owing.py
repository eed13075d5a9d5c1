# SPDX-License-Identifier: Apache-2.0
"""Delivery in a deployment of several processes owes webhook endpoints every entry."""

from tests.integration.test_delivery_steps import delivery as delivery
from tests.integration.test_delivery_steps import folder as folder
from tests.integration.test_delivery_steps import tables as tables
from tests.support.delivery import DeliveryDeployment
from tests.support.users import ANN, BOB
from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.actions.webhooks.owing import OweEntries
from tidings.actions.webhooks.reminders import Reminders
from tidings.delivery.chat_states import DISPATCHED_ENTRIES_MAX
from tidings.model.ids import ChatId, tenant_of
from tidings.model.webhooks import OwedStream, WebhookEndpoint
from tidings.stores.dynamodb.chat.head_patterns import CHECK_HEADS


async def an_endpoint(delivery: DeliveryDeployment, webhook_id: str) -> WebhookEndpoint:
    now = delivery.clock.now()
    endpoint = WebhookEndpoint(
        tenant=tenant_of(ANN),
        webhook_id=webhook_id,
        url="https://example.com/",
        events=("message.created",),
        enabled=True,
        since=now,
        salt="salt",
        created_at=now,
        updated_at=now,
    )
    assert await delivery.store.webhooks.add(endpoint)
    return endpoint


def owing(delivery: DeliveryDeployment) -> OweEntries:
    remind = Reminders(delivery.store.due, delivery.clock, is_needed=False)
    directory = WebhookDirectory(delivery.store.webhooks)
    return OweEntries(directory, delivery.store.webhook_queue, remind, delivery.clock)


async def owed(
    delivery: DeliveryDeployment, endpoint: WebhookEndpoint, chat: ChatId
) -> OwedStream | None:
    found = await delivery.store.webhook_queue.owed(endpoint.place, "", 100)
    return next((one for one in found if one.stream == chat), None)


async def test_entries_whose_events_are_late_are_owed_with_the_next(
    delivery: DeliveryDeployment,
) -> None:
    endpoint = await an_endpoint(delivery, "late")
    chat = await delivery.chat(ANN, BOB)
    for _ in range(2):
        await delivery.send(ANN, chat)
    deliverer = delivery.deliverer(owe=owing(delivery))
    await delivery.deliver(deliverer, chat, delivery.taken(3))
    assert await delivery.head(chat) == 3, "the relay will not look at the entries before"
    assert await owed(delivery, endpoint, chat) == OwedStream(chat, 0, 3)
    await delivery.store.webhooks.remove(endpoint, endpoint.created_at)


async def test_the_relay_owes_more_entries_than_it_dispatches(
    delivery: DeliveryDeployment,
) -> None:
    endpoint = await an_endpoint(delivery, "many")
    chat = await delivery.chat(ANN, BOB)
    head = 0
    while head <= DISPATCHED_ENTRIES_MAX:
        head = (await delivery.send(ANN, chat)).sequence
    await delivery.deliverer(owe=owing(delivery)).deliver(chat, after=0, up_to=head)
    assert await owed(delivery, endpoint, chat) == OwedStream(chat, 0, head)
    await delivery.store.webhooks.remove(endpoint, endpoint.created_at)


async def test_what_is_known_to_be_owed_costs_no_look_at_the_head_copy(
    delivery: DeliveryDeployment,
) -> None:
    endpoint = await an_endpoint(delivery, "known")
    chat = await delivery.chat(ANN, BOB)
    deliverer = delivery.deliverer(owe=owing(delivery))
    await delivery.deliver(deliverer, chat)
    delivery.usage.clear()
    await delivery.send(ANN, chat)
    await delivery.deliver(deliverer, chat)
    assert CHECK_HEADS not in [one.pattern for one in delivery.usage]
    assert await owed(delivery, endpoint, chat) == OwedStream(chat, 0, 2)
    await delivery.store.webhooks.remove(endpoint, endpoint.created_at)
