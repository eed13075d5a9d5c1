# SPDX-License-Identifier: Apache-2.0
"""Preferences: which channel is on, and when quiet hours end, also when clocks change."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tidings.model.preferences import (
    CategoryChoice,
    CategoryRule,
    Channel,
    Preferences,
    QuietHours,
    check_quiet_hours,
    is_on,
    quiet_until,
)
from tidings.model.refusals import Invalid

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = BERLIN, fold: int = 0) -> int:
    """A local time, in milliseconds."""
    local = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return int(local.timestamp() * 1_000)


def night(start: str = "22:00", end: str = "07:00", zone: str = BERLIN) -> QuietHours:
    return QuietHours(start=start, end=end, timezone=zone)


@pytest.mark.parametrize(
    ("rule", "own", "is_expected"),
    [
        (None, None, True),
        (None, False, False),
        (CategoryRule(in_app=False), None, False),
        (CategoryRule(in_app=False), True, True),
        (CategoryRule(required=True), False, True),
        (CategoryRule(required=True, in_app=False), None, False),
        (CategoryRule(required=True, in_app=False), False, False),
    ],
)
def test_a_choice_wins_over_the_default_unless_it_is_required(
    rule: CategoryRule | None, own: bool | None, is_expected: bool
) -> None:
    chosen = Preferences(categories={"a": CategoryChoice(in_app=own)})
    rules = None if rule is None else {"a": rule}
    assert is_on("in_app", "a", rules, chosen) is is_expected
    assert is_on("in_app", None, rules, chosen)
    assert is_on("in_app", "b", rules, chosen)


@pytest.mark.parametrize("channel", ["in_app", "push", "email"])
def test_each_channel_is_chosen_on_its_own(channel: Channel) -> None:
    chosen = Preferences(categories={"a": CategoryChoice(**{channel: False})})
    found = [is_on(each, "a", None, chosen) for each in ("in_app", "push", "email")]
    assert found == [each != channel for each in ("in_app", "push", "email")]
    assert is_on(channel, "a", None, None)


@pytest.mark.parametrize(
    ("quiet", "now", "end"),
    [
        (None, "2026-03-01T23:00", None),
        (night(), "2026-03-01T21:59:59", None),
        (night(), "2026-03-01T22:00", "2026-03-02T07:00"),
        (night(), "2026-03-02T00:00", "2026-03-02T07:00"),
        (night(), "2026-03-02T06:59:59", "2026-03-02T07:00"),
        (night(), "2026-03-02T07:00", None),
        (night("12:00", "14:00"), "2026-03-02T13:00", "2026-03-02T14:00"),
        (night("12:00", "14:00"), "2026-03-02T14:00", None),
        # The night in which an hour is missing, and the one in which an hour comes twice.
        (night(), "2026-03-28T23:00", "2026-03-29T07:00"),
        (night(), "2026-10-24T23:00", "2026-10-25T07:00"),
    ],
)
def test_quiet_hours_end_at_the_wall_clock(
    quiet: QuietHours | None, now: str, end: str | None
) -> None:
    assert quiet_until(quiet, at(now)) == (None if end is None else at(end))


def test_the_zone_of_the_user_decides() -> None:
    now = at("2026-03-01T23:00")
    assert quiet_until(night(zone="America/New_York"), now) is None
    assert quiet_until(night(zone="Asia/Kolkata"), now) == at("2026-03-02T07:00", "Asia/Kolkata")


def test_an_end_that_the_clocks_skip_comes_after_the_gap() -> None:
    """Clocks go from 02:00 to 03:00."""
    now = at("2026-03-29T01:30")
    end = quiet_until(night("22:00", "02:30"), now)
    assert end == at("2026-03-29T03:30")
    assert quiet_until(night("22:00", "02:30"), end) is None


def test_an_hour_that_comes_twice_is_quiet_twice() -> None:
    """Clocks go from 03:00 back to 02:00, so 02:10 comes twice."""
    quiet = night("02:00", "02:30")
    first, second = at("2026-10-25T02:10"), at("2026-10-25T02:10", fold=1)
    assert second - first == 3_600_000
    assert quiet_until(quiet, first) == at("2026-10-25T02:30")
    assert quiet_until(quiet, second) == at("2026-10-25T02:30", fold=1)


def test_quiet_hours_that_are_stored_with_an_unknown_zone_do_not_apply() -> None:
    assert quiet_until(night(zone="Mars/Base"), at("2026-03-01T23:00")) is None


@pytest.mark.parametrize(
    ("quiet", "pointer"),
    [
        (night("7:00"), "/quiet_hours/from"),
        (night("24:00"), "/quiet_hours/from"),
        (night(end="07:60"), "/quiet_hours/to"),
        (night("07:00", "07:00"), "/quiet_hours/to"),
        (night(zone="Mars/Base"), "/quiet_hours/timezone"),
        (night(zone="../../etc/passwd"), "/quiet_hours/timezone"),
        (night(zone="/etc/localtime"), "/quiet_hours/timezone"),
        (night(zone="Europe"), "/quiet_hours/timezone"),
        (night(zone=""), "/quiet_hours/timezone"),
    ],
)
def test_malformed_quiet_hours_are_refused(quiet: QuietHours, pointer: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_quiet_hours(quiet)
    assert refused.value.pointer == pointer


def test_ordinary_quiet_hours_are_taken() -> None:
    check_quiet_hours(night())
    check_quiet_hours(night(zone="UTC"))
    check_quiet_hours(night(zone="America/Argentina/Buenos_Aires"))
