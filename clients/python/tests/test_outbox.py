# SPDX-License-Identifier: Apache-2.0
"""The outbox: order, repeats, rest, age."""

import pytest

from tidings_client import outbox as module
from tidings_client.errors import OutboxFull
from tidings_client.outbox import AGE_MS_MAX, Outbox
from tidings_client.saved import Outgoing


def a_message(name: str, chat: str = "c", created_at_ms: int = 0) -> Outgoing:
    return Outgoing(chat, name, f"content of {name}", created_at_ms)


def an_outbox(*kept: Outgoing, in_flight_max: int = 1) -> Outbox:
    return Outbox(kept, in_flight_max=in_flight_max, jitter=lambda _, most: most)


def names(outbox: Outbox, now: float = 0) -> list[str]:
    return [message.client_message_id for message in outbox.due(now)]


def add_stored(outbox: Outbox, *messages: Outgoing) -> None:
    for message in messages:
        outbox.add(message)
        outbox.stored(message.key)


def test_a_message_goes_out_once_it_is_stored() -> None:
    outbox = an_outbox()
    outbox.add(a_message("a"))
    assert names(outbox) == []
    outbox.stored(("c", "a"))
    assert names(outbox) == ["a"]
    assert names(outbox) == []


def test_what_was_kept_goes_out_at_once() -> None:
    assert names(an_outbox(a_message("a"), a_message("b", "d"))) in (["a", "b"], ["b", "a"])


def test_one_message_of_a_chat_at_a_time_in_order() -> None:
    outbox = an_outbox()
    add_stored(outbox, a_message("a"), a_message("b"), a_message("x", "d"))
    assert sorted(names(outbox)) == ["a", "x"]
    assert outbox.answered(("c", "a")) == a_message("a")
    assert names(outbox) == ["b"]


def test_one_that_is_not_stored_holds_up_those_behind_it() -> None:
    outbox = an_outbox(in_flight_max=5)
    outbox.add(a_message("a"))
    add_stored(outbox, a_message("b"))
    assert names(outbox) == []
    outbox.stored(("c", "a"))
    assert names(outbox) == ["a", "b"]


def test_several_in_flight_go_out_in_order() -> None:
    outbox = an_outbox(in_flight_max=2)
    add_stored(outbox, a_message("a"), a_message("b"), a_message("c"))
    assert names(outbox) == ["a", "b"]
    outbox.answered(("c", "a"))
    assert names(outbox) == ["c"]


def test_a_lost_connection_repeats_all_that_was_in_flight() -> None:
    outbox = an_outbox(in_flight_max=2)
    add_stored(outbox, a_message("a"), a_message("b"))
    names(outbox)
    outbox.lost()
    assert names(outbox) == ["a", "b"]


def test_turned_away_means_rest_then_the_same_again_before_the_next() -> None:
    outbox = an_outbox()
    add_stored(outbox, a_message("a"), a_message("b"))
    now = 0.0
    for pause in (0.5, 1, 2, 4, 8, 16, 30, 30):
        assert names(outbox, now) == ["a"]
        outbox.turned_away(("c", "a"), now)
        assert names(outbox, now + pause - 0.1) == []
        now += pause
    outbox.answered(("c", "a"))
    assert names(outbox, now) == ["b"]


def test_several_turned_away_keep_their_order() -> None:
    outbox = an_outbox(in_flight_max=3)
    add_stored(outbox, a_message("a"), a_message("b"), a_message("c"), a_message("d"))
    assert names(outbox) == ["a", "b", "c"]
    for name in ("b", "a"):
        outbox.turned_away(("c", name), 0)
    outbox.turned_away(("c", "b"), 0)
    assert names(outbox, 60) == ["a", "b"]
    outbox.answered(("c", "c"))
    assert names(outbox, 60) == ["d"]


def test_one_answered_while_it_waits_is_passed_over() -> None:
    outbox = an_outbox()
    add_stored(outbox, a_message("a"), a_message("b"), a_message("c"))
    names(outbox)
    outbox.answered(("c", "b"))
    outbox.answered(("c", "a"))
    assert names(outbox) == ["c"]


def test_an_answer_to_what_is_not_here_any_more_is_nothing() -> None:
    outbox = an_outbox()
    assert outbox.answered(("c", "a")) is None
    outbox.turned_away(("c", "a"), 0)
    outbox.stored(("c", "a"))
    assert len(outbox) == 0


def test_six_days_are_enough() -> None:
    old, young = a_message("a", created_at_ms=1_000), a_message("b", created_at_ms=2_000)
    outbox = an_outbox(old, young)
    assert outbox.expired(1_000 + AGE_MS_MAX) == []
    assert outbox.expired(1_001 + AGE_MS_MAX) == [old]
    assert names(outbox) == ["b"]


def test_the_same_key_twice_is_a_mistake() -> None:
    outbox = an_outbox(a_message("a"))
    with pytest.raises(ValueError, match="waiting already"):
        outbox.add(a_message("a"))
    outbox.add(a_message("a", "d"))
    assert ("d", "a") in outbox


def test_full_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MESSAGES_MAX", 2)
    outbox = an_outbox(a_message("a"), a_message("b"))
    with pytest.raises(OutboxFull):
        outbox.add(a_message("c"))
