# SPDX-License-Identifier: Apache-2.0
"""Clients of several gateways: every connection and every request goes to one of them by chance."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import httpx
from picows import WSTransport

from tests.support.client_socket import Frame
from tests.support.device import Device
from tests.support.people import Person, Town

AWAY_SECONDS_MAX: Final = 0.6
REQUEST_SECONDS_MAX: Final = 30.0


@dataclass(slots=True, eq=False)
class Stay:
    """One connection: where it went, and from when to when."""

    url: str
    opened: int
    closed: int | None = None
    code: int | None = None
    was_dropped: bool = False
    """By the device itself, and not by the gateway."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One frame: when it came, and on which connection."""

    at: int
    stay: Stay
    frame: Frame


class Roamer(Device):
    """A device that comes back to any of the gateways, and remembers when it heard what."""

    def __init__(
        self, urls: Sequence[str], token: str, name: str, chance: random.Random, label: str = ""
    ) -> None:
        super().__init__(
            urls[0],
            token,
            name,
            reconnects=True,
            pause=lambda: chance.uniform(0, AWAY_SECONDS_MAX),
        )
        self.label = label or name
        self.stays: list[Stay] = []
        self.heard: list[Heard] = []
        self._urls = urls
        self._chance = chance
        self._goes_to = urls[0]

    async def open(self) -> None:
        self._goes_to = self._chance.choice(self._urls)
        self._url = self._goes_to.replace("http", "ws", 1) + "/v1/ws"
        await super().open()

    def on_open(self, transport: WSTransport) -> None:
        self.stays.append(Stay(self._goes_to, time.monotonic_ns()))
        super().on_open(transport)

    async def drop(self) -> None:
        if self.stays:
            self.stays[-1].was_dropped = True
        await super().drop()

    def on_frame(self, frame: Frame) -> None:
        self.heard.append(Heard(time.monotonic_ns(), self.stays[-1], frame))
        if frame["op"] == "gone":
            # There is nothing to acknowledge of a chat that is not held.
            self._unacknowledged.pop(frame["chat"], None)
        super().on_frame(frame)

    def on_close(self, code: int) -> None:
        self.stays[-1].closed = time.monotonic_ns()
        self.stays[-1].code = code
        super().on_close(code)


def roamer_of(
    person: Person, urls: Sequence[str], chance: random.Random, name: str = "phone"
) -> Roamer:
    """A device of a person, not connected yet."""
    return Roamer(urls, person.token, name, chance, f"{person.user_id}/{name}")


class _Anywhere(httpx.AsyncBaseTransport):
    def __init__(self, pick: Callable[[], str]) -> None:
        self._pick = pick
        self._http = httpx.AsyncHTTPTransport(retries=0)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        where = httpx.URL(self._pick())
        request.url = request.url.copy_with(host=where.host, port=where.port)
        return await self._http.handle_async_request(request)

    async def aclose(self) -> None:
        await self._http.aclose()


class RoamingTown(Town):
    """A tenant whose requests go to any of the gateways, each to another one."""

    def __init__(
        self, urls: Sequence[str], root_key: str, tenant: str, chance: random.Random
    ) -> None:
        super().__init__(urls[0], root_key, tenant)
        self.urls = urls
        self.http = httpx.AsyncClient(
            base_url=urls[0],
            transport=_Anywhere(lambda: chance.choice(urls)),
            timeout=REQUEST_SECONDS_MAX,
        )
