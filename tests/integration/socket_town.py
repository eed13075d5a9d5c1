# SPDX-License-Identifier: Apache-2.0
"""People, devices and waiting for the tests of the socket."""

import itertools
from collections.abc import Callable
from typing import Any

from tests.integration.cores import all_of
from tests.support.client_socket import Frame, Refused, Socket
from tests.support.device import Device
from tests.support.people import Person, Town
from tests.support.server import ServerProcess

_numbers = itertools.count(1)


def troubles(server: ServerProcess) -> list[dict[str, Any]]:
    """What the server logged that no client may bring about."""
    return [
        line
        for line in server.log_lines()
        if "text" in line or "exception" in line or line["level"] in ("error", "critical")
    ]


async def people(town: Town, *names: str) -> list[Person]:
    """People whom no other test knows."""
    return await some_people(town, *(f"{name}-{next(_numbers)}" for name in names))


async def some_people(town: Town, *names: str) -> list[Person]:
    """People with just these names, in a town of the test's own."""
    return await all_of(town.user(name) for name in names)


async def friends(town: Town, *names: str) -> tuple[str, list[Person]]:
    """People as in `people`, and a group of them all; the first is its owner."""
    found = await people(town, *names)
    return await found[0].create_group("A group", found[1:]), found


async def post(device: Device, chat: str, count: int = 1) -> None:
    """Post messages one right after the other, without waiting in between."""
    await all_of(device.send(chat) for _ in range(count))


async def settled(device: Socket) -> None:
    """Wait until all that the server had for this device before now has come."""
    pongs = sum(told["op"] == "pong" for told in device.raw)
    device.tell({"op": "ping"})
    await device.until(lambda: sum(told["op"] == "pong" for told in device.raw) > pongs)


def told(device: Socket, op: str, **fields: Any) -> list[Frame]:
    """All frames so far with this op and these fields."""
    wanted = {"op": op, **fields}
    return [frame for frame in device.raw if wanted.items() <= frame.items()]


def sequences(device: Socket, chat: str) -> list[int]:
    """The sequences of a chat's entries as they came in."""
    return [entry["sequence"] for entry in told(device, "entry", chat=chat)]


async def until_entries(device: Socket, chat: str, count: int) -> list[int]:
    """Wait for so many entries of a chat; their sequences."""
    await device.until(lambda: len(sequences(device, chat)) >= count)
    return sequences(device, chat)


async def closed_with(device: Socket) -> int:
    """Wait for the end of the connection; its close code."""
    await device.until(lambda: not device.is_open)
    return device.closes[-1]


async def refusal(device: Socket, frame: Frame) -> Frame:
    """Ask for what has to be refused; the refusal."""
    try:
        answer = await device.ask(frame)
    except Refused as refused:
        return refused.frame
    raise AssertionError(f"it was not refused but answered by {answer}")


async def code_of_hello(socket: Socket, **hello: Any) -> int:
    """Say hello on a new connection; the code it is closed with."""
    await socket.open()
    socket.tell({"op": "hello", **hello})
    return await closed_with(socket)


def has(device: Device, chat: str, sequence: int) -> Callable[[], bool]:
    """Whether the device has the chat up to there, without a hole."""
    return lambda: device.logs.have.get(chat) == sequence
