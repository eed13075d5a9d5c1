# SPDX-License-Identifier: Apache-2.0
"""The client's half of the protocol, frame by frame."""

from collections.abc import Sequence

import pytest

from clients.python.tests.entries import NOON, message, messages
from clients.python.tests.talking import HEARTBEAT_MS, Talk
from tidings_client.errors import Refused, Unavailable, WrongUser
from tidings_client.events import (
    ChatGone,
    ChatResynced,
    Connected,
    Event,
    Invited,
    Message,
    OtherEntry,
    Presence,
    ReceiptMoved,
    Typing,
    UnreadChanged,
)
from tidings_client.frames import (
    Entry,
    Fetch,
    Gone,
    Hello,
    InvitedFrame,
    Live,
    Page,
    Ping,
    Pong,
    PresenceFrame,
    Read,
    ReceiptFrame,
    Received,
    RefusedFrame,
    Resync,
    TypingFrame,
    TypingNotice,
    UnreadFrame,
    decode,
    encode,
)
from tidings_client.requests import ANSWER_SECONDS_MAX
from tidings_client.saved import Held

CONNECTED = Connected(user="alice", device="laptop")


def sequences(events: Sequence[Event]) -> list[int]:
    return [event.sequence for event in events if isinstance(event, Message)]


async def test_hello_says_what_was_taken_in_an_earlier_run() -> None:
    talk = Talk()
    assert talk.connect() == Hello("token", "laptop", erasures=0)
    talk.hear(*messages(1, 3))
    events = await talk.take(3)
    assert events[0] == CONNECTED
    assert sequences(events) == [1, 2]
    talk.save()
    again = Talk(talk.storage)
    assert again.connect() == Hello("token", "laptop", "e", {"c": 2}, erasures=0)


async def test_hello_on_a_new_connection_says_what_came() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(*messages(1, 3))
    talk.conversation.lost()
    assert talk.connect() == Hello("token", "laptop", "e", {"c": 3}, erasures=0)
    assert sequences(await talk.take(4)) == [1, 2, 3]


async def test_received_follows_what_the_application_takes() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(*messages(1, 250))
    talk.tick()
    assert talk.heard_last() == []
    await talk.take(1 + 100)
    assert talk.heard_last() == [Received("c", 100)]
    await talk.take(10)
    assert talk.heard_last() == []
    talk.tick()
    assert talk.heard_last() == [Received("c", 110)]


async def test_an_application_that_takes_nothing_is_not_flooded() -> None:
    talk = Talk()
    for _ in range(6):
        have = talk.conversation._following.have().get("c", 0)
        talk.connect()
        talk.hear(*messages(have + 1, have + 1_000))
        talk.conversation.lost()
    assert talk.queue.room == 0
    assert talk.connect() == Hello("token", "laptop", "e", {"c": 2_000}, erasures=0)


async def test_what_had_no_room_is_fetched_once_there_is_some() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(*messages(1, 2_100))
    talk.tick()
    assert talk.heard_last() == []
    await talk.take(150)
    talk.heard_last()
    talk.tick()
    assert Fetch("1", "c", 100, after=2_000) in talk.heard_last()
    talk.hear(Page("1", "c", messages(2_001, 2_100), 2_100, more=False))
    rest = await talk.take(2_101 - 150)
    assert sequences(rest)[-1] == 2_100


async def test_resync_loads_the_newest_page() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(*messages(1, 2))
    talk.conversation.lost()
    talk.connect(live=False)
    talk.hear(Resync("c", 900))
    assert talk.heard_last() == [Fetch("1", "c", 50, before=901)]
    talk.hear(Page("1", "c", messages(851, 900), 900, more=True))
    events = await talk.take(2 + 1 + 1 + 50)
    assert events[3] == ChatResynced(chat="c", start=851)
    assert sequences(events) == [1, 2, *range(851, 901)]


async def test_after_a_crash_in_the_middle_of_a_resync_the_rest_comes() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(Resync("c", 900), Page("1", "c", messages(851, 900), 900, more=True))
    await talk.take(1 + 1 + 3)
    talk.save()
    assert Talk(talk.storage).connect() == Hello("token", "laptop", "e", {"c": 853}, erasures=0)


async def test_a_new_epoch_makes_everything_held_void() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(*messages(1, 5), *messages(1, 2, "d"))
    await talk.take(8)
    talk.conversation.read("c", 5)
    talk.conversation.lost()
    talk.connect("f", live=False)
    talk.save()
    # The connection breaks before the server has said anything: the old positions must not count
    # under the new epoch, neither in this run nor in the next.
    talk.conversation.lost()
    assert talk.connect("f", live=False) == Hello("token", "laptop", "f", erasures=0)
    again = Talk(talk.storage)
    assert again.connect("f", live=False) == Hello("token", "laptop", "f", erasures=0)
    again.hear(message(4), Live())
    resynced, entry, gone, _ = await again.take(4)
    assert resynced == ChatResynced(chat="c", start=4)
    assert sequences([entry]) == [4]
    assert gone == ChatGone(chat="d")
    assert Read("c", 5) not in again.heard_last()
    again.save()
    assert again.storage.load().held == {"c": Held("f", 4)}


async def test_gone_ends_a_chat_and_is_kept_once_it_was_taken() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(*messages(1, 2))
    talk.conversation.read("c", 2)
    await talk.take(3)
    talk.save()
    talk.hear(Gone("c"))
    talk.save()
    assert talk.storage.load().held == {"c": Held("e", 2)}
    assert await talk.take(1) == [ChatGone(chat="c")]
    talk.save()
    assert (talk.storage.load().held, talk.storage.load().reads) == ({}, {})


