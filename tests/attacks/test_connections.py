# SPDX-License-Identifier: Apache-2.0
"""One client with more connections than the process has file descriptors."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from tests.attacks import few_descriptors
from tests.integration.raw_socket import RawSocket
from tests.integration.socket_town import people, troubles
from tests.support.people import Town
from tests.support.server import ServerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
CLIENTS: Final = 300


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """A server with 200 file descriptors, and nothing in its log of running out of them."""
    data = tmp_path_factory.mktemp("server") / "data"
    async with ServerProcess(data, launcher=Path(few_descriptors.__file__)) as running:
        yield running
    assert troubles(running) == []
    assert [one for one in running.log_lines() if one.get("action") == "accept_failed"] == []


@pytest.fixture
def crowd() -> Iterator[list[RawSocket]]:
    """Connections that are gone at the end of the test."""
    connections: list[RawSocket] = []
    yield connections
    for connection in connections:
        connection.abort()


def get(path: str, credential: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {credential}\r\n\r\n".encode()


async def status(server: ServerProcess, request: bytes) -> int:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(request)
        return await raw.status()


@pytest.mark.attack("S08", "F08")
async def test_idle_connections_lock_nobody_out(
    server: ServerProcess, town: Town, crowd: list[RawSocket]
) -> None:
    [ann] = await people(town, "ann")
    for _ in range(CLIENTS):
        raw = await RawSocket.connect(server.port)
        crowd.append(raw)
        raw.write(HEALTH)
        assert await raw.status() == 200
    assert await status(server, get("/v1/me", ann.token)) == 200
    async with await RawSocket.greeted(server.port, ann.token) as socket:
        socket.tell({"op": "ping"})
        await socket.frame("pong")
    assert await crowd[0].close_code() == 1006, "the oldest idle one had to go"


@pytest.mark.attack("S08", "F08")
async def test_half_requests_leave_room_for_sockets_health_and_the_operator(
    server: ServerProcess, town: Town, crowd: list[RawSocket]
) -> None:
    [ann] = await people(town, "ann")
    async with await RawSocket.greeted(server.port, ann.token, "before") as before:
        for _ in range(CLIENTS):
            raw = await RawSocket.connect(server.port)
            crowd.append(raw)
            raw.write(b"GET /v1/me HTTP/1.1\r\nHost: x\r\n")
            await raw.flush()
        assert await status(server, HEALTH) == 200
        assert await status(server, get("/v1/tenants/nobody", server.root_key)) == 404
        assert await status(server, get("/v1/me", ann.token)) == 503
        async with await RawSocket.greeted(server.port, ann.token, "after") as after:
            for socket in (before, after):
                socket.tell({"op": "ping"})
                await socket.frame("pong")
