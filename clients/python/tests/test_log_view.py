# SPDX-License-Identifier: Apache-2.0
"""The client rule, case by case; `test_log_view_model.py` tries all orders."""

from clients.python.tests.entries import message, messages
from tidings_client.frames import Entry
from tidings_client.log_view import AHEAD_ENTRIES_MAX, Apply, Forget, LogView, Restart, Step, Want


def a_view(
    held: dict[str, int] | None = None, stale: tuple[str, ...] = (), room: list[bool] | None = None
) -> LogView:
    has_room = room or [True]
    return LogView(held or {}, stale, lambda: has_room[0])


def applied(steps: list[Step]) -> list[int]:
    return [step.entry.sequence for step in steps if isinstance(step, Apply)]


def take_all(view: LogView, entries: list[Entry]) -> list[Step]:
    return [step for entry in entries for step in view.take(entry)]


def test_the_next_entry_is_applied_and_a_held_one_ignored() -> None:
    view = a_view({"c": 4})
    assert applied(take_all(view, messages(3, 6))) == [5, 6]
    assert view.have() == {"c": 6}
    assert list(view.wants()) == []


def test_the_first_entry_of_an_unknown_chat_is_the_start() -> None:
    view = a_view()
    assert view.take(message(70)) == [Apply(message(70))]
    assert view.have() == {"c": 70}


def test_a_gap_is_fetched_and_what_came_early_is_not_lost() -> None:
    view = a_view({"c": 1})
    assert view.take(message(4)) == []
    assert list(view.wants()) == [Want("c", after=1)]
    assert list(view.wants()) == []
    assert applied(view.page(Want("c", after=1), messages(2, 3), head=4)) == [2, 3, 4]
    assert list(view.wants()) == []


def test_a_short_page_is_followed_by_another() -> None:
    view = a_view({"c": 1})
    view.take(message(9))
    (want,) = view.wants()
    assert applied(view.page(want, messages(2, 5), head=9)) == [2, 3, 4, 5]
    assert list(view.wants()) == [Want("c", after=5)]


def test_a_page_that_brings_nothing_is_not_asked_for_again_at_once() -> None:
    view = a_view({"c": 1})
    view.take(message(3))
    (want,) = view.wants()
    assert view.page(want, [], head=1) == []
    assert list(view.wants()) == []
    view.settle()
    assert list(view.wants()) == [want]


def test_more_than_can_be_kept_is_fetched() -> None:
    view = a_view({"c": 0})
    last = AHEAD_ENTRIES_MAX + 10
    take_all(view, messages(2, last))
    (want,) = view.wants()
    assert applied(view.page(want, messages(1, 1), head=1))[-1] == AHEAD_ENTRIES_MAX + 1
    (want,) = view.wants()
    rest = view.page(want, messages(AHEAD_ENTRIES_MAX + 2, last), head=last)
    assert applied(rest)[-1] == last


def test_an_own_message_counts_at_its_place() -> None:
    view = a_view({"c": 4})
    assert applied(view.take_own(message(5))) == [5]
    assert view.take(message(5)) == []


def test_an_own_message_further_on_waits_for_what_is_on_its_way() -> None:
    view = a_view({"c": 4})
    assert view.take_own(message(6)) == []
    assert list(view.wants()) == []
    assert applied(view.take(message(5))) == [5, 6]
    view.settle()
    assert list(view.wants()) == []


def test_what_does_not_come_before_an_own_message_is_fetched() -> None:
    view = a_view({"c": 4})
    view.take_own(message(6))
    view.settle()
    (want,) = view.wants()
    assert applied(view.page(want, messages(5, 6), head=6)) == [5, 6]


def test_an_own_message_in_an_unknown_chat_is_no_start() -> None:
    view = a_view()
    assert view.take_own(message(2)) == []
    assert applied(view.take(message(1))) == [1, 2]


def test_an_own_message_whose_chat_never_comes_starts_it_after_all() -> None:
    view = a_view()
    view.take_own(message(9))
    view.settle()
    (want,) = view.wants()
    assert want == Want("c", before=10)
    assert view.page(want, messages(8, 9), head=9)[0] == Restart("c", 8)


def test_resync_starts_over_with_the_newest_page() -> None:
    view = a_view({"c": 4})
    view.resync("c", 900)
    assert view.take(message(901)) == []
    (want,) = view.wants()
    assert want == Want("c", before=901)
    steps = view.page(want, messages(851, 900), head=901)
    assert steps[0] == Restart("c", 851)
    assert applied(steps) == list(range(851, 902))
    assert view.have() == {"c": 901}


def test_until_the_newest_page_is_there_what_is_held_stays_held() -> None:
    view = a_view({"c": 4})
    view.resync("c", 900)
    view.lost()
    assert view.have() == {"c": 4}
    assert applied(view.take(message(5))) == [5]


def test_resync_while_a_gap_is_fetched() -> None:
    view = a_view({"c": 4})
    view.take(message(9))
    (gap,) = view.wants()
    view.resync("c", 900)
    assert view.page(gap, messages(5, 9), head=900) == []
    view.settle()
    assert list(view.wants()) == [Want("c", before=901)]


def test_gone_is_told_once() -> None:
    view = a_view({"c": 4})
    assert view.gone("c") == [Forget("c")]
    assert view.gone("c") == []
    assert view.have() == {}


def test_a_page_for_a_chat_that_is_gone_is_nothing() -> None:
    view = a_view({"c": 1})
    view.take(message(3))
    (want,) = view.wants()
    view.gone("c")
    assert view.page(want, messages(2, 3), head=3) == []
    assert view.have() == {}


def test_nothing_held_under_another_epoch_counts() -> None:
    view = a_view({"c": 4, "d": 2, "e": 1})
    view.epoch_changed()
    assert view.have() == {}
    assert view.take(message(3)) == [Restart("c", 3), Apply(message(3))]
    view.resync("d", 7)
    assert view.live() == [Forget("e")]
    assert list(view.wants()) == [Want("d", before=8)]


def test_chats_kept_from_another_epoch_start_over() -> None:
    view = a_view({"c": 4}, stale=("d",))
    assert view.have() == {"c": 4}
    assert view.take(message(1, "d")) == [Restart("d", 1), Apply(message(1, "d"))]
    assert view.live() == []


def test_without_room_nothing_is_applied_and_with_room_it_is_fetched() -> None:
    room = [False]
    view = a_view({"c": 4}, room=room)
    assert take_all(view, messages(5, 7)) == []
    room[0] = True
    (want,) = view.wants()
    assert applied(view.page(want, messages(5, 7), head=7)) == [5, 6, 7]


def test_a_chat_that_starts_without_room_starts_at_its_newest_page() -> None:
    room = [False]
    view = a_view(room=room)
    assert take_all(view, messages(5, 7)) == []
    room[0] = True
    (want,) = view.wants()
    assert want == Want("c", before=6)
    assert applied(view.page(want, messages(1, 5), head=7)) == [1, 2, 3, 4, 5, 6, 7]
