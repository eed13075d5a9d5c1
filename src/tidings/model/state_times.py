# SPDX-License-Identifier: Apache-2.0
"""Computes when a user saw, read or archived a notification, from its own states and the marks."""

from collections.abc import Callable, Mapping
from typing import Final

from tidings.model.notification_states import (
    NO_STATES,
    BroadcastStates,
    StateKind,
    set_by_mark,
)
from tidings.model.notifications import Broadcast, Copy, ReadState


def copy_read_at(copy: Copy, state: ReadState) -> int | None:
    """Return when the copy was marked as read, alone or with all earlier copies; None if unread."""
    if copy.read_at is not None:
        return copy.read_at
    is_marked = set_by_mark(state.before, copy.unread_since, copy.received_at)
    return state.before if is_marked else None


def broadcast_read_at(broadcast: Broadcast, state: ReadState) -> int | None:
    """Return when the broadcast was marked as read, alone or with earlier ones; None if unread."""
    own = state.broadcasts.get(broadcast.sequence, NO_STATES)
    if own.read_at is not None:
        return own.read_at
    if own.unread_since is None and broadcast.sequence in state.singly:
        return state.singly[broadcast.sequence]
    is_marked = set_by_mark(state.announced, own.unread_since, broadcast.sequence)
    return state.before if is_marked else None


def copy_seen_at(copy: Copy, state: ReadState) -> int | None:
    """Return when the user saw the copy; None if never. A copy that is read is also seen."""
    if copy.seen_at is not None:
        return copy.seen_at
    if set_by_mark(state.seen_before, copy.unseen_since, copy.received_at):
        return state.seen_before
    return copy_read_at(copy, state)


def broadcast_seen_at(broadcast: Broadcast, state: ReadState) -> int | None:
    """Return when the user saw the broadcast; None if never. A broadcast that is read is also
    seen."""
    own = state.broadcasts.get(broadcast.sequence, NO_STATES)
    if own.seen_at is not None:
        return own.seen_at
    if set_by_mark(state.seen_announced, own.unseen_since, broadcast.sequence):
        return state.seen_before
    return broadcast_read_at(broadcast, state)


def copy_archived_at(copy: Copy, state: ReadState) -> int | None:
    """Return when the user archived the copy; None if it is not archived."""
    if copy.archived_at is not None:
        return copy.archived_at
    is_marked = set_by_mark(state.archived_before, copy.unarchived_since, copy.received_at)
    return state.archived_before if is_marked else None


def broadcast_archived_at(broadcast: Broadcast, state: ReadState) -> int | None:
    """Return when the user archived the broadcast; None if it is not archived."""
    own = state.broadcasts.get(broadcast.sequence, NO_STATES)
    if own.archived_at is not None:
        return own.archived_at
    sequence = broadcast.sequence
    is_marked = set_by_mark(state.archived_announced, own.unarchived_since, sequence)
    return state.archived_before if is_marked else None


COPY_TIMES: Final[Mapping[StateKind, Callable[[Copy, ReadState], int | None]]] = {
    "seen": copy_seen_at,
    "read": copy_read_at,
    "archived": copy_archived_at,
}
BROADCAST_TIMES: Final[Mapping[StateKind, Callable[[Broadcast, ReadState], int | None]]] = {
    "seen": broadcast_seen_at,
    "read": broadcast_read_at,
    "archived": broadcast_archived_at,
}


def is_implied(own: BroadcastStates, state: ReadState, now: int) -> bool:
    """Return True if the marks alone say the same as the states of a broadcast."""
    if own.acted is not None or (own.snoozed_until is not None and own.snoozed_until > now):
        return False
    number = own.sequence
    is_read = own.read_at is not None or set_by_mark(state.announced, own.unread_since, number)
    is_seen = own.seen_at is not None or set_by_mark(state.seen_announced, own.unseen_since, number)
    is_archived = own.archived_at is not None or set_by_mark(
        state.archived_announced, own.unarchived_since, number
    )
    is_read_by_mark = number <= state.announced or number in state.singly
    is_seen_by_mark = number <= state.seen_announced
    return (is_read, is_seen or is_read, is_archived) == (
        is_read_by_mark,
        is_seen_by_mark or is_read_by_mark,
        number <= state.archived_announced,
    )
