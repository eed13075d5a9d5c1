# SPDX-License-Identifier: Apache-2.0
"""Webhook endpoints, what they are owed, and the event logs of tenants."""

import asyncio
from typing import Any

import msgspec

from tests.contract.builders import an_endpoint, new_chat_id
from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tidings.model.webhooks import (
    EVENT_LOG,
    KEPT_MS,
    EventRefusal,
    OwedStream,
    SetAside,
    WebhookEndpoint,
)

TENANT = "acme"
CHAT = new_chat_id()


def changed(endpoint: WebhookEndpoint, **fields: Any) -> WebhookEndpoint:
    return msgspec.structs.replace(endpoint, revision=endpoint.revision + 1, **fields)


async def test_an_endpoint_is_kept_with_all_its_fields(engine: Engine) -> None:
    endpoint = an_endpoint(
        previous_salt="old", previous_until=5, disabled_at=6, disabled_by="gone", failing_since=7
    )
    async with engine.open() as store:
        assert await store.webhooks.add(endpoint)
        assert await store.webhooks.add(an_endpoint("b"))
        assert await store.webhooks.add(an_endpoint(tenant="other"))
    async with engine.open() as store:
        assert await store.webhooks.of(TENANT) == [an_endpoint("b"), endpoint]
        assert await store.webhooks.of("nobody") == []


async def test_one_change_of_an_endpoint_wins(store: Store) -> None:
    first = an_endpoint()
    assert await store.webhooks.add(first)
    assert not await store.webhooks.add(an_endpoint(url="https://example.com/other"))
    second = changed(first, enabled=False)
    assert await store.webhooks.change(first, second)
    assert not await store.webhooks.change(first, changed(first, url="https://lost.example"))
    assert await store.webhooks.of(TENANT) == [second]

    await store.webhooks.remove(second, NOW)
    assert await store.webhooks.of(TENANT) == []
    assert not await store.webhooks.change(second, changed(second))


async def test_every_change_is_in_the_revocation_feed(store: Store) -> None:
    position = await store.revocations.head()
    endpoint = an_endpoint()
    await store.webhooks.add(endpoint)
    await store.webhooks.change(endpoint, changed(endpoint))
    await store.webhooks.remove(endpoint, NOW)
    told = await store.revocations.after(position)
    assert [(one.kind, one.subject) for one in told] == [("webhook", TENANT)] * 3


async def owed(store: Store, endpoint: WebhookEndpoint, limit: int = 100) -> list[OwedStream]:
    return await store.webhook_queue.owed(endpoint.place, "", limit)


async def test_a_stream_is_owed_until_its_head_is_reached(engine: Engine) -> None:
    endpoint = an_endpoint()
    async with engine.open() as store:
        await store.webhooks.add(endpoint)
        queue, place = store.webhook_queue, endpoint.place
        await queue.owe(place, OwedStream(CHAT, 3, 5))
        await queue.owe(place, OwedStream(CHAT, 5, 8))
        await queue.owe(place, OwedStream(CHAT, 5, 6))
        assert await owed(store, endpoint) == [OwedStream(CHAT, 3, 8)]

        await queue.advance(place, OwedStream(CHAT, 5, 8))
        await queue.owe(place, OwedStream(CHAT, 8, 9))
        await queue.advance(place, OwedStream(CHAT, 8, 8))
        assert await owed(store, endpoint) == [OwedStream(CHAT, 8, 9)], "owed more meanwhile"
    async with engine.open() as store:
        assert await owed(store, endpoint) == [OwedStream(CHAT, 8, 9)]
        await store.webhook_queue.advance(endpoint.place, OwedStream(CHAT, 9, 9))
        await store.webhook_queue.advance(endpoint.place, OwedStream(CHAT, 9, 9))
        assert await owed(store, endpoint) == []