async def test_a_gap_in_a_chat_that_is_not_there_any_more() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(message(1), message(3))
    (fetch,) = talk.heard_last()
    assert isinstance(fetch, Fetch)
    talk.hear(RefusedFrame("chat.not_found", "", False, fetch.id))
    assert (await talk.take(3))[-1] == ChatGone(chat="c")


async def test_a_fetch_that_cannot_be_answered_now_is_repeated_later() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(message(1), message(3))
    talk.hear(RefusedFrame("store.unavailable", "", True, "1"))
    assert talk.heard_last() == [Fetch("1", "c", 100, after=1)]
    talk.tick()
    assert Fetch("2", "c", 100, after=1) in talk.heard_last()


async def test_a_fetch_that_comes_too_fast_is_repeated_when_the_server_says() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(message(1), message(3))
    talk.hear(RefusedFrame("rate.limited", "", True, "1", 5_000))
    talk.heard_last()
    talk.tick()
    assert not [frame for frame in talk.heard_last() if isinstance(frame, Fetch)]
    talk.tick(5)
    assert Fetch("2", "c", 100, after=1) in talk.heard_last()


async def test_at_most_four_fetches_at_once() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(*(Resync(f"c{number}", 9) for number in range(6)))
    assert len(talk.heard_last()) == 4
    talk.hear(Page("1", "c0", messages(1, 9, "c0"), 9, more=False))
    assert len(talk.heard_last()) == 1


async def test_read_marks_are_said_at_once_and_repeated_on_every_connection() -> None:
    talk = Talk()
    talk.conversation.read("c", 3)
    talk.connect()
    assert talk.heard_last() == [Read("c", 3)]
    talk.conversation.read("c", 4)
    talk.conversation.read("c", 2)
    assert talk.heard_last() == [Read("c", 4)]
    talk.save()
    again = Talk(talk.storage)
    again.connect()
    assert again.heard_last() == [Read("c", 4)]


async def test_notices() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(
        ReceiptFrame("c", "bob", 4, 3),
        TypingNotice("c", "bob"),
        PresenceFrame("bob", False, NOON),
        UnreadFrame("c", 7, True, 2),
        InvitedFrame("g", "bob"),
    )
    assert await talk.take(6) == [
        CONNECTED,
        ReceiptMoved(chat="c", user="bob", delivered=4, read=3),
        Typing(chat="c", user="bob"),
        Presence(user="bob", online=False, last_seen=NOON),
        UnreadChanged(chat="c", unread=7, exact=True, mentions=2),
        Invited(chat="g", user="bob"),
    ]


def test_typing_is_said_every_three_seconds_and_only_while_connected() -> None:
    talk = Talk()
    talk.conversation.typing("c", talk.now)
    talk.connect()
    for _ in range(8):
        talk.conversation.typing("c", talk.now)
        talk.now += 0.5
    assert talk.heard_last() == [TypingFrame("c")] * 2


def test_pings_and_silence() -> None:
    talk = Talk()
    talk.connect()
    interval = HEARTBEAT_MS / 1_000
    assert talk.tick(interval) is None
    assert talk.heard_last() == [Ping()]
    talk.hear(Pong())
    assert [talk.tick(interval) for _ in range(4)] == [None, None, None, "the server is silent"]


def test_a_request_without_an_answer_is_a_reason_to_leave() -> None:
    talk = Talk()
    talk.connect()
    talk.ask()
    assert talk.tick(ANSWER_SECONDS_MAX) is None
    assert talk.tick(1) == "the server does not answer"
    talk.conversation.lost()
    assert talk.tick() is None


def test_a_question_is_asked_until_there_is_an_answer() -> None:
    talk = Talk()
    talk.ask()
    talk.connect()
    assert talk.heard_last() == [Fetch("1", "c", 50, before=9)]
    talk.conversation.lost()
    talk.connect()
    assert talk.heard_last() == [Fetch("2", "c", 50, before=9)]
    page = Page("2", "c", messages(1, 8), 8, more=False)
    talk.hear(page, page)
    assert talk.pages == [page]


def test_a_question_may_be_declined() -> None:
    talk = Talk()
    talk.connect()
    talk.ask()
    talk.ask()
    talk.hear(RefusedFrame("chat.not_found", "", False, "1"))
    talk.hear(RefusedFrame("store.unavailable", "", True, "2"))
    assert [type(answer) for answer in talk.pages] == [Refused, Unavailable]


async def test_the_state_of_one_user_is_not_used_by_another() -> None:
    talk = Talk()
    talk.connect()
    talk.save()
    with pytest.raises(WrongUser, match="belongs to alice"):
        Talk(talk.storage, user="bob").connect()


def test_unknown_frames_and_fields_are_passed_over() -> None:
    assert decode(b'{"op":"from the future"}') is None
    assert decode(b"[]") is None
    assert decode(b"no json") is None
    assert decode(b'{"op":"pong","more":1}') == Pong()


async def test_an_entry_of_an_unknown_kind_still_has_its_place() -> None:
    talk = Talk()
    talk.connect(live=False)
    entry = decode(
        b'{"op":"entry","chat":"c","sequence":1,"kind":"sung","sender":"bob",'
        b'"created_at":"2030-01-01T12:00:00.000Z","notes":4}'
    )
    assert isinstance(entry, Entry)
    talk.hear(entry, message(2))
    other, following = await talk.take(2)
    assert other == OtherEntry(chat="c", sequence=1, sender="bob", created_at=NOON, kind="sung")
    assert isinstance(following, Message)


def test_hello_leaves_out_what_is_not_known() -> None:
    assert encode(Hello("t")) == b'{"op":"hello","token":"t"}'
