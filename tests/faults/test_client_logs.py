# SPDX-License-Identifier: Apache-2.0
"""The client rule, which every check of what a device holds stands on."""

from tests.support.client_logs import ClientLogs
from tests.support.client_socket import Frame


def entry(sequence: int) -> Frame:
    return {"chat": "chat", "sequence": sequence}


def applied(logs: ClientLogs) -> list[int]:
    return [entry["sequence"] for entry in logs.entries["chat"]]


def test_the_first_entry_is_the_start_and_repeats_are_dropped() -> None:
    logs = ClientLogs()
    missing = [logs.take(entry(sequence)) for sequence in (7, 8, 7, 8, 9)]
    assert missing == [None] * 5
    assert applied(logs) == [7, 8, 9]
    assert logs.repeats == 2


def test_an_entry_too_high_waits_for_what_is_missing() -> None:
    logs = ClientLogs()
    logs.take(entry(1))
    assert logs.take(entry(4)) == 1, "the place to fetch after"
    assert logs.take(entry(2)) is None
    assert applied(logs) == [1, 2]
    logs.take(entry(3))
    assert applied(logs) == [1, 2, 3, 4]


def test_an_own_message_counts_where_it_stands() -> None:
    logs = ClientLogs()
    logs.take_own(entry(5))
    assert "chat" not in logs.entries, "an own message is no start"
    logs.take(entry(3))
    logs.take(entry(4))
    assert applied(logs) == [3, 4, 5]
    logs.take_own(entry(6))
    logs.take(entry(6))
    assert applied(logs) == [3, 4, 5, 6]


def test_a_chat_that_starts_over_goes_on_from_its_head() -> None:
    logs = ClientLogs()
    logs.take(entry(1))
    logs.start_over("chat", 900)
    logs.take(entry(901))
    assert applied(logs) == [901]
    logs.forget("chat")
    assert logs.have == {}
