# SPDX-License-Identifier: Apache-2.0
"""Everybody is cut off at once and comes back: spread by jitter and by the door, in a minute."""

import asyncio
import random
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from picows import WSInvalidStatusError

from tests.faults.conftest import Say
from tests.support.engine import ENGINES, as_environment, some_engine
from tests.support.people import Person, Town
from tests.support.server import ServerProcess
from tidings_client.backoff import Backoff, Ended, Retry
from tidings_client.connection import Connection
from tidings_client.frames import Hello, Live, Ping, ServerFrame

GATHER_SECONDS_MAX: Final = 120.0
DEVICES_OF_A_USER: Final = 5
AT_ONCE: Final = 20
SPARE_FILES: Final = 200
PING_SECONDS: Final = 15.0
OVERLOADED: Final = 1013


class Comer:
    """A device that comes back by itself, by the rules of the client package."""

    def __init__(self, storm: "Storm", token: str, device: str) -> None:
        self.connection: Connection | None = None
        self._storm = storm
        self._hello = Hello(token, device)
        self._backoff = Backoff(storm.chance.uniform)
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stay away."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if self.connection is not None:
            await self.connection.close()

    async def _run(self) -> None:
        while True:
            ended = await self._connected()
            pause = self._backoff.after(ended)
            assert isinstance(pause, Retry), f"told to stay away: {ended}"
            await asyncio.sleep(pause.seconds)

    async def _connected(self) -> Ended:
        """Once there and gone again: how it ended."""
        self.connection = Connection(self._receive)
        try:
            await self.connection.open(self._storm.url)
        except OSError as error:
            self._storm.turned_away[_status(error)] += 1
            return Ended(str(error))
        self.connection.say(self._hello)
        ended = await self.connection.ended()
        self._storm.live.discard(self)
        self._storm.closes[ended.code] += 1
        return ended

    def _receive(self, frame: ServerFrame) -> None:
        if isinstance(frame, Live):
            self._backoff.steady()
            self._storm.live.add(self)
            self._storm.changed.set()


def _status(error: OSError) -> int:
    """What the handshake was answered with; 0 if it was not."""
    cause = error.__cause__
    if isinstance(cause, WSInvalidStatusError) and cause.response is not None:
        return int(cause.response.status)
    return 0


class Storm:
    """All comers, and what they were told on their way."""

    def __init__(self, server: ServerProcess) -> None:
        self.url = server.url.replace("http", "ws", 1) + "/v1/ws"
        self.chance = random.Random(18)
        self.live: set[Comer] = set()
        self.changed = asyncio.Event()
        self.turned_away: Counter[int] = Counter()
        self.closes: Counter[int | None] = Counter()
        self._comers: list[Comer] = []

    @asynccontextmanager
    async def gathered(self, people: list[Person], count: int) -> AsyncIterator[None]:
        """Everybody is there."""
        pinging = asyncio.create_task(self._ping())
        for number in range(count):
            person = people[number % len(people)]
            self._comers.append(Comer(self, person.token, f"d{number // len(people)}"))
        try:
            await self.all_live(GATHER_SECONDS_MAX)
            yield
        finally:
            pinging.cancel()
            await asyncio.gather(*(comer.close() for comer in self._comers))

    async def all_live(self, seconds_max: float) -> None:
        """Wait until everybody is there."""
        async with asyncio.timeout(seconds_max):
            while len(self.live) < len(self._comers):
                self.changed.clear()
                await self.changed.wait()

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            for comer in list(self.live):
                if comer.connection is not None:
                    comer.connection.say(Ping())


def needs_files(count: int) -> None:
    """Skip where this process, or the server it starts, may not open as many sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + SPARE_FILES
    if soft < wanted <= hard or (soft < wanted and hard == resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    elif soft < wanted:
        pytest.skip(f"{wanted} open files are needed, and {hard} allowed: ulimit -n")


async def pairs(town: Town, count: int) -> list[Person]:
    """People, each with one other in a chat that has a message."""
    some = asyncio.Semaphore(AT_ONCE)

    async def pair(number: int) -> list[Person]:
        async with some:
            one, other = await town.user(f"a{number}"), await town.user(f"b{number}")
            await one.send(await one.create_direct(other))
            return [one, other]

    made = await asyncio.gather(*(pair(number) for number in range(count // 2)))
    return [person for two in made for person in two]


async def storm(server: ServerProcess, count: int, say: Say, engine: str) -> None:
    """Cut everybody off and see them come back."""
    async with Town(server.url, server.root_key) as town:
        people = await pairs(town, count // DEVICES_OF_A_USER)
    storm = Storm(server)
    async with storm.gathered(people, count):
        storm.turned_away.clear()
        await server.kill()
        dropped_at = time.monotonic()
        await server.start()
        served_at = time.monotonic()
        await storm.all_live(GATHER_SECONDS_MAX)
        back = time.monotonic() - dropped_at
    say(
        f"{count:,} sockets dropped at once on {engine}: all back after {back:.1f} s, of which "
        f"{served_at - dropped_at:.1f} s without a server; {storm.turned_away[503]:,} times told "
        "to wait"
    )
    assert set(storm.turned_away) <= {0, 503}, "0: nobody there, or too many at once"
    assert set(storm.closes) <= {None, OVERLOADED}, "None: cut off"
    assert [line for line in server.log_lines() if "exception" in line or "text" in line] == []


@pytest.mark.attack("C18")
@pytest.mark.slow
async def test_five_hundred_are_dropped_and_come_back(tmp_path: Path, say: Say) -> None:
    needs_files(500)
    async with ServerProcess(tmp_path / "data") as server:
        await storm(server, 500, say, "sqlite")


@pytest.mark.attack("C18")
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ENGINES)
async def test_five_thousand_are_dropped_and_come_back(
    tmp_path: Path, say: Say, engine: str, request: pytest.FixtureRequest
) -> None:
    needs_files(5_000)

    def endpoint() -> str:
        return str(request.getfixturevalue("dynamodb_endpoint"))

    async with some_engine(engine, endpoint) as settings:
        server = ServerProcess(tmp_path / "data", environment=as_environment(settings))
        async with server:
            await storm(server, 5_000, say, engine)
