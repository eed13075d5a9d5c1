# SPDX-License-Identifier: Apache-2.0
"""Couriers of webhook endpoints: reminders that move between processes, stale caches, old events,
and events of tenants while the store does not answer."""

from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from tests.integration.engines import engine as engine
from tests.integration.rest_world import Rest
from tests.integration.webhook_town import Town, a_town
from tests.integration.webhook_town import receiver as receiver
from tests.integration.webhook_town import rest as rest
from tests.support.delivery import at_once
from tests.support.waiting import until
from tests.support.webhook_receiver import WebhookReceiver
from tidings.actions.webhooks.events import TenantEvents
from tidings.actions.webhooks.reminders import Reminders, reminder_of
from tidings.delivery.courier import Courier
from tidings.delivery.webhook_couriers import RETRY_MS, WebhookCouriers
from tidings.delivery.webhook_events import EXPIRED_MS_MAX, SETTLED_MS, BusEvents
from tidings.delivery.webhooks import OWNED_MS, WebhookReminderWork
from tidings.model import webhooks
from tidings.model.ids import ChatId, user_key
from tidings.model.refusals import StoreUnavailable
from tidings.model.webhooks import TenantEvent, TenantEventType, WebhookEndpoint
from tidings.ports.bus import Expired, InboxRead
from tidings.ports.tenant_jobs import NotYet

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def town(
    rest: Rest, receiver: WebhookReceiver, request: pytest.FixtureRequest
) -> AsyncIterator[Town]:
    made = await a_town(rest, request.node.name.replace("_", "-")[5:30], receiver)
    await made.put()
    yield made
    await made.backend.ok("DELETE", made.path())


async def stored(town: Town) -> WebhookEndpoint:
    return (await town.rest.core.store.webhooks.of(town.tenant))[0]


