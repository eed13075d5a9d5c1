# SPDX-License-Identifier: Apache-2.0
"""Strangers at the port: what one connection without credentials can do to everybody else."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from tests.integration.raw_socket import RawSocket, upgrade_request
from tests.integration.socket_town import people, troubles
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB: Final = 1 << 20
WRITE_BYTES: Final = 16 * 1_024
HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """A server behind a proxy on this machine: us."""
    data = tmp_path_factory.mktemp("server") / "data"
    settings = {"TIDINGS_TRUSTED_PROXIES": "127.0.0.1"}
    async with ServerProcess(data, environment=settings) as running:
        yield running
    assert troubles(running) == []


def resident_mib(pid: int) -> float:
    """How much memory the process has."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1_024


async def one_answer(server: ServerProcess, *parts: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send the parts one after the other, each in a segment of its own; the first answer."""
    async with await RawSocket.connect(server.port) as raw:
        for part in parts:
            raw.write(part)
            await raw.flush()
            await one_health(server)  # the server has looked at all its connections meanwhile
        return await raw.answer()


async def one_health(server: ServerProcess) -> None:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(HEALTH)
        assert await raw.status() == 200


# Pipelining.


async def pour(flood: RawSocket) -> None:
    """Write 12 MB of requests, whole ones each time, as fast as they are taken."""
    for _ in range(12 * MIB // WRITE_BYTES):
        flood.write(HEALTH * (WRITE_BYTES // len(HEALTH)))
        await flood.flush()


@pytest.mark.attack("S01")
async def test_a_flood_of_pipelined_requests_takes_no_memory(server: ServerProcess) -> None:
    await one_health(server)
    before = resident_mib(server.pid)
    async with await RawSocket.connect(server.port, receive_bytes=4_096) as flood:
        flood.stop_reading()
        flooding = asyncio.create_task(pour(flood))
        for _ in range(50):
            await one_health(server)
        assert resident_mib(server.pid) - before < 50
        flooding.cancel()
    await one_health(server)
    assert resident_mib(server.pid) - before < 50


@pytest.mark.attack("S01")
async def test_pipelined_requests_are_all_answered_in_their_order(server: ServerProcess) -> None:
    paths = [b"/healthz" if number % 3 else b"/nowhere" for number in range(500)]
    async with await RawSocket.connect(server.port) as raw:
        raw.write(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n" for path in paths)
        for path in paths:
            assert await raw.status() == (200 if path == b"/healthz" else 404)


# Trailers and chunk extensions.

CHUNKED: Final = (
    b"POST /v1/auth/refresh HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n"
)


@pytest.mark.attack("S02", "E11")
@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"2\r\n{}\r\n0\r\n" + b"a:b\r\n" * 4_000, id="trailers"),
        pytest.param(b"2\r\n{}\r\n0\r\na:" + b"b" * 20_000, id="one trailer"),
        pytest.param(b"2;" + b"x" * 20_000, id="an extension"),
        pytest.param(b"1;" + b"x" * 500 + b"\r\n{\r\n" + (b"1;" + b"x" * 500 + b"\r\n \r\n") * 40,
                     id="extensions"),
        pytest.param(b"0" * 20_000, id="a size"),
    ],
)  # fmt: skip
async def test_trailers_and_extensions_have_bounds(server: ServerProcess, endless: bytes) -> None:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(CHUNKED + b"\r\n" + endless)
        assert await raw.status() in (400, 431)
        assert await raw.close_code() == 1006


@pytest.mark.attack("S02")
async def test_chunks_of_one_byte_and_short_trailers_are_in_order(server: ServerProcess) -> None:
    body = b'{"refresh_token":"' + b"x" * 3_000 + b'"}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\nDigest: none\r\n\r\n"
    status, _, _ = await one_answer(server, CHUNKED + b"\r\n" + chunks)
    assert status == 401, "read, and the token is not known"


@pytest.mark.attack("S02", "E12")
@pytest.mark.parametrize("segments", [1, 2])
async def test_a_credential_in_a_trailer_is_none(
    server: ServerProcess, town: Town, segments: int
) -> None:
    [ann] = await people(town, "ann")
    head = b"GET /v1/me HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    credential = f"Authorization: Bearer {ann.token}\r\n".encode()
    status, _, _ = await one_answer(server, head + credential + b"\r\n0\r\n\r\n")
    assert status == 200, "as a header it counts"
    parts = [head + b"\r\n", b"0\r\n" + credential + b"\r\n"]
    status, _, _ = await one_answer(server, *(parts if segments == 2 else [b"".join(parts)]))
    assert status == 401


@pytest.mark.attack("S02", "D16")
async def test_an_address_in_a_trailer_is_not_believed(server: ServerProcess) -> None:
    head = (
        b"POST /v1/auth/codes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"X-Forwarded-For: 203.0.113.9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    )
    statuses: list[int] = []
    async with await RawSocket.connect(server.port) as raw:
        async with asyncio.timeout(WAIT_SECONDS):
            while 429 not in statuses:
                address = f"198.51.{len(statuses) // 250}.{len(statuses) % 250}"
                raw.write(head + f"X-Forwarded-For: {address}\r\n\r\n".encode())
                statuses.append(await raw.status())


# Host.


@pytest.mark.attack("S23", "E12")
@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nhOST: a\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.0\r\nHost: a\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ],
)
async def test_a_request_has_one_host(
    server: ServerProcess, request_head: bytes, status: int
) -> None:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(request_head + HEALTH)
        answer, headers, _ = await raw.answer()
        assert answer == status
        if answer == 400:
            assert headers["connection"] == "close"
            assert await raw.close_code() == 1006, "what follows is not looked at"


@pytest.mark.attack("S23", "C02")
@pytest.mark.parametrize("hosts", [b"", b"Host: x\r\nHost: x\r\n"])
async def test_a_socket_has_one_host_too(server: ServerProcess, hosts: bytes) -> None:
    request = upgrade_request(server.port, headers={"Host": None})
    line, rest = request.split(b"\r\n", 1)
    status, _, _ = await one_answer(server, line + b"\r\n" + hosts + rest)
    assert status == 400


# Answers that tell too much.


@pytest.mark.attack("S24")
@pytest.mark.parametrize(
    "spoilt",
    [
        {"Sec-WebSocket-Key": "<script>canary</script>"},
        {"Bad Name canary": "x"},
        {"Upgrade": "canary"},
        {"Connection": "canary"},
        {"Content-Length": "canary"},
        {"Sec-WebSocket-Version": "canary"},
        {"Origin": "https://canary"},
    ],
    ids=lambda spoilt: next(iter(spoilt)),
)
async def test_a_refused_handshake_repeats_nothing(
    server: ServerProcess, spoilt: dict[str, str]
) -> None:
    request = upgrade_request(server.port, "/v1/ws?canary", headers=spoilt)
    status, headers, body = await one_answer(server, request)
    assert status in (400, 403, 426)
    assert b"canary" not in body
    assert "canary" not in str(headers)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-type"] == "application/problem+json"


async def test_garbage_after_a_request_is_answered_after_it(server: ServerProcess) -> None:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(HEALTH + b"GET / NONSENSE\r\n\r\n" + HEALTH)
        assert await raw.status() == 200
        assert await raw.status() == 400
        with pytest.raises(EOFError):
            await raw.status()


async def test_many_connections_side_by_side_are_all_answered(server: ServerProcess) -> None:
    raws = [await RawSocket.connect(server.port) for _ in range(100)]
    try:
        for raw in raws:
            raw.write(HEALTH)
        assert await asyncio.gather(*(raw.status() for raw in raws)) == [200] * len(raws)
    finally:
        for raw in raws:
            raw.abort()
