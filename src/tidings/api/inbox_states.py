# SPDX-License-Identifier: Apache-2.0
"""Operations on single notifications of a user: change their states, and choose an action."""

from typing import Final

from msgspec import UNSET, UnsetType

from tidings.actions.verbs import InboxVerbs
from tidings.api import fields
from tidings.api.fields import ReadIds, Time
from tidings.api.inboxes import TAG, listed_cost
from tidings.api.operations import operation
from tidings.api.requests import Body
from tidings.model.ids import UserKey, rfc3339
from tidings.model.notification_states import StateChange
from tidings.model.outgoing_refusals import ActionNotFound
from tidings.model.refusals import InboxNotFound, Invalid, LimitReached, NotificationNotFound
from tidings.wire.inbox_records import ActedRecord, StateCountRecord


class InboxStateChange(Body, frozen=True, kw_only=True):
    """New states of the notifications with these ids, or of all received up to a time.

    States that are absent stay as they are. With `before`, states can only be set, and nothing can
    be snoozed. If `snooze_until` is null, the snooze ends.
    """

    ids: ReadIds | None = None
    before: Time | None = None
    seen: bool | None = None
    read: bool | None = None
    archived: bool | None = None
    snooze_until: Time | UnsetType | None = UNSET


def change_cost(change: InboxStateChange) -> int:
    """Return the cost of changing states of notifications."""
    return listed_cost(change.ids)


@operation(
    "PUT",
    "/v1/inboxes/{inbox}/state",
    tag=TAG,
    summary="Change the states of notifications",
    refusals=(InboxNotFound, LimitReached),
    body_cost=change_cost,
)
async def change_notification_states(
    user: UserKey, inbox: str, data: InboxStateChange, inbox_verbs: InboxVerbs
) -> StateCountRecord:
    """Mark notifications as seen, read or archived, or snooze them, and return the counts that
    remain. `false` takes a state away again, from listed notifications only. Ids of notifications
    that the user does not have are ignored. The user's other devices get a frame `marked`."""
    if (data.ids is None) == (data.before is None):
        raise Invalid("either ids or before must be given", "")
    until = data.snooze_until
    change = StateChange(
        seen=data.seen,
        read=data.read,
        archived=data.archived,
        snoozed_until=fields.time(until, "snooze_until") if isinstance(until, str) else until,
    )
    if data.ids is not None:
        left = await inbox_verbs.states.some(user, inbox, data.ids, change)
    else:
        assert data.before is not None
        time = fields.time(data.before, "before")
        left = await inbox_verbs.states.before(user, inbox, time, change)
    return StateCountRecord(left.unseen, left.total, left.categories)


@operation(
    "POST",
    "/v1/inboxes/{inbox}/notifications/{notification_id}/actions/{action}",
    tag=TAG,
    summary="Choose an action of a notification",
    refusals=(InboxNotFound, NotificationNotFound, ActionNotFound, LimitReached),
)
async def act_on_notification(
    user: UserKey, inbox: str, notification_id: str, action: str, inbox_verbs: InboxVerbs
) -> ActedRecord:
    """Choose an action of a notification, on all devices of the user at once; this also marks it as
    read. Only the first choice is stored: every later request, also with another action, returns
    the first."""
    acted = await inbox_verbs.act(user, inbox, notification_id, action)
    return ActedRecord(notification_id, acted.action, rfc3339(acted.at))


OPERATIONS: Final = (change_notification_states, act_on_notification)
