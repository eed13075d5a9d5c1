# SPDX-License-Identifier: Apache-2.0
"""Preferences of a user in an inbox: which categories reach the user, by which channel, and when.

A tenant sets the defaults of each category, and may declare categories as required. What a user
has chosen wins over the default, but a required category cannot be switched off.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from datetime import time as time_of_day
from typing import Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from tidings.model.limits import SECOND_MS
from tidings.model.refusals import Conflict, Invalid

Channel = Literal["in_app", "push", "email"]
CHANNELS: Final[tuple[Channel, ...]] = ("in_app", "push", "email")
ZONE_CHARS_MAX: Final = 64
TIME_PATTERN: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")


class PreferencesRequired(Conflict):
    """The user tried to switch off a category that the tenant has declared as required."""

    code, title = "preferences.required", "This category cannot be switched off"


class CategoryRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant sets for a category: the default of each channel, and whether it is
    required."""

    required: bool = False
    in_app: bool = True
    push: bool = True
    email: bool = True


class CategoryChoice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a user has chosen for a category; None for a channel means the default."""

    in_app: bool | None = None
    push: bool | None = None
    email: bool | None = None


class QuietHours(msgspec.Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """The hours of each day in which a user gets neither push nor e-mail.

    They are times of a wall clock in the user's time zone, as in "22:00", and may cross midnight.
    """

    start: str
    end: str
    timezone: str


class Preferences(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a user has chosen in an inbox."""

    categories: dict[str, CategoryChoice] = {}
    quiet_hours: QuietHours | None = None
    uncategorized_email: bool = True
    """Whether the user gets e-mails about notifications without a category."""


Rules = Mapping[str, CategoryRule]
_NO_RULE: Final = CategoryRule()
_NO_CHOICE: Final = CategoryChoice()


def is_on(
    channel: Channel, category: str | None, rules: Rules | None, chosen: Preferences | None
) -> bool:
    """Return True if notifications of a category reach a user by this channel.

    Notifications without a category always do, except by e-mail, from which users unsubscribe.
    """
    if category is None:
        return channel != "email" or chosen is None or chosen.uncategorized_email
    rule = (rules or {}).get(category, _NO_RULE)
    default: bool = getattr(rule, channel)
    choice = chosen.categories.get(category, _NO_CHOICE) if chosen is not None else _NO_CHOICE
    own: bool | None = getattr(choice, channel)
    if own is None:
        return default
    return own or (rule.required and default)


def quiet_until(quiet: QuietHours | None, now: int) -> int | None:
    """Return when the quiet hours end, if a user has them now; otherwise None.

    The time may be inside of an hour that the clocks repeat. Quiet hours may then begin again, so
    the caller asks again at that time.
    """
    if quiet is None:
        return None
    zone = _zone(quiet.timezone)
    if zone is None:
        return None  # the time zone was removed from the database of time zones
    local = datetime.fromtimestamp(now / SECOND_MS, zone)
    start, end = time_of_day.fromisoformat(quiet.start), time_of_day.fromisoformat(quiet.end)
    clock = local.time().replace(fold=0)
    is_quiet = start <= clock < end if start < end else clock >= start or clock < end
    if not is_quiet:
        return None
    day = local.date() + timedelta(days=1 if clock >= end else 0)
    ends_at = int(datetime.combine(day, end, zone).timestamp() * SECOND_MS)
    if ends_at <= now:
        # The clocks repeat this hour, and now is the second time.
        ends_at = int(datetime.combine(day, end.replace(fold=1), zone).timestamp() * SECOND_MS)
    return max(ends_at, now + 1)


def check_quiet_hours(quiet: QuietHours) -> None:
    """Refuse quiet hours of an unknown time zone, and those without a beginning and an end."""
    for field, text in (("from", quiet.start), ("to", quiet.end)):
        if re.fullmatch(TIME_PATTERN, text) is None:
            raise Invalid(f"{field}: must be a time such as 22:00", f"/quiet_hours/{field}")
    if quiet.start == quiet.end:
        raise Invalid("to: must differ from `from`", "/quiet_hours/to")
    if len(quiet.timezone) > ZONE_CHARS_MAX or _zone(quiet.timezone) is None:
        pointer = "/quiet_hours/timezone"
        raise Invalid("timezone: must be a name such as Europe/Berlin", pointer)


def _zone(name: str) -> ZoneInfo | None:
    # The pattern comes first, because a name is also the path of a file.
    if _ZONE.fullmatch(name) is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
