# SPDX-License-Identifier: Apache-2.0
"""Posts that broke off half-way, and the same post many times at once: one notification each."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.integration.cores import all_of
from tests.integration.engines import engine as engine
from tests.integration.inbox_world import Newsroom, open_newsroom
from tests.integration.inbox_world import delivering as delivering
from tests.integration.rest_world import Rest
from tidings.actions.inbox.broadcast_log import BroadcastAppender, LogViews
from tidings.assembly.system import back_off
from tidings.model.notifications import Broadcast, Posting
from tidings.model.refusals import QueueUnavailable, StoreUnavailable
from tidings.ports.bus import Job, Jobs, JobsUnavailable

pytestmark = pytest.mark.asyncio(loop_scope="module")

CROWD = [f"c{number}" for number in range(250)]
TO_CROWD = Posting(users=CROWD, message={"title": "x", "body": ""})
TO_EVERYONE = Posting(users=None, message={"title": "x", "body": ""})


class Breaking:
    """A queue that takes the first job and is away then."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def put(self, jobs: Sequence[Job]) -> None:
        await self._jobs.put(jobs[:1])
        raise JobsUnavailable


class AnswerLost:
    """Keeps what is announced, and does not get to say so."""

    def __init__(self, notifications: object) -> None:
        self._notifications: Any = notifications

    def __getattr__(self, name: str) -> Any:
        return getattr(self._notifications, name)

    async def append_broadcast(self, broadcast: Broadcast) -> bool:
        await self._notifications.append_broadcast(broadcast)
        raise StoreUnavailable


class NeverGetsThere(AnswerLost):
    """Dies before it announces anything."""

    async def append_broadcast(self, broadcast: Broadcast) -> bool:
        raise StoreUnavailable


async def log_of(news: Newsroom) -> list[Broadcast]:
    notifications = news.rest.core.store.notifications
    return await notifications.broadcasts(news.tenant, news.inbox, after=0, limit=100)


async def test_a_repeat_queues_what_was_not_queued(rest: Rest) -> None:
    news = await open_newsroom(rest, "half-queued")
    post = rest.core.inbox.post
    broken: Any = Breaking(rest.core.jobs)
    for _ in range(2):
        with pytest.raises(QueueUnavailable):
            await replace(post, jobs=broken)(news.tenant, news.inbox, TO_CROWD, "key")
    again = await post(news.tenant, news.inbox, TO_CROWD, "key")
    assert (again.is_replay, again.recipients) == (True, 250)
    assert (await news.delivered(again.notification_id))["delivered"] == 250
    last = await news.user(CROWD[-1])
    assert await last.all_ids(10) == [again.notification_id]


async def test_a_repeat_finds_what_was_announced_although_nobody_heard(rest: Rest) -> None:
    news = await open_newsroom(rest, "unheard")
    post, core = rest.core.inbox.post, rest.core
    deaf: Any = AnswerLost(core.store.notifications)
    views = LogViews(deaf, core.clock)
    broken = replace(
        post, append_broadcast=BroadcastAppender(deaf, views, core.clock, back_off), views=views
    )
    with pytest.raises(StoreUnavailable):
        await broken(news.tenant, news.inbox, TO_EVERYONE, "key")
    again = await post(news.tenant, news.inbox, TO_EVERYONE, "key")
    assert (again.notification_id, again.is_replay) == ("b1", True)
    assert len(await log_of(news)) == 1


async def test_a_repeat_posts_what_was_claimed_and_no_more(rest: Rest) -> None:
    news = await open_newsroom(rest, "claimed")
    post, core = rest.core.inbox.post, rest.core
    dead: Any = NeverGetsThere(core.store.notifications)
    views = LogViews(dead, core.clock)
    broken = replace(post, append_broadcast=BroadcastAppender(dead, views, core.clock, back_off))
    with pytest.raises(StoreUnavailable):
        await broken(news.tenant, news.inbox, TO_EVERYONE, "key")
    between = await post(news.tenant, news.inbox, TO_EVERYONE, None)
    again = await post(news.tenant, news.inbox, TO_EVERYONE, "key")
    assert [between.notification_id, again.notification_id] == ["b1", "b2"]
    assert not again.is_replay
    assert (await post(news.tenant, news.inbox, TO_EVERYONE, "key")).notification_id == "b2"


async def test_one_request_many_times_at_once_is_posted_once(rest: Rest) -> None:
    news = await open_newsroom(rest, "at-once")
    post, core = rest.core.inbox.post, rest.core
    views = LogViews(core.store.notifications, core.clock)
    announcer = BroadcastAppender(core.store.notifications, views, core.clock, back_off)
    elsewhere = replace(post, append_broadcast=announcer, views=views)
    for posting in (TO_EVERYONE, TO_CROWD):
        key = f"key for {posting.users is None}"
        answers = await all_of(
            (post if number % 2 else elsewhere)(news.tenant, news.inbox, posting, key)
            for number in range(8)
        )
        assert len({answer.notification_id for answer in answers}) == 1
        assert sum(not answer.is_replay for answer in answers) == 1
    assert len(await log_of(news)) == 1


async def test_two_processes_post_without_loss(rest: Rest) -> None:
    news = await open_newsroom(rest, "two")
    post, core = rest.core.inbox.post, rest.core
    views = LogViews(core.store.notifications, core.clock)
    announcer = BroadcastAppender(core.store.notifications, views, core.clock, back_off)
    elsewhere = replace(post, append_broadcast=announcer, views=views)
    answers = await all_of(
        (post if number % 2 else elsewhere)(news.tenant, news.inbox, TO_EVERYONE, None)
        for number in range(10)
    )
    log = await log_of(news)
    assert [one.sequence for one in log] == list(range(1, 11))
    assert sorted(answer.notification_id for answer in answers) == sorted(
        one.notification_id for one in log
    )
    times = [one.posted_at for one in log]
    assert times == sorted(set(times))
