# SPDX-License-Identifier: Apache-2.0
"""Escalations in trouble: a suspended tenant, a user whose e-mail cannot be made, and the end of
the process."""

import asyncio
from typing import Any

import pytest

from tests.integration.engines import engine as engine
from tests.integration.escalation_world import Escalation
from tests.integration.escalation_world import mail as mail
from tests.integration.escalation_world import news as news
from tests.integration.escalation_world import rest as rest
from tests.integration.escalation_world import tls as tls
from tests.integration.inbox_world import delivering as delivering
from tests.integration.test_escalation_processes import due
from tests.support.waiting import until
from tidings.actions.inbox.composing import ComposeEmail
from tidings.actions.inbox.emailing import ATTEMPTS_MAX
from tidings.assembly.system import back_off
from tidings.delivery.timer import EMAIL_PACE, Timer
from tidings.metrics import declared

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def suspend(news: Escalation, *, suspended: bool) -> None:
    path = f"/v1/tenants/{news.room.tenant}"
    await news.rest.root.ok("PUT", path, {"suspended": suspended})


async def test_the_escalation_of_a_suspended_tenant_waits(news: Escalation) -> None:
    await news.user("ann")
    await news.tell("ann")
    await suspend(news, suspended=True)
    await news.pass_time(5)
    await news.pass_time(61)
    assert news.mailed == []
    await suspend(news, suspended=False)
    await news.pass_time(61)
    assert news.mailed == ["ann"]


def no_email_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = ComposeEmail.__call__

    def compose(self: ComposeEmail, user: Any, *given: Any) -> Any:
        if user.endswith(f":{name}"):
            raise RuntimeError("no e-mail can be made")
        return make(self, user, *given)

    monkeypatch.setattr(ComposeEmail, "__call__", compose)


async def test_a_user_whose_email_cannot_be_made_delays_nobody(
    news: Escalation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ann", "bob", "cy"):
        await news.user(name)
    no_email_for("bob", monkeypatch)
    await news.tell("ann", "bob", "cy")
    await news.pass_time(5)
    assert news.mailed == ["ann", "cy"]
    for _ in range(ATTEMPTS_MAX + 1):
        await news.pass_time(70)
    assert news.mailed == ["ann", "cy"]
    assert await news.raised() == [("ann", "sent"), ("bob", "unknown"), ("cy", "sent")]


async def test_who_is_given_up_is_counted(news: Escalation) -> None:
    for name in ("ann", "bob"):
        await news.user(name)
    item = await due(news, await news.tell("ann", "bob"))
    before = declared.emails.counts["failed"]
    await news.rest.core.email_work["escalation"].give_up(item)
    assert declared.emails.counts["failed"] == before + 2
    await news.pass_time(60)
    assert news.mailed == []


async def test_a_process_that_ends_finishes_the_email_that_it_sends(
    news: Escalation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ann", "bob"):
        await news.user(name)
    await due(news, await news.tell("ann", "bob"))
    core = news.rest.core
    timer = Timer(
        due=core.store.due,
        kinds=core.email_work,
        clock=news.rest.clock,
        holder="test",
        back_off=back_off,
        pace=EMAIL_PACE,
    )
    news.mail.released.clear()
    await timer.look()
    await until(lambda: news.mail.waiting == 1)
    send: Any = core.email_work["escalation"]
    monkeypatch.setattr(send.send, "_is_stopping", False)  # it ends with the test
    core.stop_emails()
    ending = asyncio.create_task(timer.close())
    await until(lambda: timer._is_closing)
    news.mail.released.set()
    await ending
    assert len(news.mailed) == 1
    monkeypatch.undo()
    await news.pass_time(5)
    assert news.mailed == ["ann", "bob"]
    assert await news.raised() == [("ann", "sent"), ("bob", "sent")]
