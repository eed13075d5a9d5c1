# SPDX-License-Identifier: Apache-2.0
"""Operations on a user's preferences in an inbox."""

from typing import Annotated, Final

import msgspec

from tidings.actions.inbox.preferences import EffectivePreferences
from tidings.actions.verbs import InboxVerbs
from tidings.api.fields import Category
from tidings.api.inboxes import TAG
from tidings.api.operations import operation
from tidings.api.requests import Body
from tidings.model.ids import UserKey
from tidings.model.preferences import (
    TIME_PATTERN,
    ZONE_CHARS_MAX,
    CategoryChoice,
    CategoryRule,
    Preferences,
    PreferencesRequired,
    QuietHours,
)
from tidings.model.refusals import InboxNotFound

ClockTime = Annotated[str, msgspec.Meta(pattern=TIME_PATTERN)]
TimeZone = Annotated[str, msgspec.Meta(max_length=ZONE_CHARS_MAX)]


class ChoiceBody(Body, frozen=True, kw_only=True):
    """What the user wants of a category; an absent or null channel has its default. `required` is
    ignored, so that what was read can be sent back."""

    in_app: bool | None = None
    push: bool | None = None
    email: bool | None = None
    required: bool | None = None


class QuietHoursBody(Body, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """Hours without push and e-mail, in a time zone such as `Europe/Berlin`; they may cross
    midnight."""

    start: ClockTime
    end: ClockTime
    timezone: TimeZone


class Uncategorized(Body, frozen=True, kw_only=True):
    """What the user wants of notifications without a category."""

    email: bool


class PreferencesChange(Body, frozen=True, kw_only=True):
    """All preferences of the user in this inbox. Categories that are absent have their defaults."""

    categories: dict[Category, ChoiceBody] = msgspec.field(default_factory=dict)
    quiet_hours: QuietHoursBody | None = None
    uncategorized: Uncategorized | None = None
    """Absent or null leaves it as it is."""
    chosen: dict[Category, ChoiceBody] | None = None
    """Ignored, so that what was read can be sent back."""


class PreferencesRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What applies to the user, by category. The user cannot switch off a category that is
    `required`. `chosen` has only what the user has chosen; everything else in `categories` is a
    default, which the tenant may change. `uncategorized` is there if the user has unsubscribed from
    e-mails about notifications without a category."""

    categories: dict[str, CategoryRule]
    chosen: dict[str, CategoryChoice]
    quiet_hours: QuietHours | None
    uncategorized: Uncategorized | None = None


@operation(
    "GET",
    "/v1/inboxes/{inbox}/preferences",
    tag=TAG,
    summary="Get my preferences in an inbox",
    refusals=(InboxNotFound,),
)
async def get_preferences(user: UserKey, inbox: str, inbox_verbs: InboxVerbs) -> PreferencesRecord:
    """Return what applies to the caller: the caller's choices, and the defaults of the tenant. To
    change one choice, send `chosen` back as `categories`, with the change."""
    return _record(await inbox_verbs.preferences.get(user, inbox))


@operation(
    "PUT",
    "/v1/inboxes/{inbox}/preferences",
    tag=TAG,
    summary="Replace my preferences in an inbox",
    refusals=(InboxNotFound, PreferencesRequired),
)
async def put_preferences(
    user: UserKey, inbox: str, data: PreferencesChange, inbox_verbs: InboxVerbs
) -> PreferencesRecord:
    """Replace the caller's preferences and return what applies now. With `in_app` false, new
    notifications of the category are neither listed nor counted nor sent to devices, and
    broadcasts are hidden. Quiet hours hold back push and e-mail only."""
    quiet = data.quiet_hours
    preferences = Preferences(
        categories={
            name: CategoryChoice(in_app=choice.in_app, push=choice.push, email=choice.email)
            for name, choice in data.categories.items()
        },
        quiet_hours=None
        if quiet is None
        else QuietHours(start=quiet.start, end=quiet.end, timezone=quiet.timezone),
    )
    email = None if data.uncategorized is None else data.uncategorized.email
    return _record(await inbox_verbs.preferences.put(user, inbox, preferences, email))


def _record(found: EffectivePreferences) -> PreferencesRecord:
    off = None if found.uncategorized_email else Uncategorized(email=False)
    return PreferencesRecord(
        categories=found.categories,
        chosen=found.chosen,
        quiet_hours=found.quiet_hours,
        uncategorized=off,
    )


OPERATIONS: Final = (get_preferences, put_preferences)
