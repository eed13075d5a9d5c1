# SPDX-License-Identifier: Apache-2.0
"""Broadcasts whose posts broke off after the entry was stored: a repeat completes them, once."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.engines import engine as engine
from tests.integration.inbox_world import Newsroom, open_newsroom, to_everyone
from tests.integration.rest_world import Rest, problem
from tests.support.push import with_fake_providers
from tidings.actions.inbox.posting import FRAME_REPEATED_MS
from tidings.model.ids import rfc3339
from tidings.model.refusals import StoreUnavailable
from tidings.model.webhooks import TenantEvent
from tidings.ports.bus import BroadcastPosted
from tidings.ports.scheduled_notifications import due_of_notification
from tidings.ports.tenant_jobs import TenantJob

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = {"Idempotency-Key": "once"}
DELIVERED = "notification.delivered"

_numbers = count(1)


class Follows:
    """A newsroom whose tenant has push and an endpoint, and what follows from its posts."""

    def __init__(self, news: Newsroom) -> None:
        self.news, self.posted = news, list[int]()
        news.rest.core.bus.subscribe(self._on_posted, BroadcastPosted)

    def _on_posted(self, event: BroadcastPosted) -> None:
        if event.tenant == self.news.tenant:
            self.posted.append(event.sequence)

    async def jobs(self) -> list[TenantJob]:
        return await self.news.rest.core.store.tenant_jobs.running(self.news.tenant, 10)

    async def events(self) -> list[TenantEvent]:
        log, found, last = self.news.rest.core.store.tenant_events, list[TenantEvent](), 0
        while (event := await log.after(self.news.tenant, last)) is not None:
            found.append(event)
            last = event.sequence
        return found

    async def post(self, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """Post for everyone; the status, and the id of the notification or the code."""
        answer = await self.news.try_post(to_everyone("Hello"), headers or KEY)
        if not answer.is_success:
            return problem(answer)
        return answer.status_code, str(answer.json()["id"])


@pytest_asyncio.fixture(loop_scope="module")
async def follows(rest: Rest) -> Follows:
    with_fake_providers(rest.core.push)
    tenant = f"n{next(_numbers)}"
    news = await open_newsroom(rest, "news", tenant)
    await news.actor.ok("PUT", f"/v1/tenants/{tenant}/push", {"fcm": {"key": "k"}})
    endpoint = {"url": None, "events": [DELIVERED, "notification.acted"]}
    await news.actor.ok("PUT", f"/v1/tenants/{tenant}/webhooks/main", endpoint)
    return Follows(news)


def failing_once(
    real: Callable[..., Awaitable[Any]], *, is_done: bool = False
) -> Callable[..., Awaitable[Any]]:
    """The first call gets no answer, and is done nevertheless if the test says so."""
    calls = count(1)

    async def call(*args: Any, **more: Any) -> Any:
        if next(calls) > 1:
            return await real(*args, **more)
        if is_done:
            await real(*args, **more)
        raise StoreUnavailable

    return call


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_repeat_completes_a_broadcast_whose_event_got_no_answer(
    follows: Follows, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    log = follows.news.rest.core.store.tenant_events
    monkeypatch.setattr(log, "append", failing_once(log.append, is_done=is_done))
    assert await follows.post() == (503, "store.unavailable")
    assert follows.posted == []
    for times in (1, 2):
        assert await follows.post() == (202, "b1")
        assert [(job.kind, job.subject) for job in await follows.jobs()] == [
            ("push.everyone", "news:1")
        ]
        assert [(one.type, one.data["notification_id"]) for one in await follows.events()] == [
            (DELIVERED, "b1")
        ]
        assert follows.posted == [1] * times, "devices may have missed the frame of the first"
    follows.news.rest.clock.time += FRAME_REPEATED_MS + 1
    assert await follows.post() == (202, "b1")
    assert (follows.posted, len(await follows.events())) == ([1, 1], 1)


@pytest.mark.parametrize("part", ["settings", "job"])
async def test_no_broadcast_is_answered_before_its_push_is_a_job(
    follows: Follows, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    core = follows.news.rest.core
    if part == "settings":
        core.push.directory.changed(follows.news.tenant)
        monkeypatch.setattr(core.store.push, "settings", failing_once(core.store.push.settings))
    else:
        jobs = core.store.tenant_jobs
        monkeypatch.setattr(jobs, "create", failing_once(jobs.create))
    assert await follows.post() == (503, "store.unavailable")
    assert await follows.jobs() == []
    assert await follows.post() == (202, "b1")
    assert [job.subject for job in await follows.jobs()] == ["news:1"]
    assert (len(await follows.events()), follows.posted) == (1, [1])


async def test_a_broadcast_without_push_starts_no_job(follows: Follows) -> None:
    off = {"fcm": None}
    await follows.news.actor.ok("PUT", f"/v1/tenants/{follows.news.tenant}/push", off)
    assert await follows.post() == (202, "b1")
    assert (await follows.jobs(), follows.posted) == ([], [1])


async def test_each_broadcast_has_its_own_event(follows: Follows) -> None:
    assert await follows.post({"Idempotency-Key": "another"}) == (202, "b1")
    for _ in range(2):
        assert await follows.post() == (202, "b2")
    assert [one.data["notification_id"] for one in await follows.events()] == ["b1", "b2"]


async def test_a_scheduled_broadcast_is_completed_when_the_timer_tries_again(
    follows: Follows, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = follows.news
    core, clock = news.rest.core, news.rest.clock
    body = to_everyone("Later", deliver_at=rfc3339(clock.time + 60_000))
    name = (await news.post(body))["id"]
    (found,) = await core.store.notifications.get(news.tenant, news.inbox, [name])
    due = due_of_notification(found, clock.time)
    clock.time += 60_000
    log = core.store.tenant_events
    monkeypatch.setattr(log, "append", failing_once(log.append))
    with pytest.raises(StoreUnavailable):
        await core.due_work["inbox"].do(due)
    for _ in range(2):
        await core.due_work["inbox"].do(due)
        assert [job.subject for job in await follows.jobs()] == ["news:1"]
        assert [one.data["notification_id"] for one in await follows.events()] == [name]
    assert follows.posted == [1]
