# SPDX-License-Identifier: Apache-2.0
"""The frame that tells a user's devices what the user did with notifications on one of them."""

from collections.abc import Sequence

import msgspec

from tidings.model.ids import rfc3339
from tidings.model.notification_states import Acted, StateChange


class MarkedFrame(msgspec.Struct, tag_field="op", tag="marked", kw_only=True, omit_defaults=True):
    """The user changed states of notifications, or chose an action.

    States that did not change are left out.
    """

    inbox: str
    ids: list[str] = []
    """The notifications; absent if `before` is given."""
    before: str | None = None
    """All notifications that were received up to this time."""
    seen: bool | None = None
    read: bool | None = None
    archived: bool | None = None
    snooze_until: str | msgspec.UnsetType | None = msgspec.UNSET
    """End of the snooze; null if the user ended it."""
    action: str | None = None
    """The action that the user chose."""
    acted_at: str | None = None


def marked_frame(
    inbox: str, change: StateChange, ids: Sequence[str], before: int | None, acted: Acted | None
) -> MarkedFrame:
    """Return the frame for a change of these notifications, or of all received up to a time."""
    until = change.snoozed_until
    return MarkedFrame(
        inbox=inbox,
        ids=list(ids),
        before=None if before is None else rfc3339(before),
        seen=change.seen,
        read=change.read,
        archived=change.archived,
        snooze_until=rfc3339(until) if isinstance(until, int) else until,
        action=acted.action if acted else None,
        acted_at=rfc3339(acted.at) if acted else None,
    )
