# SPDX-License-Identifier: Apache-2.0
"""Events between processes: what goes with them, what does not, and what makes no sense."""

import msgspec
import pytest

from tests.support.canary import MARK, canary
from tests.unit.small_deployment import ALICE, CHAT
from tidings.model.entries import Entry, Person
from tidings.wire.events import (
    CleanedEvent,
    EntryEvent,
    HintEvent,
    NotAnEvent,
    decode_event,
    encode_event,
    entry_event,
)


def test_an_entry_arrives_as_it_is_stored() -> None:
    entry = Entry(
        chat_id=CHAT,
        kind="message",
        sender=ALICE,
        sequence=3,
        number=2,
        created_at=5,
        client_message_id="m1",
        box=b"sealed",
        box_key=2,
        expires_at=9,
        mark="m",
    )
    opened = msgspec.structs.replace(entry, content=canary("x"), mine=("a",), gone="expired")
    data = entry_event(opened)
    assert MARK.encode() not in data
    event = decode_event(data)
    assert isinstance(event, EntryEvent)
    assert event.entry == entry
    assert (event.chat, event.sequence) == (CHAT, 3)
    assert opened.content == canary("x")


def test_people_and_names_go_along() -> None:
    entry = Entry(
        chat_id=CHAT, kind="created", sender=ALICE, sequence=1, name="N",
        people=(Person(ALICE, "owner"),),
    )  # fmt: skip
    assert decode_event(entry_event(entry)) == EntryEvent(entry)


def test_an_edit_carries_no_content_at_all() -> None:
    edit = Entry(
        chat_id=CHAT, kind="edited", sender=ALICE, sequence=4, target=3, box=b"new", box_key=1,
        content=canary("new"), shown=Entry(chat_id=CHAT, kind="message", sender=ALICE, box=b"new"),
    )  # fmt: skip
    event = decode_event(entry_event(edit))
    assert isinstance(event, EntryEvent)
    assert (event.entry.box, event.entry.box_key, event.entry.shown) == (None, 0, None)
    assert b"new" not in entry_event(edit)


@pytest.mark.parametrize("event", [HintEvent(CHAT, 8), CleanedEvent(CHAT, (1, 2))])
def test_other_events_arrive(event: HintEvent | CleanedEvent) -> None:
    assert decode_event(encode_event(event)) == event


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    data = msgspec.msgpack.encode({"event": "hint", "chat": CHAT, "sequence": 4, "why": "new"})
    assert decode_event(data) == HintEvent(CHAT, 4)


def test_an_entry_of_a_kind_that_a_newer_version_knows_is_looked_up_in_the_log() -> None:
    known = msgspec.msgpack.decode(entry_event(Entry(chat_id=CHAT, kind="message", sender=ALICE)))
    newer = known | {"entry": known["entry"] | {"kind": "moved", "sequence": 4}}
    assert decode_event(msgspec.msgpack.encode(newer)) == HintEvent(CHAT, 4)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"{}",
        msgspec.msgpack.encode({"event": "strange"}),
        msgspec.msgpack.encode({"event": "hint", "chat": CHAT, "sequence": 0}),
        msgspec.msgpack.encode({"event": "entry", "entry": {"chat_id": CHAT}}),
        b"\x81\xa5event\xa4\xff\xff\xff\xff",
    ],
)
def test_what_makes_no_sense_is_told_apart(data: bytes) -> None:
    with pytest.raises(NotAnEvent):
        decode_event(data)
