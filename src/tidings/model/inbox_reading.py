# SPDX-License-Identifier: Apache-2.0
"""Computes a user's view of an inbox: broadcasts and copies in one list, and the unread count."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tidings.model import limits
from tidings.model.ids import ulid, ulid_time
from tidings.model.notifications import Broadcast, Copy, ReadState, broadcast_sequence

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
    broadcast: Broadcast | None = None
    """The broadcast; None if the notification is a copy."""

    @property
    def notification_id(self) -> str:
        """Public id of the notification."""
        return self.position[1]


class UnreadCount(msgspec.Struct, frozen=True):
    """A user's number of unread notifications, in total and by category."""

    total: int
    categories: dict[str, int]


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


def copy_read_at(copy: Copy, state: ReadState) -> int | None:
    """Return when the copy was marked as read, alone or with all earlier copies; None if unread."""
    if copy.read_at is not None:
        return copy.read_at
    return state.before if copy.received_at <= state.before else None


def broadcast_read_at(broadcast: Broadcast, state: ReadState) -> int | None:
    """Return when the broadcast was marked as read, alone or with earlier ones; None if unread."""
    marked = state.singly.get(broadcast.sequence)
    if marked is not None:
        return marked
    return state.before if broadcast.sequence <= state.announced else None


def merged(
    copies: Iterable[Copy], broadcasts: Iterable[Broadcast], state: ReadState
) -> list[InboxItem]:
    """Return copies and broadcasts as one list, newest first."""
    items = [_from_copy(copy, state) for copy in copies]
    items += [_from_broadcast(broadcast, state) for broadcast in broadcasts]
    return sorted(items, key=lambda item: item.position, reverse=True)


def first_copy_below(position: NotificationPosition) -> str:
    """Return an upper bound for ids: a copy comes after this position in the list if its id is
    lower than the bound."""
    time, notification_id = position
    if broadcast_sequence(notification_id) is None:
        return notification_id
    # A copy of the same time sorts below the broadcast: its id begins with a digit.
    return ulid(time + 1, _LEAST_ENTROPY)


def count_unread(
    view: LogView,
    copies: Iterable[Copy],
    broadcasts: Iterable[Broadcast],
    state: ReadState,
    now: int,
) -> UnreadCount:
    """Count the unread notifications. The count is not stored, so it cannot become wrong."""
    unread: list[Copy | Broadcast] = [
        *(copy for copy in copies if copy_read_at(copy, state) is None),
        *(sent for sent in broadcasts if broadcast_read_at(sent, state) is None),
    ]
    total, categories = 0, dict[str, int]()
    for item in unread:
        if not view.hides(item.notification_id, item.expires_at, now):
            total += 1
            if item.category is not None:
                categories[item.category] = categories.get(item.category, 0) + 1
    return UnreadCount(total, categories)


def copy_position(copy: Copy) -> NotificationPosition:
    """Return the position of a copy in the list, which depends on the time of the post."""
    return ulid_time(copy.notification_id), copy.notification_id


def position_of(view: LogView, notification_id: str) -> NotificationPosition | None:
    """Return the position of a notification; None if it is a broadcast that the view lacks."""
    sequence = broadcast_sequence(notification_id)
    if sequence is None:
        return ulid_time(notification_id), notification_id
    times = (sent.posted_at for sent in view.broadcasts if sent.sequence == sequence)
    time = next(times, None)
    return None if time is None else (time, notification_id)


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


def _from_copy(copy: Copy, state: ReadState) -> InboxItem:
    return InboxItem(
        position=copy_position(copy),
        category=copy.category,
        received_at=copy.received_at,
        read_at=copy_read_at(copy, state),
        expires_at=copy.expires_at,
    )


def _from_broadcast(broadcast: Broadcast, state: ReadState) -> InboxItem:
    return InboxItem(
        position=(broadcast.posted_at, broadcast.notification_id),
        category=broadcast.category,
        received_at=broadcast.posted_at,
        read_at=broadcast_read_at(broadcast, state),
        expires_at=broadcast.expires_at,
        broadcast=broadcast,
    )


def _emptied_if_in(retracted: Mapping[str, int], broadcast: Broadcast) -> Broadcast:
    if broadcast.box is None or broadcast.notification_id not in retracted:
        return broadcast
    return msgspec.structs.replace(broadcast, box=None)
