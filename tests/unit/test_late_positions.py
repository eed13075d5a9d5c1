# SPDX-License-Identifier: Apache-2.0
"""The place of a scheduled broadcast in lists and counts is when it was delivered, not its id."""

from tidings.model.ids import ulid
from tidings.model.inbox_reading import LogView, copy_position, first_copy_below, position_of
from tidings.model.notifications import Broadcast, Copy, late_key

DUE = 1_700_000_000_000
LATER = DUE + 5_000


def an_id(time: int, rest: int) -> str:
    return ulid(time, bytes([rest] * 10))


def a_copy(notification_id: str) -> Copy:
    return Copy(
        notification_id=notification_id, category=None, received_at=LATER, expires_at=LATER * 2
    )


def test_a_copy_between_the_time_of_the_id_and_the_delivery_is_on_the_next_page() -> None:
    name = an_id(DUE, 3)
    sent = Broadcast(
        tenant="acme",
        inbox="news",
        sequence=7,
        kind="broadcast",
        posted_at=LATER,
        mark="m",
        expires_at=LATER * 2,
        key=late_key(name),
    )
    position = position_of(LogView(head=7, broadcasts=(sent,)), name)
    assert position == (LATER, name)
    below = first_copy_below((LATER, name))
    times = (DUE - 1, DUE, DUE + 1, LATER - 1, LATER, LATER + 1)
    for copy in (an_id(time, rest) for time in times for rest in (1, 5)):
        is_below = copy_position(a_copy(copy)) < (LATER, name)
        assert (copy < below) == is_below, copy


def test_an_id_that_the_view_lacks_is_that_of_a_copy() -> None:
    name = an_id(DUE, 3)
    assert position_of(LogView(), name) == (DUE, name)
    assert position_of(LogView(), "b7") is None
