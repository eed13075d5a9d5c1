# SPDX-License-Identifier: Apache-2.0
"""The event `notification.delivered`: it comes once for each notification, however its jobs end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from tests.integration.engines import engine as engine
from tests.integration.inbox_world import Newsroom, open_newsroom, to_everyone, to_users
from tests.integration.rest_world import Rest
from tests.integration.webhook_town import a_town
from tests.integration.webhook_town import receiver as receiver
from tests.integration.webhook_town import rest as rest
from tests.support.waiting import until
from tests.support.webhook_receiver import WebhookReceiver
from tidings.actions.inbox.posting import jobs_for
from tidings.model.ids import rfc3339
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Job
from tidings.ports.world import new_ulid

pytestmark = pytest.mark.asyncio(loop_scope="module")

DELIVERED = "notification.delivered"
USERS = [f"u{number}" for number in range(150)]
"""As many as two jobs have."""


async def a_newsroom(rest: Rest, tenant: str) -> Newsroom:
    """A tenant with an inbox, and an endpoint that nobody asks."""
    news = await open_newsroom(rest, "news", tenant)
    hook = {"url": None, "events": [DELIVERED]}
    await news.actor.ok("PUT", f"/v1/tenants/{tenant}/webhooks/main", hook)
    return news


async def posted_jobs(news: Newsroom, users: Sequence[str] = USERS, **more: Any) -> list[Job]:
    """Post to the users, and return the jobs, which the test runs."""
    name = (await news.post(to_users(users, "Hello", **more)))["id"]
    stored = news.rest.core.store.notifications
    [posted] = await stored.get(news.tenant, news.inbox, [name])
    return jobs_for(posted, list(users))


async def run_together(rest: Rest, jobs: Sequence[Job]) -> None:
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(rest.core.inbox.deliver(job))


async def raised(rest: Rest, tenant: str) -> list[dict[str, object]]:
    """The data of the events in the tenant's log."""
    found, after = list[dict[str, object]](), 0
    while (event := await rest.core.store.tenant_events.after(tenant, after)) is not None:
        assert event.type == DELIVERED
        found.append(event.data)
        after = event.sequence
    return found


def failing(rest: Rest, is_stored: bool) -> Callable[..., Awaitable[None]]:
    """In place of `append` of a store that does not answer: whether it stores is unknown."""
    append: Callable[..., Awaitable[object]] = rest.core.store.tenant_events.append

    async def fail(*args: Any) -> None:
        if is_stored:
            await append(*args)
        raise StoreUnavailable

    return fail


def event_of(job: Job) -> dict[str, object]:
    everybody = len(USERS)
    name = job.notification_id
    return {
        "inbox": job.inbox, "notification_id": name, "recipients": everybody, "delivered": everybody
    }  # fmt: skip


async def test_hundreds_of_users_are_one_event(rest: Rest, receiver: WebhookReceiver) -> None:
    town = await a_town(rest, "hundreds", receiver)
    await town.put(DELIVERED, "user.deleted")
    news = await open_newsroom(rest, "news", "hundreds")
    users = [f"u{number}" for number in range(800)]
    posted = [await posted_jobs(news, users) for _ in range(2)]
    for jobs in posted:
        await run_together(rest, jobs)
    await rest.core.tenant_events("hundreds", "user.deleted", {"user_id": "the last"})
    await until(lambda: "user.deleted" in receiver.types())
    told = [one.data for one in receiver.taken if one.type == DELIVERED]
    assert [one["notification_id"] for one in told] == [jobs[0].notification_id for jobs in posted]
    assert {(one["recipients"], one["delivered"]) for one in told} == {(800, 800)}


async def test_jobs_that_finish_together_raise_it_once(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = await a_newsroom(rest, "together")
    jobs = await posted_jobs(news)
    finish, both = rest.core.store.notifications.finish_job, asyncio.Barrier(2)

    async def finish_both(*args: Any) -> None:
        await finish(*args)
        await both.wait()

    monkeypatch.setattr(rest.core.store.notifications, "finish_job", finish_both)
    await run_together(rest, jobs)
    assert await raised(rest, "together") == [event_of(jobs[0])]


async def test_a_job_that_is_not_the_last_raises_nothing(rest: Rest) -> None:
    news = await a_newsroom(rest, "not-last")
    first, last = await posted_jobs(news)
    for _ in range(2):
        await rest.core.inbox.deliver(first)
        assert await raised(rest, "not-last") == []
    for _ in range(2):
        await rest.core.inbox.deliver(last)
        assert await raised(rest, "not-last") == [event_of(last)]


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_job_that_runs_again_raises_what_it_could_not(
    rest: Rest, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = f"again-{is_stored}".lower()
    news = await a_newsroom(rest, tenant)
    first, last = await posted_jobs(news)
    await rest.core.inbox.deliver(first)
    with monkeypatch.context() as patched:
        patched.setattr(rest.core.store.tenant_events, "append", failing(rest, is_stored))
        with pytest.raises(StoreUnavailable):
            await rest.core.inbox.deliver(last)
    await rest.core.inbox.deliver(last)
    assert await raised(rest, tenant) == [event_of(last)]


async def test_a_notification_that_expires_meanwhile_is_reported(rest: Rest) -> None:
    news = await a_newsroom(rest, "expires")
    expires_at = rest.clock.now() + 60 * SECOND_MS
    first, last = await posted_jobs(news, expires_at=rfc3339(expires_at))
    await rest.core.inbox.deliver(first)
    rest.clock.time = expires_at
    await rest.core.inbox.deliver(last)
    assert await raised(rest, "expires") == [event_of(last)]


@pytest.mark.parametrize("has_endpoint", [False, True])
async def test_a_job_of_a_deleted_inbox_ends(
    rest: Rest, has_endpoint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = f"deleted-{has_endpoint}".lower()
    news = await a_newsroom(rest, tenant) if has_endpoint else None
    news = news or await open_newsroom(rest, "news", tenant)
    jobs = await posted_jobs(news)
    await news.actor.ok("DELETE", news.path)
    monkeypatch.setattr(rest.core.webhook_delivery.directory, "_cached", None)
    await run_together(rest, jobs)
    assert len(await raised(rest, tenant)) == int(has_endpoint)


async def test_a_job_of_a_removed_notification_ends(rest: Rest) -> None:
    news = await a_newsroom(rest, "removed")
    job = (await posted_jobs(news))[0]
    gone = new_ulid(rest.clock, rest.core.chance)
    await rest.core.inbox.deliver(msgspec.structs.replace(job, notification_id=gone))
    assert await raised(rest, "removed") == []


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_repeated_broadcast_raises_what_the_first_attempt_could_not(
    rest: Rest, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = f"everyone-{is_stored}".lower()
    news, key = await a_newsroom(rest, tenant), {"Idempotency-Key": "one"}
    with monkeypatch.context() as patched:
        patched.setattr(rest.core.store.tenant_events, "append", failing(rest, is_stored))
        assert (await news.try_post(to_everyone("Hello"), key)).status_code == 503
    name = (await news.post(to_everyone("Hello"), key))["id"]
    await news.post(to_everyone("Hello"), key)
    other = (await news.post(to_everyone("Hello")))["id"]
    assert [one["notification_id"] for one in await raised(rest, tenant)] == [name, other]
