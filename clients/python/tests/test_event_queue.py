# SPDX-License-Identifier: Apache-2.0
"""Events are handed out in order, and count as taken when the next one is asked for."""

import asyncio

import pytest

from tidings_client import event_queue as module
from tidings_client.errors import ClientClosed
from tidings_client.event_queue import EventQueue, Mark, Position, Reported
from tidings_client.events import ChatGone, ChatResynced, Presence, Typing
from tidings_client.saved import Held


class Desk:
    """A queue, and what was taken from it."""

    def __init__(self) -> None:
        self.taken: list[Mark] = []
        self.queue = EventQueue(self.taken.append)

    def put(self, sequence: int) -> Position:
        mark = Position("c", Held("e", sequence))
        self.queue.put(ChatResynced(chat="c", start=sequence), mark)
        return mark

    async def next(self) -> object:
        async with asyncio.timeout(60):
            return await self.queue.next()


async def test_asking_for_the_next_takes_the_one_before() -> None:
    desk = Desk()
    first, second = desk.put(1), desk.put(2)
    assert await desk.next() == ChatResynced(chat="c", start=1)
    assert desk.taken == []
    assert await desk.next() == ChatResynced(chat="c", start=2)
    assert desk.taken == [first]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await desk.queue.next()
    assert desk.taken == [first, second]


async def test_confirming_takes_it_too_and_once() -> None:
    desk = Desk()
    mark = desk.put(1)
    await desk.next()
    desk.queue.confirm()
    desk.queue.confirm()
    assert desk.taken == [mark]


async def test_the_latest_notice_replaces_earlier_ones_about_the_same() -> None:
    desk = Desk()
    desk.queue.put_notice(Presence(user="bob", online=True, last_seen=None), "bob")
    desk.queue.put_notice(Typing(chat="c", user="bob"), "typing")
    desk.put(1)
    desk.queue.put_notice(Presence(user="bob", online=False, last_seen=None), "bob")
    handed = [await desk.next() for _ in range(3)]
    assert handed == [
        Typing(chat="c", user="bob"),
        ChatResynced(chat="c", start=1),
        Presence(user="bob", online=False, last_seen=None),
    ]


async def test_notices_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOTICES_MAX", 2)
    desk = Desk()
    for name in ("a", "b", "c"):
        desk.queue.put_notice(Typing(chat="c", user=name), name)
    assert [await desk.next() for _ in range(2)] == [
        Typing(chat="c", user="a"),
        Typing(chat="c", user="b"),
    ]
    desk.queue.put_notice(Typing(chat="c", user="d"), "d")
    assert await desk.next() == Typing(chat="c", user="d")


async def test_room_is_what_has_not_been_handed_out() -> None:
    desk = Desk()
    room = desk.queue.room
    desk.put(1)
    desk.queue.put(ChatGone(chat="c"), Reported(("c", "x")))
    assert desk.queue.room == room - 1
    await desk.next()
    assert desk.queue.room == room


async def test_an_end_comes_after_everything_else() -> None:
    desk = Desk()
    desk.put(1)
    desk.queue.end(ValueError("the end"))
    await desk.next()
    with pytest.raises(ValueError, match="the end"):
        await desk.next()


async def test_closing_hands_out_nothing_more_and_takes_nothing() -> None:
    desk = Desk()
    desk.put(1)
    desk.put(2)
    await desk.next()
    desk.queue.close(ClientClosed())
    with pytest.raises(ClientClosed):
        await desk.next()
    assert desk.taken == []


async def test_one_reader() -> None:
    desk = Desk()
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(desk.next())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one reader"):
            await desk.next()
        desk.put(1)
    assert reader.result() == ChatResynced(chat="c", start=1)
