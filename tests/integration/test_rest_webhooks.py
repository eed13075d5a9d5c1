# SPDX-License-Identifier: Apache-2.0
"""Webhook endpoints: what they get, in which order, and what happens when they do not take it."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Rest
from tests.integration.webhook_town import Town, a_town
from tests.integration.webhook_town import receiver as receiver
from tests.integration.webhook_town import rest as rest
from tests.support.waiting import until
from tests.support.webhook_receiver import Received, WebhookReceiver
from tidings.actions.webhooks.removing import SETTLE_MS
from tidings.model import webhooks
from tidings.model.limits import DAY_MS
from tidings.ports.tenant_jobs import NotYet

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR_MS = DAY_MS // 24


async def test_everything_that_happens_in_a_chat_comes_in_order(
    rest: Rest, receiver: WebhookReceiver
) -> None:
    town = await a_town(rest, "order", receiver)
    made = await town.put()
    assert made["secret"].startswith("whsec_")
    ann, bob, _ = await town.users("ann", "bob", "cat")
    chat = await ann.group("bob", name="Crew")
    await ann.send(chat, "m1", "hello")
    message = f"/v1/chats/{chat}/messages/2"
    await ann.ok("PATCH", message, {"content": "hello all"})
    await bob.ok("PUT", f"{message}/reactions/👍")
    await bob.ok("DELETE", f"{message}/reactions/👍")
    await ann.ok("PUT", f"/v1/chats/{chat}/members/cat", {"role": "member"})
    await ann.ok("PUT", f"/v1/chats/{chat}/members/cat", {"role": "admin"})
    await ann.ok("DELETE", f"/v1/chats/{chat}/members/cat")
    await ann.ok("PATCH", f"/v1/chats/{chat}", {"name": "Crew 2"})
    await town.backend.ok(
        "PATCH",
        f"/v1/tenants/{town.tenant}/chats/{chat}",
        {"frozen": False, "slow_mode_seconds": 1},
    )
    await ann.ok("DELETE", message)
    await ann.ok("DELETE", f"/v1/chats/{chat}")
    await until(lambda: "chat.deleted" in receiver.types())
    assert receiver.types() == [
        "chat.created",
        "message.created",
        "message.edited",
        "reaction.added",
        "reaction.removed",
        "member.added",
        "member.role_changed",
        "member.removed",
        "chat.renamed",
        "chat.settings",
        "message.redacted",
        "chat.deleted",
    ]
    assert [one.webhook_id for one in receiver.taken] == [
        f"main.{chat}.{sequence}" for sequence in range(1, 13)
    ]
    await until(town.deliveries, equals=[])


async def test_content_is_as_it_is_at_the_attempt(rest: Rest, receiver: WebhookReceiver) -> None:
    town = await a_town(rest, "fresh", receiver)
    await town.put("message.created", "message.edited")
    ann, _ = await town.users("ann", "bob")
    chat = await ann.group("bob")
    receiver.answer = lambda _: 503
    await ann.send(chat, "m1", "secret words")
    await until(lambda: receiver.asked)
    assert receiver.asked[0].data["content"] == "secret words"
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/2")
    receiver.answer = None
    await town.got_later((chat, 2))
    told = receiver.taken[0].data
    assert (told["redacted"], told.get("content")) == (True, None)


async def test_an_endpoint_that_fails_is_asked_less_and_less_and_misses_nothing(
    rest: Rest, receiver: WebhookReceiver
) -> None:
    town = await a_town(rest, "fails", receiver)
    await town.put("message.created")
    ann, _ = await town.users("ann", "bob")
    chats = [await ann.group("bob") for _ in range(6)]
    receiver.answer = lambda _: 500
    for chat in chats:
        await ann.send(chat, "m1")
        await ann.send(chat, "m2")
    await until(lambda: len(receiver.asked) >= 1)
    await until(lambda: rest.core.webhook_delivery.couriers.depths()["failing"] >= 1)
    asked = len(receiver.asked)
    assert asked <= webhooks.SOCKETS_MAX
    assert {one["state"] for one in await town.deliveries()} == {"waiting"}

    async def failing() -> bool:
        return (await town.get())["failing_since"] is not None

    await until(failing)
    await town.later(webhooks.BACK_OFF_MS)
    await until(lambda: len(receiver.asked) > asked)
    receiver.answer = None
    await town.got_later(*((chat, sequence) for chat in chats for sequence in (2, 3)))
    for chat in chats:
        places = [one.place for one in receiver.taken if one.place[0] == chat]
        assert places == [(chat, 2), (chat, 3)]

    async def healthy() -> bool:
        return (await town.get())["failing_since"] is None

    await until(healthy)


async def test_an_event_that_is_refused_is_set_aside_after_an_hour(
    rest: Rest, receiver: WebhookReceiver
) -> None:
    town = await a_town(rest, "refuses", receiver)
    await town.put("message.created")
    ann, _ = await town.users("ann", "bob")
    chat, other = await ann.group("bob"), await ann.group("bob")

    def bad(one: Received) -> int:
        return 422 if one.data.get("client_message_id") == "bad" else 200

    receiver.answer = bad
    await ann.send(chat, "bad")
    await ann.send(chat, "good")
    await ann.send(other, "m1")
    await town.got((other, 2))

    async def asked_again() -> int:
        # The courier notes a refusal at a time of its own, so time passes until it asks again.
        await town.later(webhooks.REFUSED_WAITS_MS[-1])
        return sum(bad(one) == 422 for one in receiver.asked)

    await until(asked_again, equals=webhooks.ATTEMPTS_MAX)
    await town.got((chat, 3))
    assert sum(webhooks.REFUSED_WAITS_MS) <= HOUR_MS
    [aside] = await town.deliveries("failed")
    assert (aside["delivery_id"], aside["status"]) == (f"{chat}.2", 422)
    assert (aside["attempts"], aside["type"]) == (webhooks.ATTEMPTS_MAX, "message.created")

    path = town.path(f"/deliveries/{chat}.2/replay")
    again = await town.backend.ok("POST", path)
    assert (again["state"], again["status"]) == ("failed", 422)
    receiver.answer = None
    assert (await town.backend.ok("POST", path))["state"] == "delivered"
    await until(town.deliveries, equals=[])
    nowhere = town.path(f"/deliveries/{chat}.99/replay")
    assert await town.backend.refused("POST", nowhere) == (404, "webhook.delivery_not_found")


async def test_an_event_that_the_endpoint_does_not_get_is_not_replayed(
    rest: Rest, receiver: WebhookReceiver
) -> None:
    town = await a_town(rest, "unwanted", receiver)
    await town.put("message.created", "session.revoked")
    ann, _ = await town.users("ann", "bob")
    chat = await ann.group("bob")
    await ann.send(chat, "m1")
    await ann.ok("PUT", f"/v1/chats/{chat}/messages/2/reactions/%F0%9F%91%8D")
    await rest.core.tenant_events(town.tenant, "session.revoked", {"user_id": "bob"})
    await until(lambda: len(receiver.taken) == 2)
    await until(town.deliveries, equals=[])
    [own] = [one for one in receiver.taken if one.type == "session.revoked"]
    names = [f"{chat}.{sequence}" for sequence in (1, 2, 3)] + [f"events.{own.place[1]}"]

    async def replay(name: str) -> int:
        path = town.path(f"/deliveries/{name}/replay")
        answer = await town.backend.call("POST", path)
        return answer.status_code

    assert [await replay(name) for name in names] == [404, 200, 404, 200]
    await town.put("chat.created", "reaction.added")
    assert [await replay(name) for name in names] == [200, 404, 200, 404]
    asked = [one.type for one in receiver.asked[2:]]
    assert asked == ["message.created", "session.revoked", "chat.created", "reaction.added"]


async def test_an_endpoint_that_is_gone_is_disabled_and_goes_on_from_its_place(
    rest: Rest, receiver: WebhookReceiver
) -> None:
    town = await a_town(rest, "gone", receiver)
    await town.put("message.created")
    ann, _ = await town.users("ann", "bob")
    chat = await ann.group("bob")
    receiver.answer = lambda _: 410
    await ann.send(chat, "m1")

    async def disabled() -> bool:
        return str((await town.get())["disabled_by"]) == "gone"

    await until(disabled)
    receiver.answer = None
    await ann.send(chat, "m2")
    rest.clock.time += 60_000
    assert receiver.taken == []
    await town.put("message.created")
    await run_jobs(rest, town.tenant)
    await town.got((chat, 2), (chat, 3))
    places = [one.place for one in receiver.taken]
    assert places.index((chat, 2)) < places.index((chat, 3))

    await town.put("message.created", enabled=False)
    await ann.send(chat, "m3")
    rest.clock.time += 60_000
    await town.put("message.created", enabled=True, resume="now")
    rest.clock.time += 1
    await ann.send(chat, "m4")
    await town.got((chat, 5))
    assert (chat, 4) not in {one.place for one in receiver.taken}


async def run_jobs(rest: Rest, tenant: str) -> None:
    """Do all steps of the tenant's jobs."""
    kinds, jobs = rest.core.tenant_work.kinds, rest.core.store.tenant_jobs
    for job in await jobs.running(tenant, 100):
        leased = await jobs.lease(job, "test", rest.clock.now())
        while leased is not None and leased.state == "running":
            leased = await kinds[leased.kind].step(leased)
            await jobs.save(leased, "test")


