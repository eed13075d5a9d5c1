# SPDX-License-Identifier: Apache-2.0
"""Push of notifications: to listed users by their preferences, and to everybody in a job."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest
import pytest_asyncio

from tests.integration.rest_world import Actor, Json, Rest, open_rest
from tests.support.engine import some_engine
from tests.support.push import FakeProvider, FakePush, with_fake_providers
from tidings.actions.push.inbox_notices import SEND_SECONDS_MAX
from tidings.assembly.push import LazyProviders
from tidings.assembly.push_queue import make_push_to_everyone
from tidings.metrics import declared
from tidings.model.ids import UserKey
from tidings.model.limits import DELETION_LEASE_MS, SECOND_MS
from tidings.model.push import PushRegistration
from tidings.model.refusals import StoreUnavailable
from tidings.ports.push import PushCredentials, PushNotice, PushOutcome, PushTarget
from tidings.ports.tenant_jobs import NotYet, TenantJob

pytestmark = pytest.mark.asyncio(loop_scope="module")

_numbers = count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite", "dynamodb"])
async def rest(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Rest]:
    def endpoint() -> str:
        return str(request.getfixturevalue("dynamodb_endpoint"))

    async with some_engine(request.param, endpoint, streams=False) as settings:
        folder = tmp_path_factory.mktemp("rest")
        async with open_rest(folder, settings=settings) as opened:
            yield opened


@pytest.fixture
def fake(rest: Rest) -> FakePush:
    return with_fake_providers(rest.core.push)


class News:
    """A tenant with an inbox, and users with phones."""

    def __init__(self, rest: Rest, fake: FakePush, backend: Actor, tenant: str) -> None:
        self.rest, self.fake, self.backend, self.tenant = rest, fake, backend, tenant
        self.inbox = f"/v1/tenants/{tenant}/inboxes/news"

    async def user(self, name: str) -> Actor:
        user = await self.rest.user(name, self.tenant)
        body = {"provider": "fcm", "token": f"{self.tenant} {name}", "app": "news"}
        await user.ok("PUT", "/v1/me/devices/phone/push", body)
        return user

    async def post(self, users: list[str] | None, category: str | None = None) -> str:
        listed = {"kind": "users", "uids": users}
        audience = {"kind": "everyone"} if users is None else listed
        body: Json = {"message": {"title": "Sale", "body": "Today"}, "audience": audience}
        body |= {} if category is None else {"category": category}
        told = await self.backend.ok("POST", f"{self.inbox}/notifications", body)
        return str(told["id"])

    async def notify(self, notification: str, *names: str) -> int:
        users = [UserKey(f"{self.tenant}:{name}") for name in names]
        return await self.rest.core.push.notify_inbox.listed(
            self.tenant, "news", notification, users
        )

    @property
    def notified(self) -> list[str]:
        return sorted(target.address.partition(" ")[2] for target, _ in self.fake.sent)


@pytest_asyncio.fixture(loop_scope="module")
async def news(rest: Rest, fake: FakePush) -> News:
    tenant = f"n{next(_numbers)}"
    made = News(rest, fake, await rest.tenant(tenant), tenant)
    settings = {"fcm": {"key": "k"}, "content": "preview"}
    await made.backend.ok("PUT", f"/v1/tenants/{tenant}/push", settings)
    await made.backend.ok("PUT", made.inbox, {"title": "News"})
    return made


async def test_listed_users_are_notified_by_their_preferences(news: News) -> None:
    for name in ("ann", "bob"):
        await news.user(name)
    await news.rest.user("cat", news.tenant)
    bob = await news.rest.user("bob", news.tenant)
    off = {"categories": {"offers": {"push": False}}}
    await bob.ok("PUT", "/v1/inboxes/news/preferences", off)

    name = await news.post(["ann", "bob", "cat"], "offers")
    assert await news.notify(name, "ann", "bob", "cat") == 1
    assert news.notified == ["ann"]
    (_, notice) = news.fake.sent[0]
    assert (notice.kind, notice.title, notice.body) == ("notification", "Sale", "Today")
    assert notice.data == {"inbox": "news", "notification_id": name}

    other = await news.post(["ann", "bob"])
    assert await news.notify(other, "ann", "bob") == 2


async def test_quiet_hours_hold_notices_back(news: News) -> None:
    ann = await news.user("ann")
    quiet = {"from": "00:00", "to": "23:59", "timezone": "UTC"}
    await ann.ok("PUT", "/v1/inboxes/news/preferences", {"quiet_hours": quiet})
    name = await news.post(["ann"])
    assert await news.notify(name, "ann") == 0
    assert news.notified == []


async def test_a_retracted_notification_is_not_pushed(news: News) -> None:
    await news.user("ann")
    name = await news.post(["ann"])
    await news.backend.ok("DELETE", f"{news.inbox}/notifications/{name}")
    assert await news.notify(name, "ann") == 0


async def test_a_user_whose_devices_cannot_be_read_keeps_nobody_else_from_a_notice(
    news: News, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = news.rest.core
    for name in ("ann", "bob"):
        await news.user(name)
    shown = await core.inbox.showing.copy_text(news.tenant, "news", await news.post(["ann", "bob"]))
    assert shown is not None
    ann, bob = (UserKey(f"{news.tenant}:{name}") for name in ("ann", "bob"))
    core.push.directory.changed(ann)
    failed, devices = declared.push.counts["failed"], core.store.push.of

    async def those_of_bob(user: UserKey) -> list[PushRegistration]:
        if user == ann:
            raise StoreUnavailable
        return await devices(user)

    monkeypatch.setattr(core.store.push, "of", those_of_bob)
    await core.push.notify_inbox.notify(news.tenant, "news", shown, [ann, bob])
    assert news.notified == ["bob"]
    assert declared.push.counts["failed"] == failed + 1


class HangingProvider(FakeProvider):
    """A push service that does not answer for Ann. The time is up when Bob is notified."""

    def __init__(self, fake: FakePush) -> None:
        super().__init__("fcm", fake)
        self.limit: asyncio.Timeout | None = None

    async def send(
        self, credentials: PushCredentials, target: PushTarget, notice: PushNotice
    ) -> PushOutcome:
        if target.address.endswith("ann"):
            await asyncio.Event().wait()
        outcome = await super().send(credentials, target, notice)
        assert self.limit is not None
        self.limit.reschedule(asyncio.get_running_loop().time())
        return outcome


async def test_a_push_service_that_does_not_answer_ends_no_lease(
    news: News, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SEND_SECONDS_MAX * SECOND_MS < DELETION_LEASE_MS / 2
    providers = news.rest.core.push.send.providers
    assert isinstance(providers, LazyProviders)
    hanging = HangingProvider(news.fake)
    providers.replace(hanging)
    begin = asyncio.timeout

    def timeout(seconds: float | None) -> asyncio.Timeout:
        limit = begin(seconds)
        if seconds == SEND_SECONDS_MAX:
            hanging.limit = limit
        return limit

    monkeypatch.setattr(asyncio, "timeout", timeout)
    for name in ("ann", "bob"):
        await news.user(name)
    await news.post(None)
    job = await make_push_to_everyone(news.rest.core).step(await the_job(news))
    assert (job.state, news.notified) == ("done", ["bob"])


async def the_job(news: News) -> TenantJob:
    """The job that the newest broadcast started."""
    return (await news.rest.core.store.tenant_jobs.running(news.tenant, 10))[-1]


async def test_everybody_is_notified_in_a_job(news: News) -> None:
    for name in ("ann", "bob", "cat"):
        await news.user(name)
    await news.post(None)
    job = await the_job(news)
    assert job.kind == "push.everyone"

    job = await make_push_to_everyone(news.rest.core).step(job)

    assert (job.state, job.counts) == ("done", {"notified": 3})
    assert news.notified == ["ann", "bob", "cat"]


async def test_a_job_makes_one_step_in_a_second(
    news: News, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.actions.push.inbox_notices.USERS_AT_ONCE", 2)
    for name in ("ann", "bob", "cat"):
        await news.user(name)
    await news.post(None)
    steps = make_push_to_everyone(news.rest.core)
    job = await steps.step(await the_job(news))
    assert (job.state, news.notified) == ("running", ["ann", "bob"])
    with pytest.raises(NotYet):
        await steps.step(job)
    news.rest.clock.time += SECOND_MS
    job = await steps.step(job)
    assert (job.state, news.notified) == ("done", ["ann", "bob", "cat"])


async def test_a_retracted_broadcast_reaches_nobody_more(news: News) -> None:
    await news.user("ann")
    name = await news.post(None)
    job = await the_job(news)
    await news.backend.ok("DELETE", f"{news.inbox}/notifications/{name}")
    job = await make_push_to_everyone(news.rest.core).step(job)
    assert (job.state, news.notified) == ("done", [])
