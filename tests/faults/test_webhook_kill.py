# SPDX-License-Identifier: Apache-2.0
"""Endpoints get every event, those of a chat in order, however often the server is killed."""

import asyncio
import itertools
import random
from collections import defaultdict
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from standardwebhooks import Webhook

from tests.faults.conftest import Say
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import until

ALLOWED = {**NO_LIMITS, "TIDINGS_OUTGOING_ALLOW": "127.0.0.0/8"}


class BadEndpoint:
    """Takes events, and misbehaves now and then: it fails, stalls, redirects and resets."""

    def __init__(self, chance: random.Random | None) -> None:
        self.secret = ""
        self.chance = chance
        self.taken: defaultdict[str, list[int]] = defaultdict(list)
        """By chat, the sequences in the order in which they were taken."""

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        Webhook(self.secret).verify(body, dict(request.headers))
        _, chat, sequence = request.headers["webhook-id"].split(".")
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
                with suppress(TimeoutError):  # stall
                    async with asyncio.timeout(0.2):
                        await asyncio.Event().wait()
            case _:
                pass
        self.taken[chat].append(int(sequence))
        return web.Response()

    @property
    def count(self) -> int:
        """Number of events that were taken, repeats included."""
        return sum(map(len, self.taken.values()))

    def took_more_than(self, count: int) -> bool:
        """Return True if more than this number of events were taken."""
        return self.count > count

    def has(self, chats: dict[str, int]) -> bool:
        """Return True if every message of these chats was taken."""
        return all(set(range(2, last + 1)) <= set(self.taken[chat]) for chat, last in chats.items())


def first_times(sequences: list[int]) -> list[int]:
    """The sequences in the order in which each was taken for the first time."""
    return list(dict.fromkeys(sequences))


class Sender:
    """Sends messages into some chats, again and again until each is answered."""

    def __init__(self, town: Town, chats: list[str], token: str) -> None:
        self.town = town
        self.heads = dict.fromkeys(chats, 1)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._numbers = itertools.count(1)

    async def restarted(self) -> None:
        """Wait until the server answers again."""

        async def answers() -> bool:
            with suppress(httpx.TransportError):
                return (await self.town.http.get("/healthz")).is_success
            return False

        await until(answers)

    async def send(self, chat: str) -> None:
        body = {"client_message_id": f"m{next(self._numbers)}", "content": "hello"}
        while True:
            try:
                answer = await self.town.http.post(
                    f"/v1/chats/{chat}/messages", json=body, headers=self._headers
                )
            except httpx.TransportError:
                await self.restarted()
                continue
            if answer.is_success:
                self.heads[chat] = max(self.heads[chat], answer.json()["sequence"])
                return
            assert answer.status_code == 503, answer.text


async def kill_run(folder: Path, say: Say, *, chats: int, messages: int, kills: int) -> None:
    bad, good = BadEndpoint(random.Random(7)), BadEndpoint(None)
    app = web.Application()
    app.router.add_post("/bad", bad.take)
    app.router.add_post("/good", good.take)
    async with (
        TestServer(app) as receiver,
        ServerProcess(folder / "data", environment=ALLOWED, waits="webhooks") as server,
    ):
        senders = []
        for tenant, endpoint, path in (("bad", bad, "/bad"), ("good", good, "/good")):
            town = Town(server.url, server.root_key, tenant)
            senders.append(await furnish(town, endpoint, str(receiver.make_url(path)), chats))

        async def send_all(sender: Sender) -> None:
            for _ in range(messages // chats):
                await asyncio.gather(*(sender.send(chat) for chat in sender.heads))

        sending = asyncio.gather(*(send_all(sender) for sender in senders))
        for _ in range(kills):
            await until(partial(bad.took_more_than, bad.count))
            await server.kill()
            await server.start()
        await sending
        await until(lambda: good.has(senders[1].heads), seconds=120)
        await until(lambda: bad.has(senders[0].heads), seconds=600)
        for sender in senders:
            await sender.town.http.aclose()
    for endpoint in (bad, good):
        for sequences in endpoint.taken.values():
            assert first_times(sequences) == sorted(set(sequences)), "in order per chat"
    repeated = sum(len(one) - len(set(one)) for one in bad.taken.values())
    total = sum(len(set(one)) for one in bad.taken.values())
    say(f"{total:,} events to a bad endpoint, {kills} kills: none missing, {repeated} repeated")


async def furnish(town: Town, endpoint: BadEndpoint, url: str, chats: int) -> Sender:
    """Make an endpoint, two users and their groups."""
    key = {"Authorization": f"Bearer {await town.tenant_key()}"}
    base = f"/v1/tenants/{town.tenant}"
    hook = {"url": url, "events": ["message.created"]}
    made = await town.http.put(f"{base}/webhooks/main", json=hook, headers=key)
    endpoint.secret = made.json()["secret"]
    tokens = [
        (await town.http.post(f"{base}/tokens", json={"user_id": name}, headers=key)).json()
        for name in ("ann", "bob")
    ]
    ann = {"Authorization": f"Bearer {tokens[0]['token']}"}
    group = {"type": "group", "name": "Crew", "members": ["bob"]}
    made_chats = [
        (await town.http.post("/v1/chats", json=group, headers=ann)).json()["chat_id"]
        for _ in range(chats)
    ]
    return Sender(town, made_chats, tokens[0]["token"])


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_killed_server_delivers_every_event_in_order(tmp_path: Path, say: Say) -> None:
    await kill_run(tmp_path, say, chats=10, messages=300, kills=4)


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_100_000_events_and_twenty_kills(tmp_path: Path, say: Say) -> None:
    await kill_run(tmp_path, say, chats=200, messages=100_000, kills=20)
