# SPDX-License-Identifier: Apache-2.0
"""A disk that is full or fails: clients are told, the server stops, and nothing was promised."""

from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.faults.checker import check
from tests.faults.disk_shim import DiskShim, Trouble
from tests.faults.history import Attempt, History, content_of, seen
from tests.support.client_socket import Refused
from tests.support.device import Device
from tests.support.people import Person, Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import until

STORE_BROKE: Final = 1
EXIT_SECONDS_MAX: Final = 30.0
MESSAGES: Final = 20


async def send(device: Device, chat: str, attempt: Attempt) -> None:
    attempt.acknowledge(await device.send_once(chat, content_of(attempt.body), attempt.body))


async def expect_refusal(device: Device, chat: str, attempt: Attempt) -> None:
    with pytest.raises(Refused) as refused:
        await send(device, chat, attempt)
    attempt.lose(refused.value.code)
    assert (refused.value.code, refused.value.retryable) == ("store.unavailable", True)


async def expect_503(person: Person, chat: str, attempt: Attempt) -> None:
    message = {"client_message_id": attempt.body, "content": content_of(attempt.body)}
    answer = await person.request("POST", f"/v1/chats/{chat}/messages", message)
    attempt.lose(f"status {answer.status_code}")
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert answer.json()["code"] == "store.unavailable"
    assert int(answer.headers["Retry-After"]) >= 1


async def read_by(person: Person, chat: str) -> int:
    """Up to where somebody has read, as it is stored."""
    marks = (await person.call("GET", f"/v1/chats/{chat}/receipts"))["data"]
    return next(int(mark["read"]) for mark in marks if mark["user_id"] == person.user_id)


@pytest.mark.attack("F12")
@pytest.mark.parametrize("trouble", ["full", "failing"])
@pytest.mark.parametrize("way", ["socket", "rest"])
async def test_a_sick_disk_stops_the_server_cleanly(
    tmp_path: Path, shim: Path, trouble: Trouble, way: str
) -> None:
    server = ServerProcess(tmp_path / "data", environment=NO_LIMITS)
    disk = DiskShim(server, shim)
    history = History()
    async with server, Town(server.url, server.root_key) as town:
        ann, bob = await town.user("ann"), await town.user("bob")
        chat = await ann.create_direct(bob)
        async with ann.device() as device:
            device.acknowledges = False
            for number in range(MESSAGES):
                await send(device, chat, history.invoke("phone", chat, f"body-{number}"))
            # It waits for the marks of the sender, which would meet the trouble before the message.
            await until(lambda: read_by(ann, chat), equals=MESSAGES + 1)
            disk.begin(trouble)
            last = history.invoke("phone", chat, "body-last")
            if way == "socket":
                await expect_refusal(device, chat, last)
            else:
                await expect_503(ann, chat, last)
            assert await server.exited(EXIT_SECONDS_MAX) == STORE_BROKE
            await device.until(lambda: not device.is_open)
        assert device.closes == [1012], "it said why it went"
        disk.end(trouble)
        await server.start()
        history.final[chat] = [seen(entry) for entry in await bob.log(chat)]
    assert check(history).violations == []
    log = server.log_lines()
    assert [line for line in log if "exception" in line or "text" in line] == []
    assert [line["action"] for line in log if line["level"] == "critical"] == ["store_broken"]
