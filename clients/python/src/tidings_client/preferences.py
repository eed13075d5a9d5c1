# SPDX-License-Identifier: Apache-2.0
"""What users choose in an inbox: categories by channel, and quiet hours."""

import msgspec


class CategoryPreference(msgspec.Struct, frozen=True, kw_only=True):
    """By which channels notifications of a category reach the user; None for the default."""

    in_app: bool | None = None
    push: bool | None = None
    email: bool | None = None
    required: bool | None = None
    """Whether the tenant forbids to switch the category off; ignored in a request."""


class QuietHours(msgspec.Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """Hours without push and e-mail, such as "22:00" to "07:00" in "Europe/Berlin"."""

    start: str
    end: str
    timezone: str


class Uncategorized(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants of notifications without a category."""

    email: bool


class InboxPreferences(msgspec.Struct, frozen=True, kw_only=True):
    """The user's preferences in an inbox."""

    categories: dict[str, CategoryPreference] = {}
    quiet_hours: QuietHours | None = None
    uncategorized: Uncategorized | None = None
    """Notifications without a category. It is here if the user has unsubscribed from e-mails about
    them; None in a request leaves it as it is."""
    chosen: dict[str, CategoryPreference] = {}
    """Only what the user has chosen, without defaults; ignored in a request. To change one choice,
    send it back as `categories`, with the change."""
