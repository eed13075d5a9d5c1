# SPDX-License-Identifier: Apache-2.0
"""A tenant whose users send messages, and its webhook endpoint, which misbehaves now and then."""

import asyncio
import itertools
import random
import time
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Final

import aiohttp
from aiohttp import web
from standardwebhooks import Webhook

from tests.support.people import Json, Town
from tests.support.waiting import until

SLOW_SECONDS: Final = 0.2


class BadEndpoint:
    """Takes events. With `chance` it fails, stalls, redirects, resets and refuses; each time that
    it has got `gone_every` more, it says that it is gone."""

    def __init__(self, chance: random.Random | None = None, gone_every: int = 0) -> None:
        self.secret = ""
        self.chance = chance
        self.gone_every = gone_every
        self.taken: defaultdict[str, list[int]] = defaultdict(list)
        """By chat, the sequences in the order in which they were taken."""
        self.first_at: dict[tuple[str, int], float] = {}
        self._distinct: Counter[str] = Counter()
        """By chat, the number of events. The first message of a chat has the sequence 2."""
        self.count = 0
        """Number of events that were taken, repeats included."""
        self.gone = 0

    async def take(self, request: web.Request) -> web.Response:
        """Handle a request."""
        body = await request.read()
        Webhook(self.secret).verify(body, dict(request.headers))
        _, chat, sequence = request.headers["webhook-id"].split(".")
        if self.gone_every and len(self.first_at) >= (self.gone + 1) * self.gone_every:
            self.gone += 1
            return web.Response(status=410)
        match self.chance.randrange(40) if self.chance else 9:
            case 0:
                return web.Response(status=503)
            case 1:
                return web.Response(status=307, headers={"Location": "http://169.254.169.254/"})
            case 2:
                assert request.transport is not None
                request.transport.close()
            case 3:
                return web.Response(status=422)
            case 4:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SLOW_SECONDS):
                        await asyncio.Event().wait()
            case _:
                pass
        self._keep(chat, int(sequence))
        return web.Response()

    def _keep(self, chat: str, sequence: int) -> None:
        self.taken[chat].append(sequence)
        if (chat, sequence) not in self.first_at:
            self.first_at[chat, sequence] = time.monotonic()
            self._distinct[chat] += 1
        self.count += 1

    def has(self, chats: dict[str, int]) -> bool:
        """Return True if every message of these chats was taken."""
        return all(self._distinct[chat] >= last - 1 for chat, last in chats.items())

    def check_order(self) -> None:
        """Check that the events of each chat were taken in the order of the chat."""
        for sequences in self.taken.values():
            first_times = list(dict.fromkeys(sequences))
            assert first_times == sorted(first_times), "in order per chat"

    @property
    def repeated(self) -> int:
        """Number of events that were taken again."""
        return self.count - len(self.first_at)


class Sender:
    """Sends messages into some chats, each until it is answered."""

    def __init__(self, url: str, chats: list[str], token: str) -> None:
        self.heads = dict.fromkeys(chats, 1)
        self.seconds: list[float] = []
        """Time of each send that was answered at the first attempt."""
        self.sent_at: dict[tuple[str, int], float] = {}
        headers = {"Authorization": f"Bearer {token}"}
        self._session = aiohttp.ClientSession(url, headers=headers)
        self._numbers = itertools.count(1)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def send(self, chat: str) -> None:
        """Send a message."""
        body = {"client_message_id": f"m{next(self._numbers)}", "content": "hello"}
        began = time.monotonic()
        sequence = await self._answer(chat, body)
        if sequence is not None:
            self.seconds.append(time.monotonic() - began)
        else:
            sequence = await until(lambda: self._answer(chat, body), seconds=120)
        self.sent_at[chat, sequence] = began
        self.heads[chat] = max(self.heads[chat], sequence)

    async def _answer(self, chat: str, body: Json) -> int | None:
        """Return the sequence of the message; None while the server is gone."""
        try:
            async with self._session.post(f"/v1/chats/{chat}/messages", json=body) as answer:
                told = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ConnectionError):
            return None
        assert answer.status in (200, 201, 503), told
        return int(told["sequence"]) if answer.status != 503 else None

    async def send_all(self, rounds: int) -> None:
        """Send to all chats at the same time, so many times."""
        for _ in range(rounds):
            await asyncio.gather(*(self.send(chat) for chat in self.heads))


class WebhookTenant:
    """A tenant with one endpoint, and two users with some groups."""

    def __init__(self, town: Town, endpoint: BadEndpoint, url: str) -> None:
        self.town = town
        self.endpoint = endpoint
        self.url = url

    async def put(self) -> None:
        """Create the endpoint, or enable it again where it stopped."""
        key = {"Authorization": f"Bearer {await self.town.tenant_key()}"}
        path = f"/v1/tenants/{self.town.tenant}/webhooks/main"
        hook = {"url": self.url, "events": ["message.created"], "enabled": True}
        made = await self.town.http.put(path, json=hook, headers=key)
        made.raise_for_status()
        self.endpoint.secret = made.json().get("secret", self.endpoint.secret)

    async def is_disabled(self) -> bool:
        """Return True if the server has disabled the endpoint."""
        key = {"Authorization": f"Bearer {await self.town.tenant_key()}"}
        path = f"/v1/tenants/{self.town.tenant}/webhooks/main"
        found = await self.town.http.get(path, headers=key)
        found.raise_for_status()
        return not found.json()["enabled"]

    async def sender(self, chats: int) -> Sender:
        """Create users and groups; return who sends to them."""
        ann, bob = await self.town.user("ann"), await self.town.user("bob")
        groups = [await ann.create_group("Crew", [bob]) for _ in range(chats)]
        return Sender(self.town.url, groups, ann.token)
