# SPDX-License-Identifier: Apache-2.0
"""Computes a user's view of an inbox: broadcasts and copies in one list, and the unread count."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

import msgspec

from tidings.model import limits
from tidings.model.ids import ulid, ulid_time
from tidings.model.notification_states import NO_STATES
from tidings.model.notifications import Broadcast, Copy, ReadState, broadcast_sequence
from tidings.model.state_times import (
    broadcast_archived_at,
    broadcast_read_at,
    broadcast_seen_at,
    copy_archived_at,
    copy_read_at,
    copy_seen_at,
)

NotificationPosition = tuple[int, str]
"""Position in a user's list: ordered by time, then by notification id."""

_LEAST_ENTROPY: Final = bytes(10)


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of an inbox's log up to its head: the newest broadcasts, and all retractions."""

    head: int = 0
    head_at: int = 0
    """Time of the last entry."""
    broadcasts: tuple[Broadcast, ...] = ()
    """The newest broadcasts, oldest first; retracted broadcasts are included without content."""
    retracted: Mapping[str, int] = {}
    """Expiry of each retracted notification, by id."""

    def is_retracted(self, notification_id: str) -> bool:
        """Return True if the notification was retracted."""
        return notification_id in self.retracted

    def hides(self, notification_id: str, expires_at: int, now: int) -> bool:
        """Return True if the notification is invisible: expired or retracted."""
        return expires_at <= now or notification_id in self.retracted

    def broadcast(self, notification_id: str) -> Broadcast | None:
        """Return the broadcast with this id; None if the view has none."""
        found = (sent for sent in self.broadcasts if sent.notification_id == notification_id)
        return next(found, None)

    def last_broadcast_until(self, time: int) -> int:
        """Return the sequence of the last broadcast posted up to a time; 0 if there is none."""
        return max((sent.sequence for sent in self.broadcasts if sent.posted_at <= time), default=0)


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """A notification in a user's inbox, from a copy or from a broadcast."""

    position: NotificationPosition
    category: str | None
    received_at: int
    read_at: int | None
    expires_at: int
    seen_at: int | None = None
    archived_at: int | None = None
    snoozed_until: int | None = None
    acted: str | None = None
    """Id of the action that the user chose; None if the user chose none."""
    acted_at: int | None = None
    collapse: str | None = None
    collapsed: int = 0
    """Number of other unread notifications with the same collapse key, which are not listed."""
    broadcast: Broadcast | None = None
    """The broadcast; None if the notification is a copy."""

    @property
    def notification_id(self) -> str:
        """Public id of the notification."""
        return self.position[1]

    def is_snoozed(self, now: int) -> bool:
        """Return True if the user does not want to see the notification yet."""
        return self.snoozed_until is not None and self.snoozed_until > now


class UnreadCount(msgspec.Struct, frozen=True):
    """A user's number of unread notifications, in total and by category.

    Notifications that the user has archived or snoozed are not counted.
    """

    total: int
    categories: dict[str, int]
    unseen: int = 0
    """How many of them the user has not even seen."""


def fold(view: LogView, entries: Sequence[Broadcast], now: int) -> LogView:
    """Return the view with the next entries of the log added, and without entries that are expired
    or too old."""
    if not entries:
        return view
    retracted = {target: until for target, until in view.retracted.items() if until > now}
    for entry in entries:
        if entry.target is not None:
            retracted[entry.target] = entry.expires_at
    for target in list(retracted)[: -limits.INBOX_LOG_ENTRIES_MAX]:
        del retracted[target]
    sent = (*view.broadcasts, *(entry for entry in entries if entry.kind == "broadcast"))
    kept = [entry for entry in sent if entry.expires_at > now][-limits.INBOX_BROADCASTS_MAX :]
    return LogView(
        head=entries[-1].sequence,
        head_at=entries[-1].posted_at,
        broadcasts=tuple(_emptied_if_in(retracted, entry) for entry in kept),
        retracted=retracted,
    )


def is_for(broadcast: Broadcast, joined_at: int) -> bool:
    """Return True if a user who joined at this time sees the broadcast."""
    return broadcast.late_joiners or joined_at <= broadcast.posted_at


def merged(
    copies: Iterable[Copy], broadcasts: Iterable[InboxItem], state: ReadState
) -> list[InboxItem]:
    """Return copies and broadcasts as one list, newest first."""
    items = [*(from_copy(copy, state) for copy in copies), *broadcasts]
    return sorted(items, key=lambda item: item.position, reverse=True)


def first_copy_below(position: NotificationPosition) -> str:
    """Return an upper bound for ids: a copy comes after this position in the list if its id is
    lower than the bound."""
    time, notification_id = position
    if broadcast_sequence(notification_id) is None:
        # A scheduled broadcast may be later than its id, and then all copies of its time are above.
        is_late = ulid_time(notification_id) < time
        return ulid(time, _LEAST_ENTROPY) if is_late else notification_id
    # A copy of the same time sorts below the broadcast: its id begins with a digit.
    return ulid(time + 1, _LEAST_ENTROPY)


def count_unread(
    view: LogView,
    copies: Sequence[Copy],
    broadcasts: Sequence[Broadcast],
    state: ReadState,
    now: int,
) -> UnreadCount:
    """Count the unread notifications. The count is not stored, so it cannot become wrong."""
    newest = _newest_by_collapse(view, copies, broadcasts, now)
    total, unseen, categories = 0, 0, dict[str, int]()
    for item, is_seen in _unread(copies, broadcasts, state, now):
        if view.hides(item.notification_id, item.expires_at, now):
            continue
        if item.collapse is not None and newest[item.collapse] != _position(item):
            continue
        total += 1
        unseen += not is_seen
        if item.category is not None:
            categories[item.category] = categories.get(item.category, 0) + 1
    return UnreadCount(total, categories, unseen)


