# SPDX-License-Identifier: Apache-2.0
"""Offsets: what is committed never runs ahead of what is finished."""

from tidings.buses.kafka_offsets import Offsets


def test_a_partition_stands_before_the_first_unfinished_event() -> None:
    offsets = Offsets()
    for offset in (7, 8, 9):
        offsets.taken(0, offset)
    offsets.finished(0, 8)
    offsets.finished(0, 9)
    assert offsets.news() == {}
    offsets.finished(0, 7)
    assert offsets.news() == {0: 10}


def test_what_was_told_is_no_news() -> None:
    offsets = Offsets()
    offsets.taken(0, 1)
    offsets.taken(1, 5)
    offsets.finished(0, 1)
    offsets.committed({0: 2})
    assert offsets.news() == {}
    offsets.finished(1, 5)
    assert offsets.news() == {1: 6}


def test_holes_in_a_partition_are_no_hindrance() -> None:
    offsets = Offsets()
    offsets.taken(0, 3)
    offsets.taken(0, 6)  # Kafka leaves offsets out
    offsets.finished(0, 3)
    offsets.finished(0, 6)
    assert offsets.news() == {0: 7}


def test_a_partition_given_away_is_forgotten() -> None:
    offsets = Offsets()
    offsets.taken(0, 3)
    offsets.taken(0, 4)
    offsets.finished(0, 3)
    offsets.give_away(0)
    offsets.finished(0, 4)
    assert offsets.news() == {}
    offsets.taken(0, 4)
    offsets.finished(0, 4)
    assert offsets.news() == {0: 5}