async def test_nothing_taken_for_five_days(rest: Rest, receiver: WebhookReceiver) -> None:
    town = await a_town(rest, "dead", receiver)
    await town.put("message.created")
    ann, _ = await town.users("ann", "bob")
    chat = await ann.group("bob")
    receiver.answer = lambda _: 502
    await ann.send(chat, "m1")

    async def failing() -> bool:
        return (await town.get())["failing_since"] is not None

    await until(failing)
    await town.later(webhooks.TAKES_NOTHING_MS + 1)

    async def disabled() -> bool:
        found = await town.get()
        return (found["enabled"], found["disabled_by"]) == (False, "failing")

    await until(disabled)


async def test_a_period_is_replayed(rest: Rest, receiver: WebhookReceiver) -> None:
    town = await a_town(rest, "again", receiver)
    await town.put("message.created", "user.deleted")
    ann, _ = await town.users("ann", "bob")
    chat = await ann.group("bob")
    times = []
    for number in range(3):
        rest.clock.time += 1_000
        times.append((await ann.send(chat, f"m{number}"))["created_at"])
    await rest.core.tenant_events(town.tenant, "user.deleted", {"user_id": "zoe"})
    await until(lambda: len(receiver.taken) == 4)
    receiver.taken.clear()
    rest.clock.time += 60_000
    started = await town.backend.ok(
        "POST", town.path("/replay"), {"from": times[1], "to": times[1]}
    )
    await run_jobs(rest, town.tenant)
    await town.got((chat, 3))
    job = await town.backend.ok("GET", f"/v1/tenants/{town.tenant}/jobs/{started['job']}")
    assert (job["state"], job["kind"]) == ("done", "webhook.replay")
    await until(lambda: not rest.core.webhook_delivery.couriers.is_busy((town.tenant, "main")))
    assert [one.place for one in receiver.taken] == [(chat, 3)]
    wrong = {"from": times[2], "to": times[1]}
    assert await town.backend.refused("POST", town.path("/replay"), wrong) == (
        400,
        "request.invalid",
    )