def _unread(
    copies: Iterable[Copy], broadcasts: Iterable[Broadcast], state: ReadState, now: int
) -> Iterator[tuple[Copy | Broadcast, bool]]:
    """Yield what is unread and neither archived nor snoozed, each with whether it is seen."""
    for copy in copies:
        if copy_read_at(copy, state) is not None or copy_archived_at(copy, state) is not None:
            continue
        if copy.snoozed_until is None or copy.snoozed_until <= now:
            yield copy, copy_seen_at(copy, state) is not None
    for sent in broadcasts:
        if broadcast_read_at(sent, state) is not None:
            continue
        if broadcast_archived_at(sent, state) is not None:
            continue
        until = state.broadcasts.get(sent.sequence, NO_STATES).snoozed_until
        if until is None or until <= now:
            yield sent, broadcast_seen_at(sent, state) is not None


def is_collapsed(
    item: InboxItem,
    view: LogView,
    copies: Iterable[Copy],
    broadcasts: Iterable[Broadcast],
    now: int,
) -> bool:
    """Return True if lists show a newer notification with the same collapse key instead."""
    newest = _newest_by_collapse(view, copies, broadcasts, now)
    return item.collapse is not None and newest.get(item.collapse, item.position) > item.position


def _newest_by_collapse(
    view: LogView, copies: Iterable[Copy], broadcasts: Iterable[Broadcast], now: int
) -> dict[str, NotificationPosition]:
    """Return the position of the newest visible notification of each collapse key."""
    found: dict[str, NotificationPosition] = {}
    all_: list[Copy | Broadcast] = [*copies, *broadcasts]
    for item in all_:
        if item.collapse is not None and not view.hides(item.notification_id, item.expires_at, now):
            position = _position(item)
            found[item.collapse] = max(position, found.get(item.collapse, position))
    return found


def _position(item: Copy | Broadcast) -> NotificationPosition:
    if isinstance(item, Copy):
        return copy_position(item)
    return item.posted_at, item.notification_id


def collapsed(items: Sequence[InboxItem]) -> list[InboxItem]:
    """Return a list without the notifications that a newer one with the same collapse key hides.

    The items must be visible, and sorted with the newest first. A notification with a collapse key
    is read as soon as a newer one with this key is read.
    """
    groups: dict[str, list[InboxItem]] = {}
    for item in items:
        if item.collapse is not None:
            groups.setdefault(item.collapse, []).append(item)
    others = {key: _unread_in_a_row(group) - 1 for key, group in groups.items()}
    return [
        item
        if item.collapse is None
        else msgspec.structs.replace(item, collapsed=max(0, others[item.collapse]))
        for item in items
        if item.collapse is None or groups[item.collapse][0] is item
    ]


def _unread_in_a_row(items: Sequence[InboxItem]) -> int:
    return sum(1 for _ in takewhile(lambda item: item.read_at is None, items))


def copy_position(copy: Copy) -> NotificationPosition:
    """Return the position of a copy in the list, which depends on the time of the post."""
    return ulid_time(copy.notification_id), copy.notification_id


def position_of(view: LogView, notification_id: str) -> NotificationPosition | None:
    """Return the position of a notification; None if it is a broadcast that the view lacks."""
    sent = view.broadcast(notification_id)
    if sent is not None:
        return sent.posted_at, notification_id
    if broadcast_sequence(notification_id) is None:
        return ulid_time(notification_id), notification_id
    return None


def count_above(
    position: NotificationPosition,
    view: LogView,
    copies: Iterable[Copy],
    broadcasts: Iterable[Broadcast],
    now: int,
) -> int:
    """Count the visible notifications that are newer than a position in the list."""
    above: list[Copy | Broadcast] = [
        *(copy for copy in copies if copy_position(copy) > position),
        *(sent for sent in broadcasts if (sent.posted_at, sent.notification_id) > position),
    ]
    return sum(not view.hides(item.notification_id, item.expires_at, now) for item in above)


def from_copy(copy: Copy, state: ReadState) -> InboxItem:
    """Return a copy as a notification in the inbox of the user whose marks are given."""
    return InboxItem(
        position=copy_position(copy),
        category=copy.category,
        received_at=copy.received_at,
        read_at=copy_read_at(copy, state),
        expires_at=copy.expires_at,
        seen_at=copy_seen_at(copy, state),
        archived_at=copy_archived_at(copy, state),
        snoozed_until=copy.snoozed_until,
        acted=copy.acted,
        acted_at=copy.acted_at,
        collapse=copy.collapse,
    )


def from_broadcast(broadcast: Broadcast, state: ReadState) -> InboxItem:
    """Return a broadcast as a notification in the inbox of the user whose marks are given."""
    own = state.broadcasts.get(broadcast.sequence, NO_STATES)
    return InboxItem(
        position=(broadcast.posted_at, broadcast.notification_id),
        category=broadcast.category,
        received_at=broadcast.posted_at,
        read_at=broadcast_read_at(broadcast, state),
        expires_at=broadcast.expires_at,
        seen_at=broadcast_seen_at(broadcast, state),
        archived_at=broadcast_archived_at(broadcast, state),
        snoozed_until=own.snoozed_until,
        acted=own.acted,
        acted_at=own.acted_at,
        collapse=broadcast.collapse,
        broadcast=broadcast,
    )


def _emptied_if_in(retracted: Mapping[str, int], broadcast: Broadcast) -> Broadcast:
    if broadcast.box is None or broadcast.notification_id not in retracted:
        return broadcast
    return msgspec.structs.replace(broadcast, box=None)
