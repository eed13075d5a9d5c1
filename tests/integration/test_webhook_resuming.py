# SPDX-License-Identifier: Apache-2.0
"""An endpoint that is enabled again goes on, whatever happens meanwhile."""

from typing import Any

import pytest

from tests.integration.engines import engine as engine
from tests.integration.rest_world import Actor, Rest
from tests.integration.test_rest_webhooks import run_jobs
from tests.integration.webhook_town import Town, a_town
from tests.integration.webhook_town import receiver as receiver
from tests.integration.webhook_town import rest as rest
from tests.support.waiting import until
from tests.support.webhook_receiver import WebhookReceiver
from tidings.actions.webhooks.resuming import STARTED_MS, ResumeEndpoints
from tidings.delivery.courier import Courier
from tidings.model.ids import ChatId
from tidings.model.webhooks import OwedStream
from tidings.stores.dynamodb.store import DynamoStore

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def disabled_town(
    rest: Rest, tenant: str, receiver: WebhookReceiver
) -> tuple[Town, Actor, str]:
    """A tenant whose endpoint was disabled for a minute, in which it has missed a message."""
    town = await a_town(rest, tenant, receiver)
    await town.put("message.created")
    ann, _ = await town.users("ann", "bob")
    chat = await ann.group("bob")
    await town.put("message.created", enabled=False)
    rest.clock.time += 60_000
    await ann.send(chat, "m1")
    if isinstance(rest.core.store, DynamoStore):
        await rest.core.store.heads.settled(ChatId(chat))  # else it is owed once more, later
    rest.clock.time += 60_000
    return town, ann, chat


async def enable_and_die(
    town: Town, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enable the endpoint in a process that dies before it has started the job."""

    async def die(*_: object) -> None:
        raise RuntimeError("the process dies")

    with monkeypatch.context() as patched:
        patched.setattr(ResumeEndpoints, "__call__", die)
        body = {"url": receiver.url, "events": ["message.created"]}
        assert (await town.backend.call("PUT", town.path(), body)).status_code == 500


async def test_a_process_may_die_after_it_has_enabled_an_endpoint(
    rest: Rest, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    town, ann, chat = await disabled_town(rest, "died", receiver)
    await enable_and_die(town, receiver, monkeypatch)
    assert (await town.get())["enabled"] is True
    rest.clock.time += STARTED_MS
    await ann.send(chat, "m2")
    jobs = rest.core.store.tenant_jobs
    await until(lambda: jobs.running(town.tenant, 100))
    await run_jobs(rest, town.tenant)
    await town.got((chat, 2), (chat, 3))
    places = [one.place for one in receiver.taken]
    assert places.index((chat, 2)) < places.index((chat, 3))


async def test_a_repeated_request_starts_the_job_that_the_first_did_not(
    rest: Rest, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    town, _, chat = await disabled_town(rest, "repeated", receiver)
    await enable_and_die(town, receiver, monkeypatch)
    await town.put("message.created")
    await run_jobs(rest, town.tenant)
    await town.got((chat, 2))


async def test_an_endpoint_that_is_changed_while_it_resumes_goes_on(
    rest: Rest, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    town, _, chat = await disabled_town(rest, "changed", receiver)
    await town.put("message.created")
    queue, rotated = rest.core.store.webhook_queue, list[Any]()
    owe = queue.owe

    async def owe_late(place: str, owed: OwedStream) -> None:
        if not rotated:
            rotated.append(await town.backend.ok("POST", town.path("/secret")))
            receiver.secret = rotated[0]["secret"]
        await owe(place, owed)

    monkeypatch.setattr(queue, "owe", owe_late)
    await run_jobs(rest, town.tenant)
    await town.got((chat, 2))


async def test_a_courier_waits_until_the_job_is_certainly_missing(
    rest: Rest, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    town, ann, chat = await disabled_town(rest, "waits", receiver)
    await enable_and_die(town, receiver, monkeypatch)
    rest.clock.time += STARTED_MS // 2
    await ann.send(chat, "m2")
    couriers = rest.core.webhook_delivery.couriers
    assert await couriers.turn(Courier((town.tenant, "main"))) == STARTED_MS // 2
    await until(lambda: couriers.is_busy((town.tenant, "main")))
    await town.later(STARTED_MS // 2)
    await until(lambda: rest.core.store.tenant_jobs.running(town.tenant, 100))
    await run_jobs(rest, town.tenant)
    await town.got((chat, 2), (chat, 3))


async def test_an_endpoint_that_is_set_again_while_it_resumes_gets_each_event_once(
    rest: Rest, receiver: WebhookReceiver
) -> None:
    town, _, chat = await disabled_town(rest, "again", receiver)
    jobs = rest.core.store.tenant_jobs
    for _ in range(2):
        await town.put("message.created")
        rest.clock.time += 1
        assert len(await jobs.running(town.tenant, 100)) == 1
    await town.put("message.created", "message.edited")
    assert len(await jobs.running(town.tenant, 100)) == 2
    await run_jobs(rest, town.tenant)
    await town.got((chat, 2))
    await until(lambda: not rest.core.webhook_delivery.couriers.is_busy((town.tenant, "main")))
    assert [one.place for one in receiver.taken] == [(chat, 2)]
