# SPDX-License-Identifier: Apache-2.0
"""Any bytes at the port: the process lives, answers others, keeps its memory and logs no trouble.

A few seconds of it with a fixed seed run always; ten minutes with other seeds run in `make soak`.
"""

import asyncio
import contextlib
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.integration.byte_streams import Stream, greeting, streams
from tests.integration.raw_socket import upgrade_request
from tests.integration.socket_town import troubles
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess

EXAMPLES: Final = 120
SOAK_SECONDS: Final = 600.0
GROWTH_MIB_MAX: Final = 50
WAIT_SECONDS: Final = 60.0
HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
FAILED: Final = re.compile(rb"HTTP/1\.1 (500|502|504)")

FUZZING: Final = settings(
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Target:
    """A server, and what a client needs to be let in."""

    server: ServerProcess
    token: str

    def streams(self) -> st.SearchStrategy[Stream]:
        return streams(upgrade_request(self.server.port), self.token)

    def resident_mib(self) -> float:
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1_024


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """A server of the test's own: nothing that was sent to it is trouble worth an error."""
    server = ServerProcess(tmp_path / "data", environment=NO_LIMITS)
    with asyncio.Runner() as runner:
        runner.run(server.start())
        try:
            yield Target(server, runner.run(_token(server)))
            assert server.exit_code is None
            assert runner.run(server.terminate()) == 0
        finally:
            runner.run(server.kill())
    assert troubles(server) == []


async def _token(server: ServerProcess) -> str:
    async with Town(server.url, server.root_key) as town:
        return (await town.user("fuzz")).token


def sent(target: Target, stream: Stream) -> bytes:
    """All that the server answers; who does not say that it has ended is gone without a word."""
    answer = b""
    address = ("127.0.0.1", target.server.port)
    with socket.create_connection(address, WAIT_SECONDS) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if stream.is_greeted:
            client.sendall(upgrade_request(target.server.port) + greeting(target.token))
            while b'"op":"live"' not in answer:
                answer += client.recv(65_536)
        with contextlib.suppress(ConnectionError):
            for piece in stream.pieces:
                client.sendall(piece)
            if not stream.says_end:
                return answer
            with contextlib.suppress(OSError):  # the server has reset it meanwhile
                client.shutdown(socket.SHUT_WR)
            while part := client.recv(65_536):
                answer += part
    return answer


def check(target: Target, stream: Stream) -> None:
    answer = sent(target, stream)
    assert FAILED.search(answer) is None, answer
    assert sent(target, Stream((HEALTH,))).startswith(b"HTTP/1.1 200")


@pytest.mark.attack("C07", "E12")
def test_any_bytes_leave_the_server_well(target: Target) -> None:
    before = target.resident_mib()

    @seed(12)
    @settings(FUZZING, max_examples=EXAMPLES)
    @given(target.streams())
    def fuzz(stream: Stream) -> None:
        check(target, stream)

    fuzz()
    assert target.resident_mib() - before < GROWTH_MIB_MAX


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.attack("C07", "E12")
def test_any_bytes_for_ten_minutes(target: Target) -> None:
    until, number = time.monotonic() + SOAK_SECONDS, 1_000
    before = target.resident_mib()
    while time.monotonic() < until:
        number += 1

        @seed(number)
        @settings(FUZZING, max_examples=1_000)
        @given(target.streams())
        def fuzz(stream: Stream) -> None:
            check(target, stream)

        fuzz()
        assert target.resident_mib() - before < GROWTH_MIB_MAX, f"with the seed {number}"
