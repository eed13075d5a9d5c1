# SPDX-License-Identifier: Apache-2.0
"""Escalations across restarts, with and without a mail server; nothing is readable on the disk."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.engines import engine as engine
from tests.integration.escalation_world import MINUTE, Escalation
from tests.integration.inbox_world import open_newsroom, running_jobs
from tests.integration.rest_world import Rest, open_rest
from tests.support.canary import canary
from tests.support.clock import NOW
from tests.support.engine import Settings
from tests.support.mail_server import TestMailServer, open_mail_server

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def folder(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder, with the keys of all that the engine stores."""
    return tmp_path_factory.mktemp(engine)


def smtp(mail: TestMailServer) -> dict[str, Any]:
    return {
        "email": "smtp",
        "smtp_url": f"smtp://127.0.0.1:{mail.port}",
        "smtp_sender": "news@tidings.example",
        "public_url": "https://chat.example.org",
    }


async def a_room(rest: Rest, mail: TestMailServer, tenant: str) -> Escalation:
    room = await open_newsroom(rest, "news", tenant, title="News")
    hook = {"url": "https://hooks.example.org/", "events": ["notification.escalated"]}
    await room.actor.ok("PUT", f"/v1/tenants/{tenant}/webhooks/main", hook)
    return Escalation(room, mail)


async def test_what_became_due_while_the_server_was_down_is_sent_after_its_start(
    folder: Path, core_settings: Settings
) -> None:
    title = canary("restart")
    async with open_mail_server() as mail:
        settings = {**core_settings, **smtp(mail)}
        async with open_rest(folder, settings=settings) as rest, running_jobs(rest.core):
            news = await a_room(rest, mail, "restart")
            await news.user("ann")
            await news.tell("ann", title=title)
            time = rest.clock.time
        async with open_rest(folder, settings=settings, time=time + 60 * MINUTE) as rest:
            news = await a_room(rest, mail, "restart")
            for _ in range(2):
                await news.pass_time(1)
            assert news.mailed == ["ann"]
            assert await news.raised() == [("ann", "sent")]
        (got,) = mail.received
        assert got.message["Subject"] == title
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if title.encode() in path.read_bytes()]


async def test_without_a_mail_server_only_the_event_is_raised(
    folder: Path, core_settings: Settings
) -> None:
    async with open_mail_server() as mail:
        later = NOW + 24 * 60 * MINUTE  # the tables have seen the time of the other test
        async with (
            open_rest(folder, settings=core_settings, time=later) as rest,
            running_jobs(rest.core),
        ):
            news = await a_room(rest, mail, "without")
            await news.user("ann")
            bob = await news.user("bob")
            await news.user("cat", None)
            name = await news.tell("ann", "bob", "cat")
            await bob.read(ids=[name])
            await news.pass_time()
            assert await news.raised() == [("ann", "off")]
        assert mail.connections == 0