async def stop_couriers(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the couriers of the server deliver nothing more, even if they are woken later."""
    couriers = town.rest.core.webhook_delivery.couriers
    monkeypatch.setattr(couriers, "_may_run", lambda _: False)
    await until(lambda: not couriers.is_busy((town.tenant, "main")))


def new_couriers(town: Town) -> WebhookCouriers:
    """Return couriers as a process that was just started has them. They run only when the test
    says so."""
    core, own = town.rest.core, town.rest.core.webhook_delivery.couriers
    return WebhookCouriers(
        directory=core.webhook_delivery.directory,
        queue=core.store.webhook_queue,
        read=own._read,
        attempt=own._attempt,
        health=own._health,
        resume=own._resume,
        clock=town.rest.clock,
    )


async def test_a_reminder_that_comes_back_from_another_process_is_kept(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stop_couriers(town, monkeypatch)
    couriers, name = new_couriers(town), (town.tenant, "main")
    work = WebhookReminderWork(couriers, town.rest.clock, is_alone=False)
    due = reminder_of(await stored(town), town.rest.clock.now(), 0)
    for _ in range(2):
        with pytest.raises(NotYet):
            await work.do(due)
        assert work.has(name)
        await until(lambda: not couriers.is_busy(name))
        town.rest.clock.time += OWNED_MS
        assert not work.has(name), "the process has lost it"
    with pytest.raises(NotYet):
        await work.do(due)
    await until(lambda: not couriers.is_busy(name))
    await work.do(due)
    assert not work.has(name)


async def test_a_courier_does_not_end_because_its_cache_is_old(
    town: Town, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, now = town.rest.core, town.rest.clock.now()
    await town.put(enabled=False)
    disabled = await stored(town)

    async def find_old(tenant: str, webhook_id: str) -> WebhookEndpoint | None:
        assert (tenant, webhook_id) == (town.tenant, "main")
        return disabled

    monkeypatch.setattr(core.webhook_delivery.directory, "find", find_old)
    await town.put(resume="now")
    data, places = {"user_id": "ann"}, [disabled.place]
    await core.store.tenant_events.append(town.tenant, "user.deleted", data, now, places)
    await core.webhook_delivery.couriers.turn(Courier((town.tenant, "main")))
    await until(lambda: "user.deleted" in receiver.types())


async def test_events_before_the_endpoint_are_passed_over_whatever_their_sequence(
    town: Town,
) -> None:
    core, clock = town.rest.core, town.rest.clock
    place = (await stored(town)).place
    await town.put(enabled=False)
    for _ in range(3):
        await core.store.tenant_events.append(town.tenant, "user.deleted", {}, clock.now(), [place])
    clock.time += 1
    await town.put(resume="now")
    await core.webhook_delivery.couriers.turn(Courier((town.tenant, "main")))
    assert await core.store.webhook_queue.owed(place, "", 9) == []


async def test_a_store_that_does_not_answer_lets_an_endpoint_wait(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, clock = town.rest.core, town.rest.clock

    async def fail(tenant: str, sequence: int) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(core.store.tenant_events, "after", fail)
    place = (await stored(town)).place
    await core.store.tenant_events.append(town.tenant, "user.deleted", {}, clock.now(), [place])
    wait_ms = await core.webhook_delivery.couriers.turn(Courier((town.tenant, "main")))
    assert wait_ms == RETRY_MS


async def test_what_an_endpoint_took_is_stored_before_it_waits_for_the_store(
    town: Town, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, clock = town.rest.core, town.rest.clock
    await stop_couriers(town, monkeypatch)
    couriers, events = new_couriers(town), []
    read = core.store.tenant_events.after
    place = (await stored(town)).place
    for name in ("ann", "ben"):
        data = {"user_id": name}
        event = await core.store.tenant_events.append(
            town.tenant, "user.deleted", data, clock.now(), [place]
        )
        assert event is not None
        events.append(event.sequence)

    async def fail_at_the_second(tenant: str, sequence: int) -> TenantEvent | None:
        if sequence >= events[0]:
            raise StoreUnavailable
        return await read(tenant, sequence)

    courier = Courier((town.tenant, "main"))
    with monkeypatch.context() as patch:
        patch.setattr(core.store.tenant_events, "after", fail_at_the_second)
        assert await couriers.turn(courier) == 0
        [owed] = await core.store.webhook_queue.owed(place, "", 9)
        assert [owed.sent, owed.head] == events, "the first is not posted again"
        assert await couriers.turn(courier) == RETRY_MS
    clock.time += RETRY_MS
    assert await couriers.turn(courier) == 0
    taken = [one.data["user_id"] for one in receiver.taken if one.type == "user.deleted"]
    assert taken == ["ann", "ben"]


async def test_an_event_on_which_the_endpoint_always_fails_holds_back_its_own_chat_only(
    town: Town, receiver: WebhookReceiver
) -> None:
    ann, _ = await town.users("ann", "bob")
    bad, good = sorted([await ann.group("bob") for _ in range(2)])
    await town.got((bad, 1), (good, 1))
    receiver.answer = lambda _: 500
    await ann.send(bad, "m1")
    couriers = town.rest.core.webhook_delivery.couriers
    await until(lambda: couriers.depths()["failing"] == 1)
    await ann.send(good, "m1")
    receiver.answer = lambda one: 500 if one.place[0] == bad else 204

    async def is_good() -> bool:
        await town.later(webhooks.BACK_OFF_MS_MAX)
        return (good, 2) in {one.place for one in receiver.taken}

    await until(is_good)
    receiver.answer = None
    await town.got_later((bad, 2))


class _Failing(TenantEvents):
    """Events of tenants over a store that does not answer at first."""

    failures = 3

    async def __call__(
        self,
        tenant: str,
        kind: TenantEventType,
        data: Mapping[str, object],
        once: str | None = None,
    ) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise StoreUnavailable
        await super().__call__(tenant, kind, data, once)


async def test_attempts_are_counted_across_restarts(
    town: Town, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stop_couriers(town, monkeypatch)
    monkeypatch.setattr(receiver, "answer", lambda _: 422)
    [ann] = await town.users("ann")
    chat = await ann.group()

    async def restart_and_try() -> int:
        """Let a process that was just started deliver what it finds."""
        town.rest.clock.time += webhooks.REFUSED_WAITS_MS[-1]
        await new_couriers(town).turn(Courier((town.tenant, "main")))
        return len(await town.deliveries("failed"))

    await until(restart_and_try, equals=1)
    [aside] = await town.deliveries("failed")
    assert aside["delivery_id"] == f"{chat}.1"
    assert aside["attempts"] == webhooks.ATTEMPTS_MAX
    assert len(receiver.asked) == webhooks.ATTEMPTS_MAX


async def test_events_of_the_bus_wait_for_the_store_and_are_stored_at_the_end(
    town: Town, receiver: WebhookReceiver
) -> None:
    core = town.rest.core
    remind = Reminders(core.store.due, core.clock, is_needed=False)
    directory = core.webhook_delivery.directory
    events = _Failing(directory, core.store.tenant_events, remind, core.clock)

    bus = BusEvents(events, core.store.log, core.clock, at_once)
    bus.on_inbox_read(InboxRead(user_key(town.tenant, "ann"), "news"))
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await bus.raise_all()
    await bus.close()
    await town.later(0)
    await until(lambda: "notification.read" in receiver.types())


async def test_what_several_relays_report_in_parts_becomes_one_event(
    town: Town, receiver: WebhookReceiver
) -> None:
    """Each relay reads all deletions of the last day, and divides them as it comes."""
    core, clock = town.rest.core, town.rest.clock
    [ann] = await town.users("ann")
    chat = ChatId(await ann.group())
    minute = clock.time
    relays = [BusEvents(core.tenant_events, core.store.log, clock, at_once) for _ in range(3)]
    for relay, parts in zip(relays[:2], ([(2, 3), (4,)], [(2,), (3, 4)]), strict=True):
        for part in parts:
            relay.on_expired(Expired(chat, part, minute))
            await relay.raise_all()
            clock.time += SETTLED_MS // 4
    clock.time = minute + SETTLED_MS
    relays[2].on_expired(Expired(chat, (2, 3, 4), minute))  # it has just started
    relays[2].on_expired(Expired(chat, (1,), minute - EXPIRED_MS_MAX))
    for relay in relays:
        await relay.raise_all()
    stored = core.store.tenant_events
    event = await stored.after(town.tenant, 0)
    assert event is not None
    assert event.data == {"chat_id": chat, "sequences": [2, 3, 4]}
    assert await stored.after(town.tenant, event.sequence) is None
