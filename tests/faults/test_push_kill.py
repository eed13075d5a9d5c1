# SPDX-License-Identifier: Apache-2.0
"""A killed server pushes no message twice, and knows of each message that it did not push why."""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.faults.conftest import Say
from tests.integration.test_push_server import set_webhook
from tests.support.engine import ENGINES, as_environment, some_engine
from tests.support.hook_server import HookServer, open_hook
from tests.support.metrics import values_of
from tests.support.people import Person, Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import NotInTime, until

MEMBERS: Final = 4
CHATS: Final = 6
ATTEMPTS_MAX: Final = 3
ALLOWED: Final = {**NO_LIMITS, "TIDINGS_OUTGOING_ALLOW": "127.0.0.1"}
COUNTED: Final = "tidings_push_messages_total"

Pushed = tuple[str, str, int]
"""User, chat and sequence of a notice."""


def pushed(hook: HookServer) -> list[Pushed]:
    """Return the notices of messages that the push service got."""
    return [
        (one["user_id"], one["data"]["chat_id"], int(one["data"]["sequence"]))
        for one in hook.asked
        if one["kind"] == "message"
    ]


class Writer:
    """Somebody who sends to some chats, each message until it is answered."""

    def __init__(self, person: Person, chats: list[str]) -> None:
        self._person = person
        self.heads = dict.fromkeys(chats, 1)
        self._numbers = itertools.count()
        self.sent = 0

    async def send(self, chat: str) -> None:
        """Send a message."""
        body = {"client_message_id": f"m{next(self._numbers)}", "content": "hello"}
        answers: list[httpx.Response] = []

        async def is_answered() -> bool:
            path = f"/v1/chats/{chat}/messages"
            try:
                answers.append(await self._person.request("POST", path, body))
            except httpx.TransportError:
                return False
            return answers[-1].status_code != 503

        await until(is_answered, seconds=120)
        assert answers[-1].is_success, answers[-1].text
        self.heads[chat] = max(self.heads[chat], answers[-1].json()["sequence"])
        self.sent += 1

    def is_done(self, count: int, sending: "asyncio.Task[None]") -> bool:
        """Return True if so many messages are sent, or all."""
        return self.sent >= count or sending.done()

    async def send_all(self, rounds: int) -> None:
        """Send to all chats, so many times."""
        for _ in range(rounds):
            for chat in self.heads:
                await self.send(chat)


async def outcomes(town: Town) -> Counter[str]:
    """What became of the messages that the running process has offered."""
    root = {"Authorization": f"Bearer {town.root_key}"}
    answer = await town.http.get("/metrics", headers=root)
    found = values_of(answer.text)
    return Counter(
        {
            str(dict(labels)["outcome"]): int(value)
            for (name, labels), value in found.items()
            if name == COUNTED and value
        }
    )


async def nothing_waits(town: Town) -> None:
    """Wait until it is known of all messages that were offered what became of them."""

    async def is_known() -> bool:
        found = await outcomes(town)
        return 2 * found["offered"] == found.total()

    await until(is_known)


async def until_noticed(writer: Writer, members: list[Person], hook: HookServer) -> None:
    """Wait until everybody is notified of the last message of each chat.

    A notice is lost if the process was killed after the claim, or if the push service was too slow
    to answer. The next message of the chat has its own.
    """
    for _ in range(ATTEMPTS_MAX):
        await writer.send_all(1)
        last = {(one.user_id, *head) for one in members for head in writer.heads.items()}
        with suppress(NotInTime):
            await until(partial(is_pushed, hook, last))
            return
    raise AssertionError("somebody was not notified")


def is_pushed(hook: HookServer, wanted: set[Pushed]) -> bool:
    """Return True if the push service got all of these notices."""
    return wanted <= set(pushed(hook))


async def kill_run(server: ServerProcess, say: Say, *, rounds: int, kills: int) -> None:
    """Send while the server is killed; then compare notices with messages."""
    chance = random.Random(kills)
    async with open_hook() as hook, Town(server.url, server.root_key) as town:
        await set_webhook(town, hook)
        people = [await town.user(f"user{number}") for number in range(MEMBERS + 1)]
        chats = [await people[0].create_group("Crew", people[1:]) for _ in range(CHATS)]
        writer = Writer(people[0], chats)
        sending = asyncio.create_task(writer.send_all(rounds))
        for _ in range(kills):
            some = writer.sent + 1 + chance.randrange(2 * CHATS)
            await until(partial(writer.is_done, some, sending), seconds=120)
            await server.restart()
        await sending
        await until_noticed(writer, people[1:], hook)
        told = pushed(hook)
        assert len(told) == len(set(told)), "no message twice"
        await nothing_waits(town)
        say(
            f"{writer.sent:,} messages to {MEMBERS} members, {kills} kills: {len(told):,} notices,"
            f" none twice; after the last kill {dict(await outcomes(town))}"
        )


@asynccontextmanager
async def pushing_server(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> AsyncIterator[ServerProcess]:
    """A server on one of the engines; devices have five seconds to take a message."""

    def endpoint() -> str:
        return str(request.getfixturevalue("dynamodb_endpoint"))

    async with some_engine(engine, endpoint) as settings:
        environment = {**ALLOWED, **as_environment(settings)}
        async with ServerProcess(
            tmp_path / "data", environment=environment, waits="pushes"
        ) as server:
            yield server


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_killed_server_pushes_no_message_twice(
    tmp_path: Path, say: Say, request: pytest.FixtureRequest, engine: str
) -> None:
    async with pushing_server(tmp_path, request, engine) as server:
        await kill_run(server, say, rounds=8, kills=3)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ENGINES)
async def test_what_waits_in_a_killed_server_is_pushed_by_the_next_one(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    async with pushing_server(tmp_path, request, engine) as server:
        async with open_hook() as hook, Town(server.url, server.root_key) as town:
            await set_webhook(town, hook)
            ann, bob, cat = [await town.user(name) for name in ("ann", "bob", "cat")]
            chat = await ann.create_group("Crew", [bob, cat])
            await ann.send(chat)
            both = {("bob", chat, 2), ("cat", chat, 2)}
            await until(partial(is_pushed, hook, both))
            async with bob.device() as looking, cat.device() as looking_too:
                looking.acknowledges = looking_too.acknowledges = False
                await ann.send(chat)
                await bob.call("PUT", f"/v1/chats/{chat}/receipt", {"delivered": 3})
            await server.restart()
            both.add(("cat", chat, 3))
            await until(partial(is_pushed, hook, both))
            await nothing_waits(town)
            assert sorted(pushed(hook)) == sorted(both), "bob has it, and nobody is told twice"


@pytest.mark.soak
async def test_a_server_killed_forty_times_pushes_no_message_twice(
    tmp_path: Path, say: Say
) -> None:
    async with ServerProcess(tmp_path / "data", environment=ALLOWED) as server:
        await kill_run(server, say, rounds=1_000, kills=40)
