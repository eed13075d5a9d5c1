# SPDX-License-Identifier: Apache-2.0
"""Measures a page of 50 messages from a short chat and from a long one, over REST and over the
socket.

Both servers run on the same core, and the requests alternate. Every disturbance therefore affects
both, and the ratio of their times is valid even on a busy machine.
"""

import http.client
import random
import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bench.plain_socket import PlainSocket
from bench.seeds import Seed, seeded
from bench.server import Target, own_server

PAGE: Final = 50
WARM_UP: Final = 20

Ask = Callable[[], int]
"""Function that requests a page and returns the number of messages in it."""


class Pages(msgspec.Struct, frozen=True):
    """Median times for a page of the short and of the long chat, in milliseconds."""

    way: str
    short_ms: float
    long_ms: float

    @property
    def ratio(self) -> float:
        """How many times as long a page of the long chat takes."""
        return self.long_ms / self.short_ms


class HistoryResult(msgspec.Struct, frozen=True):
    """Times of pages in a short chat and in a long one."""

    short: int
    long: int
    pages: list[Pages]


class Chat:
    """A seeded chat on a running server, and the ways to request a page of it."""

    def __init__(self, seed: Seed, target: Target, token: str) -> None:
        self._seed = seed
        self._token = token
        self._socket = PlainSocket(target.url, token)
        parts = urlsplit(target.url)
        self._http = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        self._chance = random.Random(7)

    def close(self) -> None:
        """Close the connections."""
        self._socket.close()
        self._http.close()

    def ways(self) -> dict[str, Ask]:
        """Return the ways to request a page, by name."""
        return {
            "REST, newest": lambda: self._rest(""),
            "REST, anywhere": lambda: self._rest(f"&before={self._anywhere()}"),
            "socket, newest": lambda: self._fetch(self._seed.messages),
            "socket, anywhere": lambda: self._fetch(self._anywhere()),
        }

    def _anywhere(self) -> int:
        return self._chance.randint(PAGE + 10, self._seed.messages)

    def _rest(self, where: str) -> int:
        path = f"/v1/chats/{self._seed.chat}/messages?limit={PAGE}{where}"
        self._http.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
        return len(msgspec.json.decode(self._http.getresponse().read())["data"])

    def _fetch(self, before: int) -> int:
        frame = {"op": "fetch", "id": "1", "chat": self._seed.chat, "before": before, "limit": PAGE}
        self._socket.send(msgspec.json.encode(frame))
        return len(self._socket.receive("page")["entries"])


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--short", type=int, default=10_000)
    parser.add_argument("--long", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=300, help="of each kind, for each chat")


async def run(options: Namespace) -> HistoryResult:
    """Request pages of both chats in turn, and print the medians."""
    async with AsyncExitStack() as stack:
        chats = []
        for messages in (options.short, options.long):
            seed = await seeded(messages, options.seeds)
            target = await stack.enter_async_context(own_server(seed.data))
            chats.append(Chat(seed, target, await seed.reader(target)))
            stack.callback(chats[-1].close)
        short, long = (chat.ways() for chat in chats)
        pages = [_compare(way, short[way], long[way], options.requests) for way in short]
    print(f"A page of {PAGE}: median of {options.requests} requests each, asked in turn.")
    print(f"{'':18}{options.short:>10,}{options.long:>12,}   ratio")
    for page in pages:
        print(f"{page.way:18}{page.short_ms:7.2f} ms{page.long_ms:9.2f} ms{page.ratio:8.2f}")
    return HistoryResult(options.short, options.long, pages)


def _compare(way: str, short: Ask, long: Ask, requests: int) -> Pages:
    for _ in range(WARM_UP):
        _took(short), _took(long)
    times = [(_took(short), _took(long)) for _ in range(requests)]
    return Pages(
        way,
        statistics.median(one for one, _ in times),
        statistics.median(other for _, other in times),
    )


def _took(ask: Ask) -> float:
    started = perf_counter()
    count = ask()
    assert count == PAGE, f"a page of {count} messages"
    return (perf_counter() - started) * 1e3