async def test_a_secret_is_replaced_within_a_day(rest: Rest, receiver: WebhookReceiver) -> None:
    town = await a_town(rest, "rotates", receiver)
    old = (await town.put("message.created"))["secret"]
    new = (await town.backend.ok("POST", town.path("/secret")))["secret"]
    assert new != old
    for secret in (old, new):
        receiver.secret = secret
        assert (await town.backend.ok("POST", town.path("/test")))["state"] == "delivered"
    rest.clock.time += webhooks.PREVIOUS_SECRET_MS
    receiver.secret = new
    assert (await town.backend.ok("POST", town.path("/test")))["state"] == "delivered"
    receiver.secret = old
    assert (await town.backend.ok("POST", town.path("/test")))["status"] == 401
    assert "secret" not in await town.get()
    listed = await town.backend.ok("GET", town.path().removesuffix("/main"))
    assert [one["webhook_id"] for one in listed["data"]] == ["main"]
    await town.backend.ok("DELETE", town.path())
    assert await town.backend.refused("GET", town.path()) == (404, "webhook.not_found")
    assert (await town.put("message.created"))["secret"] not in (old, new)


async def a_town_that_is_owed(
    rest: Rest, tenant: str, receiver: WebhookReceiver
) -> tuple[Town, webhooks.WebhookEndpoint]:
    """A town with a message that its endpoint does not take, and the endpoint."""
    town = await a_town(rest, tenant, receiver)
    await town.put("message.created")
    receiver.answer = lambda _: 503
    ann, _ = await town.users("ann", "bob")
    await ann.send(await ann.group("bob"), "m1")
    [endpoint] = await rest.core.store.webhooks.of(town.tenant)
    return town, endpoint


async def test_what_a_deleted_endpoint_was_owed_is_removed(
    rest: Rest, receiver: WebhookReceiver
) -> None:
    town, endpoint = await a_town_that_is_owed(rest, "leaves", receiver)
    queue = rest.core.store.webhook_queue

    async def owed() -> int:
        return len(await queue.owed(endpoint.place, "", 10))

    await until(lambda: receiver.asked)  # what the message is owed is stored
    await until(owed, equals=1)
    await town.backend.ok("DELETE", town.path())
    with pytest.raises(NotYet):  # others may owe it something meanwhile
        await run_jobs(rest, town.tenant)
    rest.clock.time += SETTLE_MS
    await town.put("message.created")
    await run_jobs(rest, town.tenant)
    assert await owed() == 0
    assert len(await rest.core.store.webhooks.of(town.tenant)) == 1, "the next one stays"


async def test_a_job_removes_nothing_of_an_endpoint_that_was_not_deleted(
    rest: Rest, receiver: WebhookReceiver
) -> None:
    town, endpoint = await a_town_that_is_owed(rest, "stays", receiver)
    queue = rest.core.store.webhook_queue
    await until(lambda: receiver.asked)  # the message, which stays; the row of the group does not
    await rest.core.start_job(town.tenant, "webhook.delete", "main", "j1", endpoint.place)
    rest.clock.time += SETTLE_MS
    await run_jobs(rest, town.tenant)
    assert len(await queue.owed(endpoint.place, "", 10)) == 1
