# SPDX-License-Identifier: Apache-2.0
"""The client against a real server: what an application relies on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from clients.python.tests.screens import Screen
from clients.python.tests.sleepy_world import SleepyWorld
from tests.integration.engines import engine as engine
from tests.integration.engines import no_limits as no_limits
from tests.support.inbox import Inbox
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import until
from tidings_client import (
    Backoff,
    ChatHead,
    ChatResynced,
    Client,
    ClientClosed,
    ClientStopped,
    Connected,
    Disconnected,
    FileStorage,
    InboxMissed,
    MemoryStorage,
    Message,
    Refused,
    SendFailed,
    Storage,
    StorageBusy,
    WrongUser,
)
from tidings_client.saved import Changes

FIRST_TOKEN_SECONDS = 9
AHEAD_SECONDS = 6.5
"""How far ahead a clock is, so that a token is renewed long before the server would end it."""

long_on_tables = pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("dynamodb", marks=pytest.mark.soak)], indirect=True
)
"""For what takes long, where the engine has no part in what is tried."""


def a_client(
    town: Town,
    user: str = "alice",
    *,
    storage: Storage | None = None,
    sends_in_flight: int = 1,
    **more: Any,
) -> Client:
    return Client(
        town.url,
        token=lambda: town.token(user),
        device="laptop",
        storage=storage,
        sends_in_flight=sends_in_flight,
        backoff=Backoff(lambda _, most: most, seconds_min=0.01, seconds_max=0.1),
        **more,
    )


@asynccontextmanager
async def shown(client: Client) -> AsyncIterator[Screen]:
    """An open client whose events all go to a screen."""
    screen = Screen()
    async with client, asyncio.TaskGroup() as tasks:
        tasks.create_task(screen.follow(client))
        yield screen
        await client.close()


async def a_direct_chat(town: Town) -> str:
    alice, bob = await town.user("alice"), await town.user("bob")
    return await alice.create_direct(bob)


async def send_many(client: Client, chat: str, count: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(1, count + 1):
            tasks.create_task(client.send(chat, f"number {number}"))


async def test_two_talk(town: Town) -> None:
    chat = await a_direct_chat(town)
    async with shown(a_client(town)) as alice, shown(a_client(town, "bob")) as bob:
        async with a_client(town) as other_device:
            sent = await other_device.send(chat, "hello", ttl_seconds=3_600)
        for screen in (alice, bob):
            await screen.until(lambda s=screen: s.last(chat) >= 2)  # type: ignore[misc]
            message = screen.shown[chat][-1]
            assert isinstance(message, Message)
            assert (message.content, message.sender) == ("hello", "alice")
            assert message.message_id == sent.message_id
            assert message.expires_at is not None


@long_on_tables
async def test_nothing_is_held_up_by_an_application_that_sends_before_it_takes(town: Town) -> None:
    """More is missed than the window holds, and the first event is answered with a send."""
    people = [await town.user(name) for name in ("alice", "bob")]
    chats = [await people[1].create_group(f"group {n}", people[:1]) for n in range(3)]
    async with a_client(town, "bob", sends_in_flight=100) as bob:
        async with asyncio.TaskGroup() as tasks:
            for chat in chats:
                tasks.create_task(send_many(bob, chat, 400))
    seen = 0
    async with a_client(town) as alice, asyncio.timeout(60):
        async for event in alice.events():
            seen += isinstance(event, Message) and event.sender == "bob"
            if isinstance(event, Message) and seen in (1, 600):
                await alice.send(event.chat, "thanks")
            if seen == 1_200:
                break
    assert seen == 1_200


@long_on_tables
async def test_an_application_that_takes_nothing_is_sent_no_more_than_the_window(
    town: Town,
) -> None:
    chat = await a_direct_chat(town)
    async with a_client(town) as alice, a_client(town, "bob", sends_in_flight=100) as bob:
        async for event in alice.events():
            if isinstance(event, Connected):
                break
        room = alice._queue.room
        await send_many(bob, chat, 1_300)
        await alice.history(chat, limit=1)
        assert room - alice._queue.room <= 1_000
        screen = Screen()
        async for event in alice.events():
            screen.show(event)
            if screen.last(chat) == 1_301:
                break


@long_on_tables
async def test_too_much_was_missed(town: Town, tmp_path: Path) -> None:
    chat = await a_direct_chat(town)
    storage = FileStorage(tmp_path / "alice.db")
    async with shown(a_client(town, storage=storage)) as before:
        await before.until(lambda: before.last(chat) == 1)
    async with a_client(town, "bob", sends_in_flight=100) as bob:
        await send_many(bob, chat, 501)
    async with shown(a_client(town, storage=storage)) as after:
        await after.until(lambda: after.last(chat) == 502)
        start = after.shown[chat][0].sequence
        assert ChatResynced(chat=chat, start=start) in after.events
        assert start == 453


async def test_a_message_with_an_id_of_the_application_is_sent_once_by_two_runs(town: Town) -> None:
    chat = await a_direct_chat(town)
    async with shown(client := a_client(town)) as screen:
        await screen.until(lambda: client.is_live and screen.last(chat) == 1)
        first = await client.send(chat, "ok", client_message_id="reply-1")
    # The application died before it had confirmed the event, so the next run replies again.
    async with a_client(town) as client:
        assert (await client.send(chat, "ok", client_message_id="reply-1")) == first


async def test_what_still_waits_in_the_outbox_can_be_sent_again(town: Town, tmp_path: Path) -> None:
    chat = await a_direct_chat(town)
    nowhere = Client(
        "http://127.0.0.1:9", token=lambda: "t", storage=FileStorage(tmp_path / "alice.db")
    )
    async with nowhere:
        nowhere.send_nowait(chat, "ok", client_message_id="reply-1")
    async with a_client(town, storage=FileStorage(tmp_path / "alice.db")) as client:
        again = [client.send(chat, "ok", client_message_id="reply-1") for _ in range(2)]
        with pytest.raises(Refused, match=r"send\.conflict"):
            client.send_nowait(chat, "no", client_message_id="reply-1")
        first, second = await asyncio.gather(*again)
        assert first == second
        assert (await client.history(chat)).head == first.sequence == 2


async def test_history(town: Town) -> None:
    chat = await a_direct_chat(town)
    async with a_client(town) as alice:
        for number in range(2, 7):
            await alice.send(chat, f"number {number}")
        newest = await alice.history(chat, limit=2)
        assert ([event.sequence for event in newest.entries], newest.more) == ([5, 6], True)
        before = await alice.history(chat, before=3)
        assert ([event.sequence for event in before.entries], before.more) == ([1, 2], False)
        after = await alice.history(chat, after=4)
        assert ([event.sequence for event in after.entries], after.head) == ([5, 6], 6)
        with pytest.raises(Refused, match="not_found"):
            await alice.history("0" * 26)


async def test_no_is_an_exception_or_an_event(town: Town) -> None:
    async with shown(client := a_client(town)) as screen:
        with pytest.raises(Refused, match=r"chat\.not_found"):
            await client.send("0" * 26, "hello?")
        key = client.send_nowait("0" * 26, "hello?")
        await screen.until(lambda: any(isinstance(e, SendFailed) for e in screen.events))
        (failed,) = [event for event in screen.events if isinstance(event, SendFailed)]
        assert (failed.client_message_id, failed.code) == (key, "chat.not_found")
        for content in ("", "x" * 4_097):
            with pytest.raises(Refused, match=r"content\."):
                client.send_nowait("0" * 26, content)


async def test_a_refused_token_is_replaced(town: Town) -> None:
    chat = await a_direct_chat(town)
    tokens = ["not a token", await town.token("alice")]
    async with Client(town.url, token=lambda: tokens.pop(0), device="laptop") as alice:
        await alice.send(chat, "hello")
    assert tokens == []


async def test_a_provider_that_fails_is_asked_again(town: Town) -> None:
    attempts = 0

    async def provide() -> str:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError("the login is away")
        return await town.token("alice")

    backoff = Backoff(lambda _, most: most, seconds_min=0.01)
    async with shown(Client(town.url, token=provide, device="x", backoff=backoff)) as screen:
        await screen.until(lambda: any(isinstance(e, Connected) for e in screen.events))
    (ended,) = [event for event in screen.events if isinstance(event, Disconnected)]
    assert "the login is away" in ended.reason


@pytest.mark.slow
@long_on_tables
async def test_a_token_is_renewed_before_it_expires(town: Town) -> None:
    lives, renewed = [3_600, FIRST_TOKEN_SECONDS], asyncio.Event()

    async def provide() -> str:
        token = await town.token("alice", expires_in=lives.pop())
        if not lives:
            renewed.set()
        return token

    chat = await a_direct_chat(town)
    world = SleepyWorld()
    world.slept_seconds = AHEAD_SECONDS
    client = Client(town.url, token=provide, device="laptop", world=world)
    async with shown(client) as screen, asyncio.timeout(60):
        await client.send(chat, "here")
        await renewed.wait()
        # By then the server has looked for expired tokens at least once.
        await asyncio.sleep(FIRST_TOKEN_SECONDS + 0.5)
        await client.send(chat, "still here")
        assert not [event for event in screen.events if isinstance(event, Disconnected)]


async def test_a_server_that_says_no_is_not_asked_again(town: Town) -> None:
    token = await town.token("alice", device="phone")
    events = []
    async with Client(town.url, token=lambda: token, device="laptop") as client:
        with pytest.raises(ClientStopped) as stopped:
            async for event in client.events():
                events.append(event)  # noqa: PERF401 - what came before the end counts
        assert stopped.value.code == 4403
        with pytest.raises(ClientStopped):
            await client.send("0" * 26, "hello")
    assert [type(event) for event in events] == [Disconnected]


async def test_one_file_one_user_one_client(town: Town, tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "alice.db")
    async with shown(a_client(town, storage=storage)) as screen:
        await screen.until(lambda: any(isinstance(e, Connected) for e in screen.events))
        with pytest.raises(StorageBusy):
            await a_client(town, storage=FileStorage(tmp_path / "alice.db")).open()
    async with a_client(town, "bob", storage=storage) as bob:
        with pytest.raises(WrongUser):
            await bob.send("0" * 26, "under a false name")


async def test_closing_ends_everything(town: Town, tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "alice.db")
    once = Backoff(lambda _, most: most, seconds_min=60.0)
    async with Client(
        "http://127.0.0.1:9", token=lambda: "t", storage=storage, backoff=once
    ) as client:
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(_raises_closed(client.send("c", "kept")))
            asking = tasks.create_task(_raises_closed(client.history("c")))
            reading = tasks.create_task(_count(client))
            await client.confirm()
            await client.close()
        assert sending.result()
        assert asking.result()
        assert reading.result() <= 1
        with pytest.raises(ClientClosed):
            client.send_nowait("c", "too late")
    assert [message.content for message in storage.load().outbox] == ["kept"]
    storage.close()


class SlowStorage(MemoryStorage):
    """A storage that writes only once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_writing, self.may_write, self.is_closed = Event(), Event(), False

    def save(self, changes: Changes) -> None:
        self.is_writing.set()
        self.may_write.wait()
        super().save(changes)

    def close(self) -> None:
        self.is_closed = True


