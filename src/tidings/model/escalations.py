# SPDX-License-Identifier: Apache-2.0
"""Escalation: what is to be sent by e-mail to users who have not read a notification in time."""

from typing import Final

import msgspec

from tidings.model.ids import UserKey, user_key
from tidings.model.limits import SECOND_MS
from tidings.model.notifications import Copy, ReadState
from tidings.model.state_times import copy_archived_at, copy_read_at

MINUTE_MS: Final = 60 * SECOND_MS


class Escalation(msgspec.Struct, frozen=True, kw_only=True):
    """A portion of the users of a notification, who get an e-mail if it is still unread then."""

    tenant: str
    inbox: str
    notification_id: str
    number: int
    """Number of the delivery job with the same users."""
    users: tuple[str, ...]
    """At most 100 user ids of the tenant, for whom it is not decided yet."""
    category: str | None
    at: int
    """When the portion is due: at first at the time of the post, later after quiet hours, or when
    the mail server is tried again."""
    expires_at: int
    attempt: int = 0
    """How often the mail server could not be reached, or asked to be tried again."""

    @property
    def keys(self) -> list[UserKey]:
        """The keys of the users."""
        return [user_key(self.tenant, user) for user in self.users]


def escalation_time(delivered_at: int, minutes: int) -> int:
    """Return when a notification is escalated, from the time of its delivery."""
    return delivered_at + minutes * MINUTE_MS


def is_open(copy: Copy, state: ReadState, now: int) -> bool:
    """Return True if a user has neither read, archived nor snoozed the copy."""
    if copy_read_at(copy, state) is not None or copy_archived_at(copy, state) is not None:
        return False
    return copy.snoozed_until is None or copy.snoozed_until <= now
