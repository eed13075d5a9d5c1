# SPDX-License-Identifier: Apache-2.0
"""States of a notification for one user: seen, read, archived, snoozed, and the action taken.

A state is set for single notifications, or with a mark for all notifications up to a time. A mark
only moves forward. If a user takes a state away from a notification that a mark covers, the
notification stores the value of the mark at that moment: from then on, only a mark that moves
beyond this value sets the state again.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from tidings.model.limits import DAY_MS

BROADCAST_STATES_MAX: Final = 200
"""Broadcasts of an inbox for which a user can have states of their own, apart from read marks."""
SNOOZE_MS_MAX: Final = 365 * DAY_MS

StateKind = Literal["seen", "read", "archived"]
STATE_KINDS: Final[tuple[StateKind, ...]] = ("seen", "read", "archived")


class Mark(NamedTuple):
    """Up to where all notifications of an inbox have a state."""

    before: int
    """Copies made up to this time have it."""
    announced: int
    """Broadcasts up to this sequence have it."""


class NotificationStates(msgspec.Struct, frozen=True, kw_only=True):
    """What a user did with one notification, without the marks that cover many."""

    seen_at: int | None = None
    unseen_since: int | None = None
    """Value of the mark when the user took the state away; None if the user never did."""
    read_at: int | None = None
    unread_since: int | None = None
    archived_at: int | None = None
    unarchived_since: int | None = None
    snoozed_until: int | None = None
    acted: str | None = None
    """Id of the action that the user chose; None if the user chose none."""
    acted_at: int | None = None


class BroadcastStates(NotificationStates, frozen=True, kw_only=True):
    """What a user did with one broadcast."""

    sequence: int
    expires_at: int
    """Time when the broadcast expires, and this record with it."""


NO_STATES: Final = NotificationStates()


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of states. None leaves a state as it is."""

    seen: bool | None = None
    read: bool | None = None
    archived: bool | None = None
    snoozed_until: int | msgspec.UnsetType | None = msgspec.UNSET
    """The end of the snooze; None ends it at once, UNSET leaves it as it is."""

    @property
    def kinds(self) -> tuple[StateKind, ...]:
        """The states that the change sets."""
        return tuple(kind for kind in STATE_KINDS if getattr(self, kind))

    @property
    def is_empty(self) -> bool:
        """Whether the change leaves all states as they are."""
        return self == NO_CHANGE


NO_CHANGE: Final = StateChange()


class Acted(msgspec.Struct, frozen=True):
    """The action that a user chose, and when."""

    action: str
    at: int


class Assignment(NamedTuple):
    """A new value for a field of `NotificationStates`."""

    field: str
    value: int | None
    """None removes the field."""
    keeps_earlier: bool = False
    """Whether a value that the field already has remains."""


def assignments(change: StateChange, marks: Mapping[StateKind, int], now: int) -> list[Assignment]:
    """Return what a change writes to a notification; `marks` has the present value of each mark.

    A notification that becomes unread again remains seen.
    """
    if change.read is False and change.seen is None:
        change = msgspec.structs.replace(change, seen=True)
    found: list[Assignment] = []
    for kind in STATE_KINDS:
        wanted: bool | None = getattr(change, kind)
        if wanted:
            found.append(Assignment(f"{kind}_at", now, keeps_earlier=True))
        elif wanted is not None:
            found.append(Assignment(f"{kind}_at", None))
            found.append(Assignment(f"un{kind}_since", marks[kind]))
    if change.snoozed_until is not msgspec.UNSET:
        found.append(Assignment("snoozed_until", change.snoozed_until))
    return found


def set_by_mark(mark: int, since: int | None, position: int) -> bool:
    """Return True if a mark sets the state of the notification at a position.

    `since` is the value of the mark when the user took the state away, if ever.
    """
    return position <= mark and (since is None or mark > since)
