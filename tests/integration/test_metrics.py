# SPDX-License-Identifier: Apache-2.0
"""The metrics of a real server after a little traffic, on every engine."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from scripts.services.ports import free_port
from tests.integration.engines import engine as engine
from tests.integration.socket_town import friends, refusal, settled, until_entries
from tests.support.client_socket import Socket
from tests.support.command import tidings
from tests.support.engine import Settings, some_engine
from tests.support.inbox import Inbox
from tests.support.metrics import Values, values_of, without_values
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import WAIT_SECONDS, until
from tidings.metrics.declared import BACKUPS, FLEET, TABLES
from tidings.metrics.meters import METRICS

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def settings(request: pytest.FixtureRequest, engine: str) -> AsyncIterator[Settings]:
    """An empty engine, and a listener for metrics."""

    def endpoint() -> str:
        return str(request.getfixturevalue("dynamodb_endpoint"))

    async with some_engine(engine, endpoint) as made:
        yield {**made, "metrics": str(free_port())}


class Scrapes:
    """Reads the metrics like Prometheus."""

    def __init__(self, server: ServerProcess) -> None:
        self.url = f"http://127.0.0.1:{server.environment['TIDINGS_METRICS']}/metrics"
        self.text = ""

    async def read(self) -> Values:
        """Return the metrics from the listener of their own."""
        async with httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as http:
            answer = await http.get(self.url)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("application/openmetrics-text;")
        self.text = answer.text
        return values_of(answer.text)

    async def until_counted(self, name: str, **labels: str) -> None:
        """Wait until a counter is not zero."""

        async def counted() -> bool:
            return (await self.read()).get((name, frozenset(labels.items())), 0) > 0

        await until(counted, describe=lambda: self.text)


async def some_traffic(server: ServerProcess, town: Town) -> list[str]:
    """Do a little of everything that is counted; return names that no metric may contain."""
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as first, bob.device() as second:
        for _ in range(2):
            await first.send(chat, "hello", client_message_id="once")
        [*_, last] = await until_entries(second, chat, 2)
        second.tell({"op": "received", "chat": chat, "sequence": last})
        await settled(second)
        await refusal(first, {"op": "fetch", "id": "1", "chat": chat, "limit": 5})
    await bob.call("GET", f"/v1/chats/{chat}/messages")
    assert (await ann.request("GET", "/v1/chats/nowhere")).status_code == 404
    await _bad_handshake(server)
    await _hello_from_the_future(server, bob.token, chat)
    inbox = await Inbox(town).make()
    posted = await inbox.post([ann.user_id])
    await inbox.done(posted["id"])
    return [chat, ann.user_id, bob.user_id, town.tenant, ann.token, posted["id"]]


async def _bad_handshake(server: ServerProcess) -> None:
    async with httpx.AsyncClient(
        base_url=server.url, trust_env=False, timeout=WAIT_SECONDS
    ) as http:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "12"}
        assert (await http.get("/v1/ws", headers=headers)).status_code == 426


async def _hello_from_the_future(server: ServerProcess, token: str, chat: str) -> None:
    socket = Socket(server.url)
    await socket.open()
    hello: dict[str, Any] = {"op": "hello", "token": token, "device": "tablet"}
    socket.tell({**hello, "client": "test-client/1.0", "have": {chat: 1_000}})
    await socket.frame("resync")
    await socket.frame("live")
    await socket.drop()


async def test_every_metric_is_emitted_after_a_little_traffic(
    server: ServerProcess, town: Town, engine: str, tmp_path: Path
) -> None:
    secrets = await some_traffic(server, town)
    if engine == "sqlite":
        made = await tidings("backup", tmp_path, "--data", server.data)
        assert made.code == 0, made.errors
    scrapes = Scrapes(server)
    await scrapes.until_counted("tidings_notification_seconds_count")
    await scrapes.until_counted("tidings_sockets_closed_total", code="1006")
    values = await scrapes.read()
    missing = {FLEET, BACKUPS} if engine == "dynamodb" else {FLEET, TABLES}
    assert {name for name in without_values(values) if METRICS[name].needs not in missing} == set()
    for secret in secrets:
        assert secret not in scrapes.text

    def count(name: str, **labels: str) -> float:
        return values[name, frozenset(labels.items())]

    assert count("tidings_send_seconds_count", via="socket") == 2
    assert count("tidings_repeats_total") == 1
    assert count("tidings_delivery_seconds_count", path="local") >= 1
    assert count("tidings_received_seconds_count") == 1
    assert count("tidings_entries_total", kind="message") == 1
    assert count("tidings_frames_total", op="send", direction="in") == 2
    assert count("tidings_frames_total", op="sent", direction="out") == 2
    assert count("tidings_refusals_total", code="request.invalid", via="socket") == 1
    assert count("tidings_refusals_total", code="chat.not_found", via="rest") == 1
    assert count("tidings_requests_seconds_count", route="/v1/chats/{chat_id}", status="404") == 1
    assert count("tidings_resyncs_total", reason="ahead") == 1
    assert count("tidings_sockets_refused_total", reason="version") == 1
    assert count("tidings_sockets_opened_total") == 3
    assert count("tidings_commit_entries_count") >= 1
    if engine == "dynamodb":
        assert count("tidings_capacity_units_total", table="messages", kind="write") > 0
        assert count("tidings_store_seconds_count", operation="claim_slot") > 0
    else:
        assert count("tidings_store_seconds_count", operation="commit") > 0
        assert count("tidings_backup_age_seconds") >= 0


async def test_a_listener_of_its_own_has_metrics_and_nothing_else(server: ServerProcess) -> None:
    scrapes = Scrapes(server)
    async with httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as http:
        for path in ("/", "/healthz", "/v1/chats", "/openapi.json"):
            answer = await http.get(scrapes.url.removesuffix("/metrics") + path)
            assert answer.status_code == 404
        assert (await http.post(scrapes.url)).status_code == 405


async def test_root_reads_the_same_on_the_port_of_the_api(server: ServerProcess) -> None:
    own = await Scrapes(server).read()
    async with httpx.AsyncClient(
        base_url=server.url, trust_env=False, timeout=WAIT_SECONDS
    ) as http:
        answer = await http.get("/metrics", headers={"Authorization": f"Bearer {server.root_key}"})
        assert (await http.get("/metrics")).status_code == 401
    assert answer.status_code == 200
    assert {name for name, _ in values_of(answer.text)} >= {name for name, _ in own}
