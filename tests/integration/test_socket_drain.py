# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: everyone is sent home within a window, and told when to come back."""

import asyncio
from pathlib import Path

from tests.integration.cores import all_of
from tests.integration.raw_socket import RawSocket, upgrade_request
from tests.integration.socket_town import closed_with, told, troubles
from tests.support.device import Device
from tests.support.people import Town
from tests.support.server import ServerProcess

DRAIN_SECONDS = 3.0
USERS, DEVICES_OF_EACH = 20, 3


async def test_all_are_sent_home_spread_over_the_window(tmp_path: Path) -> None:
    environment = {"TIDINGS_DRAIN_SECONDS": f"{DRAIN_SECONDS}"}
    server = ServerProcess(tmp_path / "data", environment=environment)
    async with server, Town(server.url, server.root_key) as town:
        users = await all_of(town.user(f"u{number}") for number in range(USERS))
        devices = await all_of(
            user.device(f"phone-{number}").connect()
            for user in users
            for number in range(DEVICES_OF_EACH)
        )
        async with await kept_alive(server) as program, await kept_alive(server) as page:
            began = asyncio.get_running_loop().time()
            stopping = asyncio.create_task(server.terminate())
            closing = [asyncio.create_task(end_of(device)) for device in devices]
            await asyncio.wait(closing, return_when=asyncio.FIRST_COMPLETED)
            program.write(upgrade_request(server.port))
            status, headers, _ = await program.answer()
            page.write(upgrade_request(server.port, headers={"Origin": server.url}))
            assert await page.status() == 101, "a page would not see a refusal of its handshake"
            assert await page.frame("bye") == {
                "op": "bye",
                "code": 1012,
                "reconnect": True,
                "retry_after_ms": 1_000,
            }
            assert await page.close_code() == 1012
        ends = await asyncio.gather(*closing)

        assert await stopping == 0
    assert (status, headers["retry-after"]) == (503, "1")
    assert [code for code, _ in ends] == [1012] * USERS * DEVICES_OF_EACH
    # Not since the first end, which a slow test notices late.
    assert max(time for _, time in ends) - began > DRAIN_SECONDS / 2
    byes = [told(device, "bye")[0] for device in devices]
    assert all(bye["code"] == 1012 and bye["reconnect"] for bye in byes)
    waits = [bye["retry_after_ms"] for bye in byes]
    assert all(0 <= wait <= DRAIN_SECONDS * 1_000 for wait in waits)
    assert len(set(waits)) > 5, "they would all come back at once"
    assert troubles(server) == []


async def kept_alive(server: ServerProcess) -> RawSocket:
    """An HTTP connection that has had an answer and stays open."""
    raw = await RawSocket.connect(server.port)
    raw.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await raw.status() == 200
    return raw


async def end_of(device: Device) -> tuple[int, float]:
    """The code a device was closed with, and when."""
    code = await closed_with(device)
    return code, asyncio.get_running_loop().time()
