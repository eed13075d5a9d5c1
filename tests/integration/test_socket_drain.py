# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: everyone is sent home within a window, nothing that was answered is lost."""

import asyncio
from pathlib import Path

from tests.harness.device import Device
from tests.harness.people import Town
from tests.harness.server import ServerProcess
from tests.integration.cores import all_of
from tests.integration.raw_socket import RawSocket, upgrade_request
from tests.integration.socket_town import closed_with, friends, told, troubles

DRAIN_SECONDS = 1.0
SENDS = 400


def a_server(folder: Path, drain_seconds: float) -> ServerProcess:
    return ServerProcess(folder, environment={"TIDINGS_DRAIN_SECONDS": f"{drain_seconds}"})


async def test_all_are_sent_home_spread_over_the_window(tmp_path: Path) -> None:
    server = a_server(tmp_path / "data", DRAIN_SECONDS)
    async with server, Town(server.url, server.root_key) as town:
        users = await all_of(town.user(f"u{number}") for number in range(20))
        devices = await all_of(user.device().connect() for user in users)
        async with await RawSocket.connect(server.port) as kept_alive:
            kept_alive.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await kept_alive.status() == 200
            stopping = asyncio.create_task(server.terminate())
            ends = await all_of(end_of(device) for device in devices[:5])
            kept_alive.write(upgrade_request(server.port))
            status, headers, _ = await kept_alive.answer()
        ends += await all_of(end_of(device) for device in devices[5:])

        assert await stopping == 0
    assert (status, headers["retry-after"]) == (503, "1")
    assert [code for code, _ in ends] == [1012] * 20
    times = [time for _, time in ends]
    assert max(times) - min(times) > DRAIN_SECONDS / 2
    byes = [told(device, "bye")[0] for device in devices]
    assert all(bye["code"] == 1012 and bye["reconnect"] for bye in byes)
    waits = [bye["retry_after_ms"] for bye in byes]
    assert all(0 <= wait <= max(1, DRAIN_SECONDS) * 1_000 for wait in waits)
    assert len(set(waits)) > 5, "they would all come back at once"
    assert troubles(server) == []


async def end_of(device: Device) -> tuple[int, float]:
    """The code a device was closed with, and when."""
    code = await closed_with(device)
    return code, asyncio.get_running_loop().time()


async def test_a_stop_under_load_loses_nothing(tmp_path: Path) -> None:
    server = a_server(tmp_path / "data", 0.2)
    async with server, Town(server.url, server.root_key) as town:
        chat, (ann, bob) = await friends(town, "ann", "bob")
        writers = [ann.device(f"w{number}", reconnects=True) for number in range(3)]
        reader = bob.device(reconnects=True)
        await all_of(device.connect() for device in (*writers, reader))
        sending = asyncio.create_task(
            all_of(send_many(device, chat, f"{at}") for at, device in enumerate(writers))
        )
        for _ in range(2):
            heard = len(told(reader, "entry"))
            await reader.until(lambda: len(told(reader, "entry")) > heard + 50)  # noqa: B023
            assert await server.terminate() == 0
            await server.start()
        answers = [answer for answered in await sending for answer in answered]
        log = await ann.log(chat)
        await reader.until(lambda: reader.logs.have.get(chat) == len(log))

        assert len(reader.closes) == 2
        assert [entry["sequence"] for entry in log] == list(range(1, len(log) + 1))
        written = [str(entry["client_message_id"]) for entry in log[1:]]
        assert sorted(written) == sorted(f"{at}-{n}" for at in range(3) for n in range(SENDS))
        assert {(entry["sequence"], entry["client_message_id"]) for entry in log[1:]} == {
            (answer["sequence"], answer["key"]) for answer in answers
        }
        held = [entry["sequence"] for entry in reader.logs.entries[chat]]
        assert held == list(range(1, len(log) + 1))
        for device in (*writers, reader):
            await device.close()
    assert troubles(server) == []


async def send_many(device: Device, chat: str, name: str) -> list[dict[str, object]]:
    """Send one after the other, each until it is answered; the answers with their keys."""
    answers = []
    for number in range(SENDS):
        key = f"{name}-{number}"
        answers.append({**await device.send(chat, client_message_id=key), "key": key})
    return answers
