# SPDX-License-Identifier: Apache-2.0
"""Bans and reports in races: what others change meanwhile is not overlooked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cores import Deployment, open_deployment
from tests.support.users import ANN, BOB
from tidings.actions.identity.caller import TenantCaller
from tidings.model.entries import Entry
from tidings.model.refusals import ChatBusy, Refusal, UserBanned, UserNotFound
from tidings.ports.sessions import StoredCredentials

ACME = TenantCaller("acme", "key")


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Deployment]:
    async with open_deployment(tmp_path / "data") as deployment:
        await deployment.people(ANN, BOB)
        yield deployment


async def test_a_ban_that_ended_while_it_was_read_is_not_remembered(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = opened.core
    until: list[int | None] = [opened.clock.time + 5, None]

    async def read(*_: object) -> StoredCredentials:
        core.watch.position += 1  # the feed was read meanwhile, and reported the end
        return StoredCredentials(is_known=True, banned_until=until.pop(0))

    monkeypatch.setattr(core.credential_status._sessions, "stored_credentials", read)
    await core.credential_status.stored(ANN, None)
    assert not until
    assert not core.bans.is_banned(ANN)


async def test_a_message_of_a_banned_user_is_refused_until_the_ban_ends(opened: Deployment) -> None:
    core = opened.core
    chat = await opened.group(ANN, BOB)
    core.bans.learn(ANN, opened.clock.time + 5)
    answers: asyncio.Queue[Entry | Refusal] = asyncio.Queue()
    core.verbs.post(
        ANN, chat, "m1", "text", None, None, lambda answer, _: answers.put_nowait(answer)
    )
    assert isinstance(await answers.get(), UserBanned)
    opened.clock.time += 5
    core.bans.check(ANN)
    assert not core.bans.is_banned(ANN)


async def test_only_users_are_banned(opened: Deployment) -> None:
    verb = opened.core.verbs.change_report.ban
    with pytest.raises(UserNotFound):
        await verb(ANN.replace("ann", "nobody"), None)  # type: ignore[arg-type]


async def test_a_report_that_others_keep_changing(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs, store = opened.core.verbs, opened.core.store
    made = await verbs.report.of_user(ANN, BOB, "spam", None)
    change, left = store.reports.change, [False]

    async def lose(*reports: Any) -> bool:
        return left.pop() if left else await change(*reports)

    monkeypatch.setattr(store.reports, "change", lose)
    wanted: Any = {"state": "resolved", "note": None, "action": None}
    closed = await verbs.change_report(ACME, "acme", made, **wanted)
    assert closed.report.state == "resolved", "the second attempt counts"
    left += [False] * 5
    with pytest.raises(ChatBusy):
        await verbs.change_report(ACME, "acme", made, **wanted)