async def test_what_is_owed_later_may_be_earlier_in_the_stream(store: Store) -> None:
    endpoint = an_endpoint("overtaken")
    queue, place = store.webhook_queue, endpoint.place
    await queue.owe(place, OwedStream(CHAT, 7, 8))
    await queue.owe(place, OwedStream(CHAT, 6, 7))
    assert await owed(store, endpoint) == [OwedStream(CHAT, 6, 8)]
    await queue.owe(place, OwedStream(CHAT, 4, 9))
    assert await owed(store, endpoint) == [OwedStream(CHAT, 4, 9)]

    for reached in (8, 9):
        await queue.advance(place, OwedStream(CHAT, reached, reached), 6)
        assert await owed(store, endpoint) == [OwedStream(CHAT, 4, 9)], "whoever began at 6 is late"
    await queue.advance(place, OwedStream(CHAT, 9, 9), 4)
    assert await owed(store, endpoint) == []


async def test_a_refusal_is_kept_with_the_stream_until_it_is_finished(engine: Engine) -> None:
    endpoint = an_endpoint()
    refused = EventRefusal(4, 2, NOW)
    async with engine.open() as store:
        await store.webhooks.add(endpoint)
        queue, place = store.webhook_queue, endpoint.place
        await queue.refuse(place, CHAT, refused)
        assert await owed(store, endpoint) == [], "nothing is owed"
        await queue.owe(place, OwedStream(CHAT, 2, 5))
        await queue.refuse(place, CHAT, EventRefusal(4, 1, NOW - 1))
        await queue.refuse(place, CHAT, refused)
        await queue.advance(place, OwedStream(CHAT, 3, 5))
        await queue.owe(place, OwedStream(CHAT, 5, 6))
    async with engine.open() as store:
        assert await owed(store, endpoint) == [OwedStream(CHAT, 3, 6, refused)]
        await store.webhook_queue.advance(endpoint.place, OwedStream(CHAT, 6, 6))
        await store.webhook_queue.owe(endpoint.place, OwedStream(CHAT, 6, 7))
        assert await owed(store, endpoint) == [OwedStream(CHAT, 6, 7)]


def test_a_refusal_is_about_the_next_event_since_the_endpoint_was_changed() -> None:
    refused = EventRefusal(4, 2, NOW)
    assert OwedStream(CHAT, 3, 6, refused).refused(NOW) == refused
    assert OwedStream(CHAT, 4, 6, refused).refused(NOW) is None
    assert OwedStream(CHAT, 3, 6, refused).refused(NOW + 1) is None
    assert OwedStream(CHAT, 3, 6).refused(NOW) is None


async def test_owed_streams_come_in_pages(store: Store) -> None:
    place, chats = an_endpoint().place, sorted(new_chat_id() for _ in range(7))
    for chat in chats:
        await store.webhook_queue.owe(place, OwedStream(chat, 0, 1))
    await store.webhook_queue.owe(an_endpoint("other").place, OwedStream(CHAT, 0, 1))
    found: list[str] = []
    while page := await store.webhook_queue.owed(place, found[-1] if found else "", 3):
        found += [one.stream for one in page]
    assert found == chats


async def test_events_that_were_set_aside(store: Store) -> None:
    queue, place = store.webhook_queue, an_endpoint().place
    aside = [
        SetAside(
            stream=CHAT, sequence=number, type="message.created", status=422, attempts=10, at=NOW
        )
        for number in (2, 3, 10)
    ]
    for one in reversed(aside):
        await queue.set_aside(place, one)
    page = await queue.aside(place, None, 2)
    assert (page.rows, page.end) == (aside[:2], aside[1].delivery_id)
    assert await queue.aside(place, page.end, 2) == type(page)(aside[2:], None)
    await queue.take_back(place, aside[0].delivery_id)
    assert (await queue.aside(place, None, 9)).rows == aside[1:]


