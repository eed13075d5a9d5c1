# SPDX-License-Identifier: Apache-2.0
"""A tenant whose users have e-mail addresses, and a mail server; time moves by hand.

For suites: `from tests.integration.escalation_world import mail as mail, rest as rest, ...`.
"""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.engines import engine as engine
from tests.integration.inbox_world import Newsroom, Reader, open_newsroom
from tests.integration.inbox_world import delivering as delivering
from tests.integration.rest_world import Rest, open_rest
from tests.support.engine import Settings
from tests.support.mail_server import TestMailServer, open_mail_server
from tests.support.push_tls import ServiceTls
from tests.support.waiting import until
from tidings.assembly.system import back_off
from tidings.delivery.timer import EMAIL_PACE, Timer

MINUTE = 60_000
SENDER = "news@tidings.example"
_names = count(1)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ServiceTls:
    return ServiceTls(tmp_path_factory.mktemp("mail"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mail(tls: ServiceTls) -> AsyncIterator[TestMailServer]:
    async with open_mail_server(tls.server) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(
    tmp_path_factory: pytest.TempPathFactory,
    core_settings: Settings,
    mail: TestMailServer,
    tls: ServiceTls,
) -> AsyncIterator[Rest]:
    smtp = {
        "email": "smtp",
        "smtp_url": f"smtp://localhost:{mail.port}",
        "smtp_sender": SENDER,
        "smtp_ca": tls.authority,
        "public_url": "https://chat.example.org/",
    }
    folder = tmp_path_factory.mktemp("rest")
    async with open_rest(folder, settings={**core_settings, **smtp}) as opened:
        yield opened


class Escalation:
    """A newsroom whose users have addresses, and the mail server that their e-mails go to."""

    def __init__(self, room: Newsroom, mail: TestMailServer) -> None:
        self.room, self.mail, self.rest = room, mail, room.rest

    def address(self, name: str) -> str:
        return f"{name}@{self.room.tenant}.example"

    async def user(self, name: str, address: str | None = "") -> Reader:
        """A user with an e-mail address."""
        reader = await self.room.user(name)
        email = self.address(name) if address == "" else address
        path = f"/v1/tenants/{self.room.tenant}/users/{name}"
        await self.room.actor.ok("PUT", path, {"email": email})
        return reader

    async def tell(self, *names: str, minutes: int = 5, title: str = "Sale", **more: Any) -> str:
        """Post with an escalation, and wait until it is delivered; returns the id."""
        more = {"escalate": {"email_after_minutes": minutes}, **more}
        return await self.room.tell(names, title, **more)

    async def pass_time(self, minutes: float = 5) -> None:
        """Let time pass, and do what is due."""
        self.rest.clock.time += int(minutes * MINUTE)
        timer = Timer(
            due=self.rest.core.store.due,
            kinds=self.rest.core.email_work,
            clock=self.rest.clock,
            holder="test",
            back_off=back_off,
            pace=EMAIL_PACE,
        )
        await timer.look()
        await until(lambda: timer.depths()["held"] == 0)
        await timer.close()
        assert timer.failed_attempts == 0

    @property
    def mailed(self) -> list[str]:
        """Names of the users of this room who got an e-mail, in order."""
        domain = f"@{self.room.tenant}.example"
        sent = [one.recipient for one in self.mail.received if one.recipient.endswith(domain)]
        return sorted(one.removesuffix(domain) for one in sent)

    async def raised(self) -> list[tuple[str, str]]:
        """The users of the events that were raised, and what became of their e-mails."""
        log, found, sequence = self.rest.core.store.tenant_events, [], 0
        while (event := await log.after(self.room.tenant, sequence)) is not None:
            sequence = event.sequence
            assert event.type == "notification.escalated"
            assert event.data["inbox"] == self.room.inbox
            found.append((str(event.data["user_id"]), str(event.data["email"])))
        return sorted(found)


@pytest_asyncio.fixture(loop_scope="module")
async def news(rest: Rest, mail: TestMailServer) -> Escalation:
    mail.answers.clear()
    room = await open_newsroom(rest, "news", f"escalate{next(_names)}", title="News")
    hook = {"url": "https://hooks.example.org/", "events": ["notification.escalated"]}
    await room.actor.ok("PUT", f"/v1/tenants/{room.tenant}/webhooks/main", hook)
    return Escalation(room, mail)