async def test_closing_goes_on_if_nobody_waits_for_it_any_more() -> None:
    storage = SlowStorage()
    client = Client("http://127.0.0.1:9", token=lambda: "t", storage=storage)
    await client.open()
    reading = asyncio.create_task(_count(client))
    client.send_nowait("c", "kept")
    await until(storage.is_writing.is_set)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await client.close()
    storage.may_write.set()
    await client.close()
    assert storage.is_closed
    assert await reading <= 1
    assert [message.content for message in storage.load().outbox] == ["kept"]


async def _raises_closed(work: object) -> bool:
    try:
        await work  # type: ignore[misc]
    except ClientClosed:
        return True
    return False


async def _count(client: Client) -> int:
    return len([event async for event in client.events()])


async def test_a_machine_that_slept_does_not_wait_for_a_dead_socket(town: Town) -> None:
    world = SleepyWorld()
    client = Client(town.url, token=lambda: town.token("alice"), device="laptop", world=world)
    async with shown(client) as screen:
        await screen.until(lambda: client.is_live)
        world.slept_seconds = 60
        await screen.until(lambda: isinstance(screen.events[-1], Disconnected))
        assert "slept" in str(screen.events[-1])
        await screen.until(lambda: isinstance(screen.events[-1], Connected))


async def test_a_server_that_dies_and_comes_back(tmp_path: Path) -> None:
    async with ServerProcess(tmp_path / "server") as server:
        async with Town(server.url, server.root_key) as town:
            chat = await a_direct_chat(town)
            async with shown(client := a_client(town)) as screen:
                await client.send(chat, "before")
                await server.kill()
                waiting = asyncio.create_task(client.send(chat, "meanwhile"))
                await server.restart()
                await waiting
                await screen.until(lambda: screen.contents(chat) == ["before", "meanwhile"])


async def test_by_heads_the_entries_of_some_chats_come_and_the_heads_of_all(town: Town) -> None:
    people = [await town.user(name) for name in ("alice", "bob")]
    chats = [await people[1].create_group(f"group {n}", people[:1]) for n in range(3)]
    await Inbox(town, "heads").make()
    client = a_client(town, catch_up="heads", inboxes=["heads"])
    async with shown(client) as alice, a_client(town, "bob") as bob:
        await alice.until(lambda: _last_heads(alice).keys() >= set(chats))
        await alice.until(lambda: InboxMissed(inbox="heads", count=0, exact=True) in alice.events)
        await client.away()
        await client.follow(chats[0])
        await bob.send(chats[0], "one")
        await bob.send(chats[1], "two")
        await alice.until(lambda: alice.last(chats[0]) == 2 and _last_heads(alice)[chats[1]] == 2)
        await client.send(chats[2], "three")
        await alice.until(lambda: alice.last(chats[2]) == 2)
        assert set(alice.shown) == {chats[0], chats[2]}


def _last_heads(screen: Screen) -> dict[str, int]:
    return {event.chat: event.head for event in screen.events if isinstance(event, ChatHead)}
