# SPDX-License-Identifier: Apache-2.0
"""The shape of every frame, both ways, as the protocol has it."""

from typing import Any

import msgspec
import pytest

from tests.support.users import ANN, BOB
from tidings.model.entries import Entry, Person
from tidings.model.ids import SEQUENCE_MAX, ChatId
from tidings.model.limits import PAGE_DEFAULT, PAGE_MAX
from tidings.wire import frames
from tidings.wire.codes import RECONNECT, Close
from tidings.wire.entry_frames import encode_entry
from tidings.wire.frames import decode_client_frame, encode

CHAT = ChatId("01HZZZZZZZZZZZZZZZZZZZZZZZ")
NOON = 1_800_000_000_123
NOON_TEXT = "2027-01-15T08:00:00.123Z"

Json = dict[str, Any]


def shown(frame: bytes) -> Json:
    told: Json = msgspec.json.decode(frame)
    return told


SERVER_FRAMES: list[tuple[msgspec.Struct, Json]] = [
    (
        frames.Welcome("ann", "phone", "c0", "e1", 20_000, 1_000),
        {
            "op": "welcome", "user": "ann", "device": "phone", "connection": "c0", "epoch": "e1",
            "heartbeat_ms": 20_000, "window": 1_000,
        },
    ),
    (frames.Live(), {"op": "live"}),
    (
        frames.SentFrame("7", CHAT, 3, f"{CHAT}.3", NOON_TEXT),
        {
            "op": "sent", "id": "7", "chat": CHAT, "sequence": 3, "message_id": f"{CHAT}.3",
            "created_at": NOON_TEXT,
        },
    ),
    (
        frames.Refused("chat.not_found", "No such chat", False, "7"),
        {
            "op": "refused", "id": "7", "code": "chat.not_found", "detail": "No such chat",
            "retryable": False,
        },
    ),
    (
        frames.Refused("chat.busy", "", True),
        {"op": "refused", "code": "chat.busy", "detail": "", "retryable": True},
    ),
    (
        frames.PageFrame("7", CHAT, [msgspec.Raw(b'{"sequence":1}')], 4, True),
        {
            "op": "page", "id": "7", "chat": CHAT, "entries": [{"sequence": 1}], "head": 4,
            "more": True,
        },
    ),
    (
        frames.ReceiptFrame(CHAT, "bob", 5, 4),
        {"op": "receipt", "chat": CHAT, "user": "bob", "delivered": 5, "read": 4},
    ),
    (frames.TypingNotice(CHAT, "bob"), {"op": "typing", "chat": CHAT, "user": "bob"}),
    (frames.Presence("bob", True), {"op": "presence", "user": "bob", "online": True}),
    (
        frames.Presence("bob", False, NOON_TEXT),
        {"op": "presence", "user": "bob", "online": False, "last_seen": NOON_TEXT},
    ),
    (
        frames.UnreadFrame(CHAT, 3, True),
        {"op": "unread", "chat": CHAT, "unread": 3, "unread_exact": True, "unread_mentions": 0},
    ),
    (frames.Resync(CHAT, 900), {"op": "resync", "chat": CHAT, "head": 900}),
    (frames.GoneFrame(CHAT), {"op": "gone", "chat": CHAT}),
    (
        frames.Bye(Close.RESTARTING, True, 250),
        {"op": "bye", "code": 1012, "reconnect": True, "retry_after_ms": 250},
    ),
    (frames.Pong(), {"op": "pong"}),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "told"), SERVER_FRAMES)
def test_what_the_server_says(frame: msgspec.Struct, told: Json) -> None:
    assert shown(encode(frame)) == told


def test_frames_made_once_say_the_same() -> None:
    assert (shown(frames.PONG), shown(frames.LIVE)) == ({"op": "pong"}, {"op": "live"})


# Entries.


def entry(kind: Any, **fields: Any) -> Json:
    made = Entry(
        chat_id=CHAT, kind=kind, sender=ANN, sequence=7, created_at=NOON, mark="secret", **fields
    )
    told = shown(encode_entry(made))
    common = {
        "op": "entry", "chat": CHAT, "sequence": 7, "kind": kind, "sender": "ann",
        "created_at": NOON_TEXT,
    }  # fmt: skip
    assert common.items() <= told.items()
    return {name: value for name, value in told.items() if name not in common}


