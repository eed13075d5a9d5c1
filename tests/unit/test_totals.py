# SPDX-License-Identifier: Apache-2.0
"""The unread total of a connection follows from its frames, and is counted where they fail."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import msgspec
import pytest

from tests.support.clock import ManualClock
from tests.support.waiting import until
from tidings.actions.verbs import ChatVerbs
from tidings.gateway import totals
from tidings.gateway.client_connection import LocalConnection
from tidings.gateway.totals import UnreadTotals
from tidings.model.chats import ChatHead, Receipt, Unread
from tidings.model.entries import Head
from tidings.model.ids import ChatId, UserKey, rfc3339
from tidings.model.refusals import InboxNotFound, StoreUnavailable

ME = UserKey("acme:ann")
A, B = ChatId("A"), ChatId("B")


class Counts:
    """What the store would count, and what was asked of it."""

    def __init__(self) -> None:
        self.unread: dict[ChatId, int] = {A: 2}
        self.inboxes = {"news": 1}
        self.heads = {A: 5, B: 3}
        self.asked: list[str] = []
        self.failures = 0
        self.meanwhile: Callable[[], None] = lambda: None
        self.meanwhile_in_inboxes: Callable[[], None] = lambda: None

    @property
    def count_total(self) -> "Counts":
        return self

    @property
    def chats(self) -> "Counts":
        return self

    async def list_heads(self, _: UserKey) -> list[ChatHead]:
        self.asked.append("heads")
        return heads_of(self.heads)

    async def of_heads(self, chats: list[ChatHead]) -> dict[ChatId, Unread]:
        self._fail()
        self.asked.append("all")
        self.meanwhile()
        return {chat: Unread(count) for chat, count in self.unread.items() if count}

    async def of_inboxes(self, _: UserKey) -> dict[str, Unread]:
        found = {name: Unread(count) for name, count in self.inboxes.items()}
        self.meanwhile_in_inboxes()
        return found

    async def of_inbox(self, _: UserKey, inbox: str) -> Unread:
        self._fail()
        self.asked.append(inbox)
        if inbox not in self.inboxes:
            raise InboxNotFound
        return Unread(self.inboxes[inbox])

    async def of_chat(self, _: UserKey, chat: ChatId) -> tuple[Unread, int] | None:
        self._fail()
        self.asked.append(chat)
        return (Unread(self.unread[chat]), self.heads[chat]) if chat in self.unread else None

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable


def heads_of(heads: dict[ChatId, int]) -> list[ChatHead]:
    return [ChatHead(chat, Head(n, n, n, 0), Receipt(ME, 0, 0, 0), 2) for chat, n in heads.items()]


class Line:
    """A connection that notes the totals that it sends."""

    def __init__(self) -> None:
        self.totals: list[dict[str, Any]] = []
        self.clock = ManualClock()
        self.tasks: list[asyncio.Task[None]] = []
        self.saw: Callable[[bytes], None] = lambda _: None

    def watch_frames(self, saw: Callable[[bytes], None]) -> None:
        self.saw = saw

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    def send(self, frame: bytes) -> None:
        self.saw(frame)
        told = msgspec.json.decode(frame)
        if told["op"] == "unread_total":
            self.totals.append(told)

    def tell(self, **frame: Any) -> None:
        self.send(msgspec.json.encode(frame))

    def entry(self, chat: ChatId, sequence: int, kind: str = "message", **more: Any) -> None:
        self.tell(**{"op": "entry", "chat": chat, "sequence": sequence, "kind": kind,
                     "sender": "bob", **more})  # fmt: skip

    def notify(self, name: str, *, inbox: str = "news", **more: Any) -> None:
        """Tell of a notification that was posted later than everything that was counted."""
        self.clock.time += 2 * totals.CLOCKS_MS
        told = {"id": name, "sender": None, "received_at": rfc3339(self.clock.time)}
        self.tell(op="notification", inbox=inbox, **{**told, **more})

    async def until(self, messages: int, inbox: int = 1) -> None:
        await until(
            lambda: (
                bool(self.totals)
                and (self.totals[-1]["messages"], self.totals[-1]["inboxes"].get("news", 0))
                == (messages, inbox)
            )
        )


def made(counts: Counts, line: Line) -> UnreadTotals:
    verbs, connection = cast(ChatVerbs, counts), cast(LocalConnection, line)
    return UnreadTotals(verbs, connection, ME, heads_of(counts.heads), line.clock)


@pytest.fixture
async def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(totals, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(totals, "RETRY_SECONDS", 0)
    counts, line = Counts(), Line()
    watching = made(counts, line)
    line.entry(A, 5)  # is sent before `live`, and will be counted
    watching.start()
    await line.until(2)
    yield counts, line
    for task in line.tasks:
        task.cancel()
    await asyncio.gather(*line.tasks, return_exceptions=True)


Told = tuple[Counts, Line]


async def test_messages_of_others_add_up_without_a_look(told: Told) -> None:
    counts, line = told
    counts.unread[B] = 1
    line.entry(A, 6)
    line.entry(B, 4)
    line.entry(B, 5, sender="ann")
    line.entry(A, 7, "renamed")
    await line.until(4)
    assert line.totals[-1]["chats"] == 2
    assert counts.asked == ["all", B], "an own message may end a mark as unread"


@pytest.mark.parametrize(
    "frame",
    [
        {"op": "entry", "chat": A, "sequence": 6, "kind": "redacted", "sender": "bob"},
        {"op": "entry", "chat": A, "sequence": 6, "kind": "redacted", "sender": "bob",
         "blocked": True},
        {"op": "unread", "chat": A, "unread": 9, "unread_exact": True},
        {"op": "chat_changed", "chat": A},
        {"op": "heads", "chats": {A: 9}},
        {"op": "resync", "chat": A, "head": 9},
    ],
)  # fmt: skip
async def test_what_does_not_say_enough_is_counted(told: Told, frame: dict[str, Any]) -> None:
    counts, line = told
    counts.unread[A] = 1
    line.tell(**frame)
    await line.until(1)
    assert counts.asked == ["all", A]


async def test_chats_that_are_gone_count_no_longer(told: Told) -> None:
    counts, line = told
    line.entry(B, 4)
    await line.until(3)
    line.entry(A, 6, "removed", users=["ann"])
    await line.until(1)
    line.tell(op="gone", chat=B)
    await line.until(0)
    line.tell(op="chat_changed", chat="unknown")
    await until(lambda: "unknown" in counts.asked)
    assert line.totals[-1]["messages"] == 0


async def test_inboxes(told: Told) -> None:
    counts, line = told
    line.notify("n1")
    await line.until(2, inbox=2)
    assert counts.asked == ["all"], "a new notification adds one without a look"
    line.tell(op="unread", inbox="news", total=150)
    await line.until(2, inbox=100)
    assert line.totals[-1]["exact"] is False
    line.tell(op="unread", inbox="news", total=3)
    await line.until(2, inbox=3)
    assert line.totals[-1]["exact"] is True


async def test_of_notifications_with_one_collapse_key_the_newest_counts(told: Told) -> None:
    counts, line = told
    counts.inboxes["news"] = 2
    line.notify("n1", collapse_key="k")
    await line.until(2, inbox=2)
    line.notify("n2", collapse_key="k")
    await until(lambda: counts.asked.count("news") == 2)
    line.notify("n3")
    await line.until(2, inbox=3)
    assert counts.asked == ["all", "news", "news"]


async def test_a_notification_that_is_told_twice_counts_once(told: Told) -> None:
    counts, line = told
    line.notify("n1")
    counts.inboxes["news"] = 2
    line.notify("n1")  # a second attempt of the delivery has a later time
    await line.until(2, inbox=2)
    line.notify("n1", inbox="other")
    await until(lambda: line.totals[-1]["inboxes"] == {"news": 2, "other": 1})


async def test_a_notification_that_was_counted_before_it_is_told_counts_once(told: Told) -> None:
    counts, line = told
    at_count = rfc3339(line.clock.time)
    counts.inboxes["news"] = 1
    line.notify("n1", received_at=at_count)
    await until(lambda: counts.asked == ["all", "news"])
    line.tell(op="unread", inbox="news", total=5)
    line.notify("n2", received_at=rfc3339(line.clock.time + totals.CLOCKS_MS))
    counts.inboxes["news"] = 7
    await line.until(2, inbox=7)
    assert {frame["inboxes"]["news"] for frame in line.totals} <= {1, 5, 7}


async def test_erasures_change_everything(told: Told) -> None:
    counts, line = told
    counts.unread[A] = 0
    line.tell(op="erased", salt="", authors=[], n=1)
    await line.until(0)
    assert counts.asked[:3] == ["all", "heads", "all"]


async def test_a_store_that_does_not_answer_is_asked_again(told: Told) -> None:
    counts, line = told
    counts.unread[A], counts.failures = 1, 2
    line.tell(op="chat_changed", chat=A)
    await line.until(1)
    counts.unread[A], counts.failures = 0, 2
    line.tell(op="erased", salt="", authors=[], n=1)
    await line.until(0)


async def test_nothing_is_sent_before_the_first_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "RETRY_SECONDS", 0)
    counts, line = Counts(), Line()
    counts.failures = 2
    made(counts, line).start()
    await until(lambda: bool(line.totals))
    assert [told["messages"] for told in line.totals] == [2]
    line.tasks[0].cancel()
    await asyncio.gather(*line.tasks, return_exceptions=True)


async def test_a_chat_that_is_gone_while_it_is_counted_does_not_count(told: Told) -> None:
    counts, line = told
    counts.unread[B] = 1

    def gone() -> None:
        line.tell(op="gone", chat=A)
        counts.meanwhile = lambda: None

    def left() -> None:
        del counts.unread[A]
        counts.meanwhile_in_inboxes = lambda: None

    counts.meanwhile, counts.meanwhile_in_inboxes = gone, left
    line.tell(op="erased", salt="", authors=[], n=1)
    await line.until(1)


@pytest.mark.parametrize("failures", [0, 1])
async def test_a_notification_while_inboxes_are_counted(told: Told, failures: int) -> None:
    counts, line = told

    def posted() -> None:
        counts.inboxes["news"] = 2
        counts.failures = failures
        line.notify("n1")
        line.notify("n2", inbox="deleted")
        counts.meanwhile_in_inboxes = lambda: None

    counts.meanwhile_in_inboxes = posted
    line.tell(op="erased", salt="", authors=[], n=1)
    await line.until(2, inbox=2)
    assert line.totals[-1]["inboxes"] == {"news": 2}


async def test_nothing_is_sent_twice(told: Told) -> None:
    counts, line = told
    line.tell(op="chat_changed", chat=A)
    await until(lambda: counts.asked == ["all", A])
    line.tell(op="pong")
    assert len(line.totals) == 1
