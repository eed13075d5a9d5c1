# SPDX-License-Identifier: Apache-2.0
"""A client by heads: which chats it follows, on which connections, and what its events are."""

from typing import Any

from clients.python.tests.entries import NOON, message, messages
from clients.python.tests.talking import Talk
from tidings_client.client import CLIENT_NAME
from tidings_client.events import (
    ChatChanged,
    ChatGone,
    ChatHead,
    ChatResynced,
    Connected,
    Message,
    ScheduledFailed,
    UnreadTotalChanged,
)
from tidings_client.frames import (
    Away,
    ChatChangedFrame,
    Follow,
    Gone,
    Heads,
    Hello,
    InboxMissedFrame,
    Live,
    NotificationFrame,
    RefusedFrame,
    ScheduledFailedFrame,
    UnreadFrame,
    UnreadTotalFrame,
)
from tidings_client.notifications import InboxMissed, InboxUnreadChanged
from tidings_client.selection import Selection

CONNECTED = Connected(user="alice", device="laptop")


def by_heads(**choices: object) -> Talk:
    return Talk(selection=Selection("test/1", is_by_heads=True, **choices))  # type: ignore[arg-type]


def follow(chat: str, after: int | None = None) -> Follow:
    return Follow(chat, after, f"follow:{chat}")


async def test_heads_are_events_until_a_chat_is_followed() -> None:
    talk = by_heads()
    assert talk.connect(live=False) == Hello(
        "token", "laptop", erasures=0, client="test/1", catch_up="heads"
    )
    talk.hear(Heads({"c": 4, "d": 7}), Heads({"d": 8}))
    assert list(await talk.take(2)) == [ChatHead(chat="c", head=4), ChatHead(chat="d", head=8)]
    talk.conversation.follow("c")
    talk.conversation.follow("c")
    assert talk.heard_last() == [follow("c")]
    talk.hear(*messages(1, 2))
    assert [type(event) for event in await talk.take(2)] == [Message, Message]


async def test_a_chat_stays_followed_after_a_reconnect_and_goes_on_where_it_was() -> None:
    talk = by_heads()
    talk.conversation.follow("c")
    talk.connect()
    assert talk.heard_last() == [follow("c")]
    talk.hear(*messages(1, 3))
    talk.conversation.lost()
    talk.conversation.follow("d")
    talk.connect()
    assert talk.heard_last() == [follow("c", 3), follow("d")]


async def test_after_a_new_epoch_a_followed_chat_starts_over_and_others_are_kept() -> None:
    talk = by_heads()
    talk.conversation.follow("c")
    talk.connect()
    talk.hear(*messages(1, 3), message(1, chat="other"))
    await talk.take(5)
    talk.conversation.lost()
    talk.heard_last()
    talk.connect("another", live=False)
    talk.hear(Heads({"c": 9, "other": 3}), Live(), *messages(8, 9))
    assert follow("c") in talk.heard_last()
    assert [type(event) for event in await talk.take(5)] == [
        ChatHead, Connected, ChatResynced, Message, Message,
    ]  # fmt: skip


async def test_a_chat_that_is_gone_is_no_longer_followed_whether_its_entries_came_or_not() -> None:
    talk = by_heads()
    talk.connect(live=False)
    talk.hear(Heads({"c": 4, "d": 7}))
    await talk.take(2)
    talk.conversation.follow("c")
    talk.hear(message(1), Gone("c"), Gone("d"), Gone("unheard of"))
    first, *rest = await talk.take(3)
    assert isinstance(first, Message)
    assert rest == [ChatGone(chat="c"), ChatGone(chat="d")]
    talk.conversation.lost()
    talk.connect()
    assert talk.heard_last() == []


async def test_who_is_back_in_a_chat_follows_it_again() -> None:
    talk = by_heads(chats=["c"])
    talk.connect(live=False)
    talk.heard_last()
    talk.hear(Heads({"c": 4}))
    assert talk.heard_last() == [], "the server has heard it, and names all chats before live"
    talk.conversation.lost()
    talk.connect()
    talk.heard_last()
    talk.hear(Heads({"c": 9}))
    assert talk.heard_last() == [follow("c")]


async def test_a_refused_follow_is_said_again_when_it_may_be() -> None:
    talk = by_heads(chats=["c", "d"])
    talk.connect()
    talk.heard_last()
    refused = RefusedFrame("rate.limited", "", True, "follow:c", 2_000)
    talk.hear(refused, RefusedFrame("request.invalid", "", False, "follow:d"))
    talk.hear(RefusedFrame("store.unavailable", "", True), RefusedFrame("x", "", True, "other"))
    talk.tick()
    assert talk.heard_last() == []
    talk.tick(2)
    assert talk.heard_last() == [follow("c")]
    talk.tick(2)
    assert talk.heard_last() == []


async def test_away_is_said_once_and_on_every_connection() -> None:
    talk = Talk()
    talk.conversation.away(True)
    talk.connect()
    assert talk.heard_last() == [Away(True)]
    talk.conversation.away(True)
    talk.conversation.away(False)
    assert talk.heard_last() == [Away(False)]
    talk.conversation.lost()
    talk.connect()
    assert talk.heard_last() == []


async def test_who_follows_all_says_nothing_of_chats() -> None:
    talk = Talk(selection=Selection(CLIENT_NAME, chats=["c"]))
    assert talk.connect() == Hello("token", "laptop", erasures=0, client=CLIENT_NAME)
    talk.conversation.follow("d")
    assert talk.heard_last() == []


async def test_totals_come_if_they_were_asked_for_and_so_do_changed_chats() -> None:
    talk = Talk(selection=Selection(totals=True))
    hello = talk.connect()
    assert isinstance(hello, Hello) and hello.totals
    numbers: dict[str, Any] = {"chats": 1, "messages": 2, "mentions": 0, "total": 5, "exact": True}
    talk.hear(UnreadTotalFrame(inboxes={"news": 3}, **numbers), ChatChangedFrame("c"))
    talk.hear(ChatChangedFrame(), ScheduledFailedFrame(), ScheduledFailedFrame("s", "c", "why"))
    assert (await talk.take(5))[1:] == [
        UnreadTotalChanged(inboxes={"news": 3}, **numbers),
        ChatChanged(chat="c"),
        ChatChanged(chat=None),
        ScheduledFailed(chat="c", scheduled_id="s", code="why"),
    ]


async def test_inboxes_are_named_with_the_newest_that_came() -> None:
    talk = Talk(selection=Selection(inboxes=["news"]))
    hello = talk.connect()
    assert isinstance(hello, Hello) and hello.inboxes == {"news": None}
    for inbox in ("news", "other"):
        talk.hear(NotificationFrame(inbox=inbox, id="b7", message={}, received_at=NOON))
    talk.hear(UnreadFrame(inbox="news", total=9, exact=False), InboxMissedFrame("news", 3, True))
    assert (await talk.take(5))[3:] == [
        InboxUnreadChanged(inbox="news", total=9, categories={}, exact=False),
        InboxMissed(inbox="news", count=3, exact=True),
    ]
    talk.conversation.lost()
    again = talk.connect()
    assert isinstance(again, Hello) and again.inboxes == {"news": "b7"}
