# SPDX-License-Identifier: Apache-2.0
"""Escalations that two processes work on, or one process twice: e-mails and events come once."""

import asyncio

import pytest

from tests.integration.engines import engine as engine
from tests.integration.escalation_world import Escalation
from tests.integration.escalation_world import mail as mail
from tests.integration.escalation_world import news as news
from tests.integration.escalation_world import rest as rest
from tests.integration.escalation_world import tls as tls
from tests.integration.inbox_world import delivering as delivering
from tests.support.waiting import until
from tidings.model.refusals import StoreUnavailable
from tidings.ports.due import Due
from tidings.ports.escalations import due_of_escalation

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def due(news: Escalation, name: str) -> Due:
    """The item of the portion of this notification, which is due from now on."""
    store = news.rest.core.store.escalations
    portion = await store.get(news.room.tenant, news.room.inbox, name, 0)
    assert portion is not None
    news.rest.clock.time = portion.at
    return due_of_escalation(portion, portion.at)


async def work_twice(news: Escalation, name: str) -> None:
    """Let a second process work while the first waits for the mail server, which answers when the
    second has finished or waits too."""
    work, item = news.rest.core.email_work["escalation"], await due(news, name)
    news.mail.released.clear()
    first = asyncio.create_task(work.do(item))
    await until(lambda: news.mail.waiting == 1)
    second = asyncio.create_task(work.do(item))
    await until(lambda: news.mail.waiting == 2 or second.done())
    news.mail.released.set()
    await asyncio.gather(first, second)


async def test_an_email_that_another_process_sends_has_no_unknown_outcome(
    news: Escalation,
) -> None:
    await news.user("ann")
    await work_twice(news, await news.tell("ann"))
    await news.pass_time(10)
    assert news.mailed == ["ann"]
    assert await news.raised() == [("ann", "sent")]


async def test_who_is_tried_again_stays_when_another_process_ends_the_portion(
    news: Escalation,
) -> None:
    for name in ("ann", "bob"):
        await news.user(name)
    news.mail.answers["END"].append("451 later")
    await work_twice(news, await news.tell("ann", "bob"))
    assert len(news.mailed) == 1
    await news.pass_time(10)
    assert news.mailed == ["ann", "bob"]
    assert await news.raised() == [("ann", "sent"), ("bob", "sent")]


async def test_a_repeat_raises_no_event_again(
    news: Escalation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ann", "bob"):
        await news.user(name)
    name = await news.tell("ann", "bob")
    work, item = news.rest.core.email_work["escalation"], await due(news, name)

    async def drop(*_: object) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(type(news.rest.core.store.escalations), "drop", drop)
        with pytest.raises(StoreUnavailable):
            await work.do(item)
    await news.pass_time(10)
    assert news.mailed == ["ann", "bob"]
    assert await news.raised() == [("ann", "sent"), ("bob", "sent")]
