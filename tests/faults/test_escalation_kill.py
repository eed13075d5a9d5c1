# SPDX-License-Identifier: Apache-2.0
"""A server that is killed while it sends an e-mail sends no second one, and says that nobody knows
the outcome of the first."""

from pathlib import Path

import httpx
import pytest

from tests.support.engine import ENGINES, as_environment, some_engine
from tests.support.inbox import Inbox
from tests.support.mail_server import TestMailServer, open_mail_server
from tests.support.metrics import values_of
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import WAIT_SECONDS, until


async def emails(server: ServerProcess, outcome: str) -> float:
    """How many e-mails had this outcome since the last start."""
    async with httpx.AsyncClient(timeout=WAIT_SECONDS) as http:
        headers = {"Authorization": f"Bearer {server.root_key}"}
        answer = await http.get(f"{server.url}/metrics", headers=headers)
    name = "tidings_emails_total", frozenset({("outcome", outcome)})
    return values_of(answer.text)[name]


async def tell(town: Town, name: str, title: str) -> None:
    """Post a notification to a new user with an address, who does not read it."""
    key, person = await town.tenant_key(), await town.user(name)
    async with httpx.AsyncClient(base_url=town.url, timeout=WAIT_SECONDS) as http:
        answer = await http.put(
            f"/v1/tenants/{town.tenant}/users/{name}",
            json={"email": f"{name}@example.org"},
            headers={"Authorization": f"Bearer {key}"},
        )
    assert answer.is_success, answer.text
    inbox = await Inbox(town).make()
    await inbox.post([person.user_id], title, escalate={"email_after_minutes": 1})


async def killed_while_sending(server: ServerProcess, town: Town, mail: TestMailServer) -> None:
    mail.released.clear()
    await tell(town, "ann", "first")
    await until(lambda: mail.waiting == 1)
    await server.kill()
    mail.released.set()
    await until(lambda: len(mail.received) == 1)
    await server.start()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_server_killed_between_claim_and_answer_sends_no_second_email(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    def endpoint() -> str:
        return str(request.getfixturevalue("dynamodb_endpoint"))

    async with some_engine(engine, endpoint) as settings, open_mail_server() as mail:
        smtp = {
            "email": "smtp",
            "smtp_url": f"smtp://127.0.0.1:{mail.port}",
            "smtp_sender": "news@tidings.example",
            "public_url": "https://chat.example.org",
        }
        environment = {**NO_LIMITS, **as_environment({**settings, **smtp})}
        waits = "due_items escalations"
        async with (
            ServerProcess(tmp_path / "data", environment=environment, waits=waits) as server,
            Town(server.url, server.root_key, "acme") as town,
        ):
            await killed_while_sending(server, town, mail)
            await until(lambda: emails(server, "unknown"), equals=1)
            await tell(town, "bob", "second")
            await until(lambda: len(mail.received) == 2)
            sent_to = [one.recipient for one in mail.received]
            assert sent_to == ["ann@example.org", "bob@example.org"]