async def test_events_of_a_tenant_are_read_in_order(engine: Engine) -> None:
    endpoint = an_endpoint(events=("user.deleted",))
    async with engine.open() as store:
        await store.webhooks.add(endpoint)
        made = await asyncio.gather(
            *(
                store.tenant_events.append(TENANT, "user.deleted", {"n": n}, NOW, [endpoint.place])
                for n in range(5)
            )
        )
    async with engine.open() as store:
        events = sorted((event for event in made if event), key=lambda event: event.sequence)
        place = 0
        assert len({event.sequence for event in events}) == 5
        for event in events:
            assert await store.tenant_events.after(TENANT, place) == event
            assert await store.tenant_events.get(TENANT, event.sequence) == event
            place = event.sequence
        assert await store.tenant_events.after(TENANT, place) is None
        assert await store.tenant_events.after("other", 0) is None
        first, last = events[0].sequence, events[-1].sequence
        assert await owed(store, endpoint) == [OwedStream("events", first - 1, last)]
        later = await store.tenant_events.append(TENANT, "user.deleted", {}, NOW + KEPT_MS, [])
        assert later is not None and later.sequence == NOW + KEPT_MS
        assert await store.tenant_events.get(TENANT, later.sequence - 1) is None


async def test_an_event_with_the_name_of_a_fact_is_appended_once(engine: Engine) -> None:
    endpoint, other = an_endpoint("once"), an_endpoint("later")
    async with engine.open() as store:
        log = store.tenant_events
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    log.append(TENANT, "user.deleted", {"n": n}, NOW, [endpoint.place], "a fact")
                )
                for n in range(5)
            ]
        [event] = [task.result() for task in tasks if task.result() is not None]
        assert event is not None
    async with engine.open() as store:
        log = store.tenant_events
        assert await log.append(TENANT, "user.deleted", {}, NOW, [other.place], "a fact") is None
        assert await owed(store, other) == []
        assert await log.after(TENANT, 0) == event
        assert await log.after(TENANT, event.sequence) is None, "a name is no event"
        assert await log.append(TENANT, "user.deleted", {}, NOW, [], "another") is not None
        assert await log.append("other", "user.deleted", {}, NOW, [], "a fact") is not None

        while await log.remove(TENANT, 2):
            pass
        assert await log.append(TENANT, "user.deleted", {}, NOW, [], "a fact") is not None


async def test_the_rows_of_a_deleted_endpoint_are_removed_in_parts(store: Store) -> None:
    endpoint, other = an_endpoint("deleted"), an_endpoint("stays")
    queue, place = store.webhook_queue, endpoint.place
    aside = SetAside(stream=CHAT, sequence=2, type="chat.created", status=422, attempts=10, at=NOW)
    for one in (place, other.place):
        await queue.owe(one, OwedStream(EVENT_LOG, 0, 1))
        await queue.set_aside(one, aside)
    for _ in range(30):
        await queue.owe(place, OwedStream(new_chat_id(), 0, 1))
    removed = [await queue.remove(place, 2) for _ in range(2)]
    assert all(removed)
    assert sum(removed) < 32
    while await queue.remove(place, 20):
        pass
    assert await owed(store, endpoint) == []
    assert (await queue.aside(place, None, 9)).rows == []
    assert await owed(store, other) == [OwedStream(EVENT_LOG, 0, 1)]
    assert (await queue.aside(other.place, None, 9)).rows == [aside]


async def test_the_events_of_a_deleted_tenant_are_removed_in_parts(store: Store) -> None:
    log = store.tenant_events
    for tenant in ("acme", "acme", "acme", "other"):
        await log.append(tenant, "chat.created", {"n": 1}, NOW, [])
    while await log.remove("acme", 2):
        pass
    assert (await log.after("acme", 0), await log.after("other", 0) is None) == (None, False)


async def test_a_deleted_tenant_has_no_endpoints(store: Store) -> None:
    await store.webhooks.add(an_endpoint())
    await store.tenant_data.mark_deleted(TENANT, NOW)
    await store.tenant_data.forget(TENANT)
    assert await store.webhooks.of(TENANT) == []
