# SPDX-License-Identifier: Apache-2.0
"""Times: what is written is read back to the millisecond, and nothing else is taken for a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import next_year
from tidings.model.ids import TIME_MS_MAX, from_rfc3339, rfc3339
from tidings.model.scheduled import schedule_end


@given(st.integers(0, TIME_MS_MAX))
def test_a_time_is_read_back_as_it_was_written(time_ms: int) -> None:
    assert from_rfc3339(rfc3339(time_ms)) == time_ms


def test_an_offset_is_taken_into_account() -> None:
    assert from_rfc3339("1970-01-01T01:00:00.250+01:00") == 250


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2030-01-31",
        "2030-01-31T12:00:00",
        "2030-W05-4T12:00:00Z",
        "2030-13-01T12:00:00Z",
        "2030-01-31T12:00:60Z",
        "1969-12-31T23:59:59.999Z",
        "9999-12-31T23:59:59.999-10:00",
        "２030-01-31T12:00:00Z",
    ],
)
def test_anything_else_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|month|second"):
        from_rfc3339(text)


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-06-15T12:30:00.250Z", "2027-06-15T12:30:00.250Z"),
        ("2027-02-28T23:59:59.999Z", "2028-02-28T23:59:59.999Z"),
        ("2027-03-01T00:00:00.000Z", "2028-03-01T00:00:00.000Z"),
        ("2027-12-31T00:00:00.000Z", "2028-12-31T00:00:00.000Z"),
        ("2028-01-01T00:00:00.000Z", "2029-01-01T00:00:00.000Z"),
        ("2028-02-29T23:59:59.999Z", "2029-03-01T23:59:59.999Z"),
        ("2028-03-01T00:00:00.000Z", "2029-03-01T00:00:00.000Z"),
        ("2099-03-01T00:00:00.000Z", "2100-03-01T00:00:00.000Z"),
    ],
)
def test_what_is_scheduled_is_at_most_a_calendar_year_ahead(now: str, end: str) -> None:
    assert rfc3339(schedule_end(from_rfc3339(now))) == end


@given(st.integers(0, from_rfc3339("9998-12-31T23:59:59Z")))
def test_a_year_later_is_the_same_date(now: int) -> None:
    if rfc3339(now)[5:10] != "02-29":
        assert schedule_end(now) == next_year(now)