MESSAGE = {"client_message_id": "m1", "content_type": "text/plain", "box": b"sealed", "box_key": 1}
MESSAGE_TOLD = {
    "message_id": f"{CHAT}.7", "client_message_id": "m1", "content_type": "text/plain",
}  # fmt: skip


def test_a_message_carries_its_content_and_nothing_of_how_it_is_kept() -> None:
    assert entry("message", **MESSAGE, content="hi") == MESSAGE_TOLD | {"content": "hi"}


def test_a_message_says_when_it_expires_and_what_has_become_of_it() -> None:
    told = entry(
        "message", **MESSAGE, content="hi", expires_at=NOON, edited_at=NOON, reactions={"+": 2}
    )
    assert told == MESSAGE_TOLD | {
        "content": "hi", "expires_at": NOON_TEXT, "edited_at": NOON_TEXT, "reactions": {"+": 2},
    }  # fmt: skip


@pytest.mark.parametrize("gone", ["redacted", "expired", "erased"])
def test_a_message_without_content_says_why(gone: str) -> None:
    assert entry("message", **MESSAGE, content="hi", gone=gone) == MESSAGE_TOLD | {gone: True}


def test_an_edit_carries_the_content_it_brings() -> None:
    told = entry("edited", target=3, content="new", content_type="text/plain", box=b"sealed")
    assert told == {"target": 3, "content": "new", "content_type": "text/plain"}


def test_an_edit_from_the_log_carries_its_targets_present_content() -> None:
    target = Entry(chat_id=CHAT, kind="message", sender=ANN, sequence=3, content="newest")
    told = entry("edited", target=3, content="new", shown=target)
    assert told == {"target": 3, "content": "newest"}


def test_an_edit_of_what_is_gone_carries_no_content() -> None:
    target = Entry(chat_id=CHAT, kind="message", sender=ANN, sequence=3, gone="redacted")
    assert entry("edited", target=3, shown=target) == {"target": 3}


@pytest.mark.parametrize(
    ("kind", "fields", "told"),
    [
        ("redacted", {"target": 3}, {"target": 3}),
        ("reacted", {"target": 3, "emoji": "👍"}, {"target": 3, "emoji": "👍"}),
        ("unreacted", {"target": 3, "emoji": "👍"}, {"target": 3, "emoji": "👍"}),
        (
            "added",
            {"people": (Person(BOB, "admin"),)},
            {"users": ["bob"], "role": "admin"},
        ),
        ("removed", {"people": (Person(BOB, "member"),)}, {"users": ["bob"]}),
        ("role", {"people": (Person(BOB, "owner"),)}, {"users": ["bob"], "role": "owner"}),
        ("renamed", {"name": "Tea"}, {"name": "Tea"}),
        (
            "created",
            {"people": (Person(ANN, "owner"), Person(BOB, "member")), "name": "Tea"},
            {"users": ["ann", "bob"], "name": "Tea"},
        ),
    ],
)
def test_other_entries_name_what_they_are_about(kind: str, fields: Json, told: Json) -> None:
    assert entry(kind, **fields) == told


# What clients say.

