# SPDX-License-Identifier: Apache-2.0
"""Frames about inboxes: each notification is handed out once, and never after it was taken back."""

from datetime import UTC, datetime

from clients.python.tests.talking import Talk
from tidings_client import inbox_events
from tidings_client.events import (
    Presence,
    UnreadChanged,
)
from tidings_client.frames import (
    NotificationFrame,
    PresenceFrame,
    RetractedFrame,
    UnreadFrame,
    decode,
)
from tidings_client.inbox_events import InboxEvents
from tidings_client.notifications import InboxUnreadChanged, Notification, NotificationRetracted

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)


def told(name: str, inbox: str = "news") -> NotificationFrame:
    return NotificationFrame(
        inbox=inbox, id=name, message={"title": name, "body": ""}, received_at=NOON
    )


def names(events: object) -> list[tuple[str, str]]:
    assert isinstance(events, list)
    return [(type(event).__name__, event.id) for event in events]


async def a_talk() -> Talk:
    """A connection, and the event that says so taken."""
    talk = Talk()
    talk.connect()
    await talk.take(1)
    return talk


def test_frames_are_understood() -> None:
    frame = decode(
        b'{"op":"notification","inbox":"news","id":"b1","category":null,"sender":"Acme",'
        b'"host_system_id":"h","message":{"title":"t","body":"b","cta_uri":"app:x","more":[1]},'
        b'"received_at":"2030-01-31T12:00:00.000Z","new":1}'
    )
    assert isinstance(frame, NotificationFrame)
    event = InboxEvents().take(frame)
    assert isinstance(event, Notification)
    assert (event.title, event.body, event.cta_uri) == ("t", "b", "app:x")
    assert (event.sender, event.category, event.received_at) == ("Acme", None, NOON)
    assert (event.message["more"], event.read_at, event.host_system_id) == ([1], None, "h")
    retracted = decode(b'{"op":"retracted","inbox":"news","id":"b1"}')
    assert retracted == RetractedFrame("news", "b1")
    unread = decode(b'{"op":"unread","inbox":"news","total":2,"categories":{"a":1}}')
    assert unread == UnreadFrame(inbox="news", total=2, categories={"a": 1})


async def test_each_comes_once() -> None:
    talk = await a_talk()
    talk.hear(told("b1"), told("b1"))
    first = await talk.take(1)
    talk.hear(told("b1"), told("b2"), told("b1", "offers"))
    second = await talk.take(2)
    assert names([*first, *second]) == [
        ("Notification", "b1"),
        ("Notification", "b2"),
        ("Notification", "b1"),
    ]


async def test_what_was_taken_back_is_not_handed_out_any_more() -> None:
    talk = await a_talk()
    talk.hear(told("waits"), told("other"), RetractedFrame("news", "waits"))
    talk.hear(told("waits"), RetractedFrame("news", "waits"))
    assert names(list(await talk.take(2))) == [
        ("Notification", "other"),
        ("NotificationRetracted", "waits"),
    ]
    talk.hear(RetractedFrame("news", "early"), told("early"), RetractedFrame("news", "other"))
    assert await talk.take(2) == [
        NotificationRetracted(inbox="news", id="early"),
        NotificationRetracted(inbox="news", id="other"),
    ]
    talk.hear(told("early"), RetractedFrame("news", "early"), told("other"))
    talk.hear(PresenceFrame("bob", online=True))
    assert await talk.take(1) == [Presence(user="bob", online=True, last_seen=None)]


async def test_counts_of_chats_and_inboxes_are_told_apart() -> None:
    talk = await a_talk()
    talk.hear(
        UnreadFrame(chat="news", unread=3, unread_exact=False),
        UnreadFrame(inbox="news", total=1),
        UnreadFrame(inbox="news", total=2, categories={"a": 1}),
        UnreadFrame(),
    )
    assert await talk.take(2) == [
        UnreadChanged(chat="news", unread=3, exact=False),
        InboxUnreadChanged(inbox="news", total=2, categories={"a": 1}),
    ]


async def test_a_restored_server_may_use_ids_again() -> None:
    talk = await a_talk()
    talk.hear(told("b1"))
    await talk.take(1)
    talk.conversation.lost()
    talk.connect("e")
    talk.hear(told("b1"))
    await talk.take(1)
    talk.conversation.lost()
    talk.connect("restored")
    talk.hear(told("b1"))
    _, again = await talk.take(2)
    assert isinstance(again, Notification)


def test_it_remembers_so_many() -> None:
    events = InboxEvents()
    assert events.take(told("first")) is not None
    for number in range(inbox_events.TOLD_MAX - 1):
        events.take(told(f"b{number}"))
    assert events.take(told("first")) is None, "remembered, and the latest now"
    assert events.take(told("one more")) is not None
    assert events.take(told("first")) is None
    assert events.take(told("b0")) is not None, "the oldest made way"
    assert len(events._told) == inbox_events.TOLD_MAX
