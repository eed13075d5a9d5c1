# SPDX-License-Identifier: Apache-2.0
"""What a user sees of an inbox: the log as a reader knows it, its merge with copies, the count."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tidings.model import limits
from tidings.model.ids import ulid, ulid_time
from tidings.model.notifications import Broadcast, Copy, ReadState, broadcast_sequence

Place = tuple[int, str]
"""Where something stands in a user's list: its time, and by its id among those of one time."""

_LEAST_ENTROPY: Final = bytes(10)


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """An inbox's log up to its head: what everyone was told, and what was taken back."""

    head: int = 0
    head_at: int = 0
    """When the last entry was posted."""
    broadcasts: tuple[Broadcast, ...] = ()
    """The newest, oldest first; those that were taken back are there, without content."""
    retracted: Mapping[str, int] = {}
    """The ids of what was taken back, each with when it would have expired."""

    def is_retracted(self, notification_id: str) -> bool:
        """Whether it was taken back."""
        return notification_id in self.retracted

    def hides(self, notification_id: str, expires_at: int, now: int) -> bool:
        """Whether nobody gets to see it any more."""
        return expires_at <= now or notification_id in self.retracted

    def last_broadcast_until(self, time: int) -> int:
        """The sequence of the last thing everyone was told up to a time; 0 if there is none."""
        return max((one.sequence for one in self.broadcasts if one.posted_at <= time), default=0)


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a user's inbox, whichever way it came there."""

    place: Place
    category: str | None
    received_at: int
    read_at: int | None
    expires_at: int
    announcement: Broadcast | None = None
    """Of something for everyone."""

    @property
    def notification_id(self) -> str:
        """What users know it by."""
        return self.place[1]


class UnreadCount(msgspec.Struct, frozen=True):
    """How much of an inbox a user has not read, in all and by category."""

    total: int
    categories: dict[str, int]


def fold(view: LogView, entries: Sequence[Broadcast], now: int) -> LogView:
    """The view after the next entries of the log. What has expired, or is too old, is left out."""
    if not entries:
        return view
    retracted = {target: until for target, until in view.retracted.items() if until > now}
    for entry in entries:
        if entry.target is not None:
            retracted[entry.target] = entry.expires_at
    for target in list(retracted)[: -limits.INBOX_LOG_ENTRIES_MAX]:
        del retracted[target]
    told = (*view.broadcasts, *(entry for entry in entries if entry.kind == "broadcast"))
    kept = [entry for entry in told if entry.expires_at > now][-limits.INBOX_BROADCASTS_MAX :]
    return LogView(
        head=entries[-1].sequence,
        head_at=entries[-1].posted_at,
        broadcasts=tuple(_emptied_if_in(retracted, entry) for entry in kept),
        retracted=retracted,
    )


def is_for(announcement: Broadcast, joined_at: int) -> bool:
    """Whether a user who is there since then gets to see it."""
    return announcement.late_joiners or joined_at <= announcement.posted_at


def copy_read_at(copy: Copy, state: ReadState) -> int | None:
    """When the user read it: marked it, or all that had come up to some time."""
    if copy.read_at is not None:
        return copy.read_at
    return state.before if copy.received_at <= state.before else None


def broadcast_read_at(announcement: Broadcast, state: ReadState) -> int | None:
    """The same for what everyone was told."""
    marked = state.singly.get(announcement.sequence)
    if marked is not None:
        return marked
    return state.before if announcement.sequence <= state.announced else None


def merged(
    copies: Iterable[Copy], broadcasts: Iterable[Broadcast], state: ReadState
) -> list[InboxItem]:
    """All of them, newest first."""
    received = [_from_copy(copy, state) for copy in copies]
    received += [_from_broadcast(told, state) for told in broadcasts]
    return sorted(received, key=lambda one: one.place, reverse=True)


def first_copy_below(place: Place) -> str:
    """The id below which the copies are that stand below this place."""
    time, notification_id = place
    if broadcast_sequence(notification_id) is None:
        return notification_id
    # A copy of the same time stands below what everyone was told: its id begins with a digit.
    return ulid(time + 1, _LEAST_ENTROPY)


def count_unread(
    view: LogView,
    copies: Iterable[Copy],
    broadcasts: Iterable[Broadcast],
    state: ReadState,
    now: int,
) -> UnreadCount:
    """Counted from what there is, so that nothing can drift."""
    unread: list[Copy | Broadcast] = [
        *(one for one in copies if copy_read_at(one, state) is None),
        *(one for one in broadcasts if broadcast_read_at(one, state) is None),
    ]
    total, categories = 0, dict[str, int]()
    for one in unread:
        if not view.hides(one.notification_id, one.expires_at, now):
            total += 1
            if one.category is not None:
                categories[one.category] = categories.get(one.category, 0) + 1
    return UnreadCount(total, categories)


def _from_copy(copy: Copy, state: ReadState) -> InboxItem:
    return InboxItem(
        place=(ulid_time(copy.notification_id), copy.notification_id),
        category=copy.category,
        received_at=copy.received_at,
        read_at=copy_read_at(copy, state),
        expires_at=copy.expires_at,
    )


def _from_broadcast(told: Broadcast, state: ReadState) -> InboxItem:
    return InboxItem(
        place=(told.posted_at, told.notification_id),
        category=told.category,
        received_at=told.posted_at,
        read_at=broadcast_read_at(told, state),
        expires_at=told.expires_at,
        announcement=told,
    )


def _emptied_if_in(retracted: Mapping[str, int], told: Broadcast) -> Broadcast:
    if told.box is None or told.notification_id not in retracted:
        return told
    return msgspec.structs.replace(told, box=None)
