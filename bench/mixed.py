# SPDX-License-Identifier: Apache-2.0
"""Measures a typical mix of operations: sends, pages of history, chat lists, profiles and
reconnects.

The rates are those of 10,000 users a day with 100 messages each, multiplied by a factor. Every
operation starts at its time, whether earlier operations are answered or not. A slow answer
therefore delays no other operation, and its full time is measured.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter
from typing import Final

import aiohttp
import msgspec

from bench.scale import deployment
from bench.server import Target, own_folder, own_server, unpin
from tidings.tools.load_crowd import LoadUser, People, Watch, side_by_side
from tidings.tools.load_runs import Latency, latency_of
from tidings.tools.load_talker import LoadStopped, Rest, Talker, connect

RATES: Final = {"send": 12.0, "history": 30.0, "chat list": 8.0, "profile": 20.0, "reconnect": 10.0}
"""Operations per second on average. A page of history also reads the chat and the membership, and a
reconnect also reads the session and all receipts. Together, these make up the estimated rate of
reads."""
PAGE: Final = 50
MAKING_MAX: Final = 8
OPEN_MAX: Final = 500
LOOK_SECONDS: Final = 0.001
LIVE_SECONDS_MAX: Final = 30.0
LATE_SECONDS_MAX: Final = 60.0

Operation = Callable[[int], Awaitable[None]]


class MixedResult(msgspec.Struct, frozen=True, kw_only=True):
    """Time of each kind of operation, and the number of failures."""

    store: str
    times: float
    seconds: float
    latencies: dict[str, Latency]
    failed: dict[str, int]
    server_cpu: float
    """Share of a core that the server used."""


class Chat(msgspec.Struct, frozen=True):
    """A direct chat, and one of its users."""

    chat_id: str
    user: LoadUser
    other: LoadUser


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--store", choices=("dynamodb", "sqlite"), default="dynamodb")
    parser.add_argument("--times", type=float, default=10, help="the average load times this")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--chats", type=int, default=5, help="direct chats that each user begins")
    parser.add_argument("--short", action="store_true", help="the average load, for ten seconds")


async def run(options: Namespace) -> MixedResult:
    """Run all operations at the same time, each at its own rate."""
    unpin()
    times, seconds = (1.0, 10.0) if options.short else (options.times, options.seconds)
    async with _server(options.store) as target, Town(target) as town:
        await town.settle(options.users, options.chats)
        before = target.cpu_seconds()
        await town.live(times, seconds)
        cpu = (target.cpu_seconds() - before) / seconds
    result = MixedResult(
        store=options.store,
        times=times,
        seconds=seconds,
        latencies={name: latency_of(took) for name, took in town.took.items()},
        failed=town.failed,
        server_cpu=cpu,
    )
    _tell(result)
    return result


def _tell(result: MixedResult) -> None:
    print(
        f"{result.times:g} times the average load for {result.seconds:.0f} s on {result.store}; "
        f"the server used {result.server_cpu:.0%} of a core."
    )
    print(f"{'':10}{'per s':>8}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}  failed")
    for name, took in result.latencies.items():
        rate = took.count / result.seconds
        print(
            f"{name:10}{rate:8.1f}{took.p50:9.1f}{took.p99:9.1f}{took.max:9.1f}"
            f"  {result.failed[name]}",
            flush=True,
        )


@asynccontextmanager
async def _server(store: str) -> AsyncIterator[Target]:
    if store == "sqlite":
        async with own_server() as target:
            yield target
        return
    with own_folder() as folder:
        async with deployment(folder, is_many=False) as targets:
            yield targets[0]


class Town:
    """Users with their chats and sockets, and the operations that they perform."""

    def __init__(self, target: Target) -> None:
        self.took: dict[str, array[float]] = {name: array("d") for name in RATES}
        self.failed = dict.fromkeys(RATES, 0)
        self._target = target
        self._watch = Watch()
        self._rest = Rest(target.url)
        self._chats: list[Chat] = []
        self._talkers: list[Talker] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Town":
        timeout = aiohttp.ClientTimeout(total=LIVE_SECONDS_MAX)
        connector = aiohttp.TCPConnector(limit=OPEN_MAX)
        session = aiohttp.ClientSession(timeout=timeout, connector=connector)
        self._http = await self._stack.enter_async_context(session)
        self._stack.callback(self._rest.close)
        return self

    async def __aexit__(self, *_error: object) -> None:
        for talker in self._talkers:
            talker.close()
        await self._stack.aclose()

    async def settle(self, users: int, chats: int) -> None:
        """Create users with some chats each, connect them, and let each of them send a message."""
        people = People(self._rest, self._target.root_key)
        await people.start()
        crowd = await people.users(range(users))
        pairs = [
            (crowd[number], crowd[(number + step) % users])
            for number in range(users)
            for step in range(1, chats + 1)
        ]
        self._chats = await side_by_side([self._meet(*pair) for pair in pairs], MAKING_MAX)
        for chat in self._chats:
            name = f"load-{chat.user.name}-{len(self._talkers)}"
            talker = Talker(chat.chat_id, chat.user.token, name, self._watch.stopped)
            self._talkers.append(talker)
        self._talkers = self._talkers[::chats]
        await side_by_side([connect(one, self._target.url) for one in self._talkers], MAKING_MAX)
        for talker in self._talkers:
            talker.send()
        await self._watch.until(lambda: not self._unanswered(), LIVE_SECONDS_MAX)
        for talker in self._talkers:
            talker.forget_latencies()

    async def live(self, times: float, seconds: float) -> None:
        """Perform all operations at their rates for this many seconds, then wait for the last
        answers."""
        does: dict[str, Operation] = {
            "history": self._history,
            "chat list": self._list,
            "profile": self._profile,
            "reconnect": self._reconnect,
        }
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pace(times * RATES["send"], seconds, self._send))
            for name, operation in does.items():
                step = self._measured(name, operation, group)
                group.create_task(self._pace(times * RATES[name], seconds, step))
        await self._watch.until(lambda: not self._unanswered(), LATE_SECONDS_MAX)
        self.failed["send"] = self._unanswered()
        for talker in self._talkers:
            self.took["send"].extend(talker.latencies_ms)

    async def _pace(self, rate: float, seconds: float, step: Callable[[int], None]) -> None:
        started = perf_counter()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, started + number / rate - perf_counter()))
            step(number)

    def _measured(
        self, name: str, operation: Operation, group: asyncio.TaskGroup
    ) -> Callable[[int], None]:
        async def measure(number: int) -> None:
            began = perf_counter()
            try:
                await operation(number)
            except (LoadStopped, aiohttp.ClientError, TimeoutError):
                self.failed[name] += 1
            else:
                self.took[name].append((perf_counter() - began) * 1e3)

        def begin(number: int) -> None:
            group.create_task(measure(number))

        return begin

    def _send(self, number: int) -> None:
        self._talkers[number % len(self._talkers)].send()

    async def _history(self, number: int) -> None:
        chat = self._chats[number % len(self._chats)]
        await self._get(f"/v1/chats/{chat.chat_id}/messages?limit={PAGE}", chat.user)

    async def _list(self, number: int) -> None:
        await self._get(f"/v1/chats?limit={PAGE}", self._chats[number % len(self._chats)].user)

    async def _profile(self, number: int) -> None:
        chat = self._chats[number % len(self._chats)]
        await self._get(f"/v1/users/{chat.other.name}", chat.user)

    async def _reconnect(self, number: int) -> None:
        chat = self._chats[number % len(self._chats)]
        # Some devices of a user take turns: a user may have only a few.
        device = Talker(chat.chat_id, chat.user.token, f"again-{number % 3}", lambda _: None)
        try:
            async with asyncio.timeout(LIVE_SECONDS_MAX):
                await connect(device, self._target.url)
                while not device.is_live:
                    await asyncio.sleep(LOOK_SECONDS)
        finally:
            device.close()

    async def _get(self, path: str, user: LoadUser) -> None:
        headers = {"Authorization": f"Bearer {user.token}"}
        async with self._http.get(self._target.url + path, headers=headers) as answer:
            await answer.read()
            answer.raise_for_status()

    async def _meet(self, user: LoadUser, other: LoadUser) -> Chat:
        body = {"type": "direct", "members": [other.name]}
        made = await self._rest.call("POST", "/v1/chats", user.token, body)
        return Chat(str(made["chat_id"]), user, other)

    def _unanswered(self) -> int:
        return sum(talker.unanswered for talker in self._talkers)
