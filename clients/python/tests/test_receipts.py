# SPDX-License-Identifier: Apache-2.0
"""What the server is told of what was taken and read."""

from tidings_client.frames import Read, Received
from tidings_client.receipts import READ_MARKS_MAX, RECEIVED_ENTRIES_MAX, Receipts


def test_received_is_said_at_the_tick() -> None:
    receipts = Receipts({})
    receipts.taken("c", 4, is_awaited=True)
    receipts.taken("c", 5, is_awaited=True)
    receipts.taken("d", 1, is_awaited=True)
    assert receipts.received(is_tick=False) == []
    assert receipts.received(is_tick=True) == [Received("c", 5), Received("d", 1)]
    assert receipts.received(is_tick=True) == []


def test_received_is_said_at_the_latest_after_a_hundred_entries() -> None:
    receipts = Receipts({})
    for sequence in range(1, RECEIVED_ENTRIES_MAX):
        receipts.taken("c", sequence, is_awaited=True)
        assert receipts.received(is_tick=False) == []
    receipts.taken("c", RECEIVED_ENTRIES_MAX, is_awaited=True)
    assert receipts.received(is_tick=False) == [Received("c", RECEIVED_ENTRIES_MAX)]


def test_own_messages_alone_are_not_worth_a_frame_each_second() -> None:
    receipts = Receipts({})
    receipts.taken("c", 4, is_awaited=False)
    assert receipts.received(is_tick=True) == []
    receipts.taken("d", 1, is_awaited=True)
    assert receipts.received(is_tick=True) == [Received("c", 4), Received("d", 1)]


def test_what_was_said_on_a_lost_connection_is_said_again() -> None:
    receipts = Receipts({})
    receipts.taken("c", 4, is_awaited=True)
    receipts.taken("d", 1, is_awaited=True)
    receipts.received(is_tick=True)
    receipts.taken("c", 5, is_awaited=True)
    receipts.lost()
    assert receipts.received(is_tick=True) == [Received("c", 5), Received("d", 1)]
    receipts.lost()
    receipts.forget("d")
    assert receipts.received(is_tick=True) == [Received("c", 5)]


def test_read_marks_only_move_forward() -> None:
    receipts = Receipts({"c": 4})
    assert receipts.read("c", 4) is None
    assert receipts.read("c", 3) is None
    assert receipts.read("c", 5) == []
    assert receipts.marks() == [Read("c", 5)]


def test_the_most_recent_read_marks_are_kept() -> None:
    receipts = Receipts({"old": 1})
    for number in range(READ_MARKS_MAX - 1):
        assert receipts.read(f"c{number}", 1) == []
    receipts.read("old", 2)
    assert receipts.read("new", 1) == ["c0"]
    assert len(receipts.marks()) == READ_MARKS_MAX


def test_another_epoch_makes_all_of_it_void() -> None:
    receipts = Receipts({"c": 4})
    receipts.taken("c", 4, is_awaited=True)
    receipts.forget_all()
    assert receipts.marks() == []
    assert receipts.received(is_tick=True) == []
