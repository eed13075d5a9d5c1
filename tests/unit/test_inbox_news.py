# SPDX-License-Identifier: Apache-2.0
"""What a device learns about its inboxes when it connects: counts up to a limit, and no more."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.cores import Deployment, open_deployment
from tests.support.canary import canary
from tests.support.users import ANN
from tests.unit.fake_connection import FakeConnection
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.inbox.reading import ListFilter
from tidings.actions.rate_limits import RateLimits
from tidings.gateway.inbox_counts import InboxGreeting
from tidings.limiters import InProcessBuckets
from tidings.model import limits
from tidings.model.chats import Unread
from tidings.model.ids import UserKey, ulid
from tidings.model.limits import DAY_MS
from tidings.model.notifications import Copy, InboxConfig, Posting
from tidings.model.refusals import InboxNotFound
from tidings.wire.frames import Hello

INBOX = ("acme", "news")


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Deployment]:
    async with open_deployment(tmp_path / "data") as deployment:
        await deployment.people(ANN)
        await deployment.core.store.inbox_settings.put_config(*INBOX, InboxConfig(title="News"))
        yield deployment


async def broadcast(opened: Deployment) -> str:
    opened.clock.time += 1
    posting = Posting(users=None, message={"title": canary("title"), "body": "…"}, category="c")
    return (await opened.core.inbox.post(*INBOX, posting, None)).notification_id


async def deliver(opened: Deployment, count: int = 1) -> list[str]:
    """Copies of notifications; the ids, oldest first."""
    ids = []
    for _ in range(count):
        opened.clock.time += 1
        now = opened.clock.now()
        ids.append(ulid(now, bytes(10)))
        copy = Copy(
            notification_id=ids[-1], category=None, received_at=now, expires_at=now + DAY_MS
        )
        await opened.core.store.copies.deliver([ANN], "news", copy)
    return ids


async def missed(opened: Deployment, last: str | None) -> Unread:
    return (await opened.core.inbox.unread.news(ANN, "news", last)).missed


async def test_missed_is_what_stands_above_in_the_list(opened: Deployment) -> None:
    for _ in range(3):
        await deliver(opened)
        await broadcast(opened)
    posting = Posting(users=["ann"], message={"title": canary("title"), "body": "…"})
    await opened.core.inbox.post(*INBOX, posting, None)
    await opened.core.inbox.redact(*INBOX, "b2")
    page, _ = await opened.core.inbox.list(ANN, "news", ListFilter(limit=100))
    shown = [one.received.notification_id for one in page]
    assert [(await missed(opened, one)).count for one in shown] == await _above(opened, shown)
    assert await missed(opened, "b2") == Unread(2, exact=True), "a retracted one has its place"


async def _above(opened: Deployment, shown: list[str]) -> list[int]:
    """For each notification, how many visible ones are newer, texts or not."""
    copies = await opened.core.store.copies.newest(ANN, "news", before=None, limit=100)
    times = {copy.notification_id: copy.received_at for copy in copies}
    view = await opened.core.inbox.views.get(*INBOX)
    times |= {
        sent.notification_id: sent.posted_at
        for sent in view.broadcasts
        if not view.is_retracted(sent.notification_id)
    }
    return [sum(time > times[one] for time in times.values()) for one in shown]


async def test_a_device_without_any_missed_all_and_one_with_an_unknown_one_may_have(
    opened: Deployment,
) -> None:
    assert await missed(opened, None) == Unread(0, exact=True)
    (copy,) = await deliver(opened)
    await broadcast(opened)
    assert await missed(opened, None) == Unread(2, exact=True)
    assert await missed(opened, copy) == Unread(1, exact=True)
    assert await missed(opened, "b77") == Unread(2, exact=False)
    opened.clock.time += DAY_MS
    assert await missed(opened, None) == Unread(1, exact=True), "the copy has expired"


async def test_counts_stop(opened: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INBOX_NEWS_MAX", 5)
    ids = await deliver(opened, 4)
    news = await opened.core.inbox.unread.news(ANN, "news", None)
    assert (news.unread.total, news.is_exact, news.missed) == (4, True, Unread(4, exact=True))

    ids += await deliver(opened, 3)
    news = await opened.core.inbox.unread.news(ANN, "news", None)
    assert (news.unread.total, news.is_exact, news.missed) == (5, False, Unread(5, exact=False))
    assert await missed(opened, ids[0]) == Unread(5, exact=False)
    assert await missed(opened, ids[1]) == Unread(5, exact=False)
    assert await missed(opened, ids[2]) == Unread(4, exact=True)

    for _ in range(6):
        await broadcast(opened)
    news = await opened.core.inbox.unread.news(ANN, "news", ids[-1])
    assert (news.unread.total, news.missed) == (5, Unread(5, exact=False))


async def test_an_inbox_that_does_not_exist_is_said_so(opened: Deployment) -> None:
    with pytest.raises(InboxNotFound):
        await opened.core.inbox.unread.news(ANN, "nowhere", None)


# At hello.


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "gateway") as made:
        yield made


async def test_over_the_rate_limit_a_device_becomes_live_without_counts(
    bench: GatewayBench,
) -> None:
    class Tired(RateLimits):
        async def read(self, user: UserKey, tokens: int = 1) -> int:
            charged.append(tokens)
            return 1_000

    charged: list[int] = []
    buckets = InProcessBuckets()
    line: FakeConnection = bench.line()
    news = bench.core.inbox.unread.news
    await bench.core.store.inbox_settings.put_config(*INBOX, InboxConfig(title="News"))
    hello = Hello("token", inboxes={"news": None, "nowhere": ""})
    await InboxGreeting(news, Tired(buckets, buckets)).greet(ANN, line, hello)
    assert (line.frames, charged) == ([], [2])
    await InboxGreeting(news, None).greet(ANN, line, Hello("token"))
    assert line.frames == []
    await InboxGreeting(news, None).greet(ANN, line, hello)
    assert line.frames == [
        {"op": "unread", "inbox": "news", "total": 0, "categories": {}, "exact": True},
        {"op": "inbox_missed", "inbox": "news", "count": 0, "exact": True},
    ]