CLIENT_FRAMES: list[tuple[Json, msgspec.Struct]] = [
    ({"op": "hello", "token": "t"}, frames.Hello("t")),
    (
        {"op": "hello", "token": "t", "device": "d", "epoch": "e", "have": {CHAT: 4}},
        frames.Hello("t", "d", "e", {CHAT: 4}),
    ),
    (
        {"op": "send", "id": "1", "chat": CHAT, "client_message_id": "m", "content": "hi"},
        frames.SendFrame("1", CHAT, "m", "hi"),
    ),
    (
        {
            "op": "send", "id": "1", "chat": CHAT, "client_message_id": "m", "content": "hi",
            "content_type": "text/markdown", "ttl_seconds": 5,
        },
        frames.SendFrame("1", CHAT, "m", "hi", "text/markdown", 5),
    ),
    (
        {
            "op": "send", "id": "1", "chat": CHAT, "client_message_id": "m", "content": "hi",
            "content_type": None, "ttl_seconds": None, "after": None, "reply_to": None,
            "mentions": None, "silent": None, "attachments": None, "trace": None,
        },
        frames.SendFrame("1", CHAT, "m", "hi"),
    ),
    ({"op": "received", "chat": CHAT, "sequence": 0}, frames.Received(CHAT, 0)),
    ({"op": "read", "chat": CHAT, "sequence": SEQUENCE_MAX}, frames.Read(CHAT, SEQUENCE_MAX)),
    ({"op": "typing", "chat": CHAT}, frames.TypingFrame(CHAT)),
    (
        {"op": "fetch", "id": "1", "chat": CHAT, "after": 5},
        frames.Fetch("1", CHAT, 5, None, PAGE_DEFAULT),
    ),
    (
        {"op": "fetch", "id": "1", "chat": CHAT, "before": 5, "limit": PAGE_MAX},
        frames.Fetch("1", CHAT, None, 5, PAGE_MAX),
    ),
    ({"op": "auth", "token": "t"}, frames.Auth("t")),
    ({"op": "ping", "unknown": ["field"]}, frames.Ping()),
]  # fmt: skip


@pytest.mark.parametrize(("told", "frame"), CLIENT_FRAMES)
def test_what_a_client_says(told: Json, frame: msgspec.Struct) -> None:
    assert decode_client_frame(msgspec.json.encode(told)) == frame


@pytest.mark.parametrize(
    "option", [{"reply_to": 2}, {"mentions": ["bob"]}, {"silent": True}, {"attachments": ["a"]}]
)
def test_an_option_that_is_null_is_absent(option: Json) -> None:
    nulls = dict.fromkeys(("reply_to", "mentions", "silent", "attachments"))
    plain, full = [
        frames.SendFrame("1", CHAT, "m", "hi", **{**more, **option}).options for more in ({}, nulls)
    ]
    assert plain is not None and full == plain
    assert full.digested == plain.digested
    assert frames.SendFrame("1", CHAT, "m", "hi", **nulls).options is None


@pytest.mark.parametrize(
    "told",
    [
        {"op": "received", "chat": CHAT, "sequence": -1},
        {"op": "received", "chat": CHAT, "sequence": 1.5},
        {"op": "received", "chat": CHAT, "sequence": 1.0},
        {"op": "received", "chat": CHAT, "sequence": "1"},
        {"op": "received", "chat": CHAT, "sequence": True},
        {"op": "received", "chat": CHAT, "sequence": None},
        {"op": "received", "chat": CHAT, "sequence": SEQUENCE_MAX + 1},
        {"op": "received", "chat": None, "sequence": 1},
        {"op": "fetch", "id": "1", "chat": CHAT, "after": 0, "limit": 0},
        {"op": "fetch", "id": "1", "chat": CHAT, "after": 0, "limit": PAGE_MAX + 1},
        {"op": "fetch", "id": "", "chat": CHAT, "after": 0},
        {"op": "fetch", "id": "x" * 65, "chat": CHAT, "after": 0},
        {"op": "fetch", "id": 1, "chat": CHAT, "after": 0},
        {"op": "hello", "token": "t", "have": {CHAT: -1}},
        {"op": "hello", "token": "t", "have": [CHAT]},
        {"op": "hello", "token": "t" * 8_193},
        {"op": "typing", "chat": "x" * 65},
        ["ping"],
    ],
)
def test_what_is_not_a_frame(told: object) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_client_frame(msgspec.json.encode(told))


def test_the_codes_after_which_a_client_comes_back_by_itself() -> None:
    assert {int(code) for code in RECONNECT} == {1012, 1013, 4408, 4409, 4429}
    assert {int(code) for code in Close} - {int(code) for code in RECONNECT} == {
        1002, 1007, 4400, 4401, 4403, 4413,
    }  # fmt: skip
