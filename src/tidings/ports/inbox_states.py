# SPDX-License-Identifier: Apache-2.0
"""Port for the states of notifications: seen, read, archived, snoozed, and actions taken.

Every write is durable when it returns, and safe to repeat. Every call raises StoreUnavailable if
the outcome is unknown or the store does not answer. `Copies.read_state` reads what is written here.
"""

from collections.abc import Sequence
from typing import Protocol

from tidings.model.ids import UserKey
from tidings.model.notification_states import Acted, BroadcastStates, StateChange, StateKind
from tidings.model.notifications import Broadcast, ReadState


class InboxStates(Protocol):
    """Stores what users do with the notifications in their inboxes."""

    async def change_copies(
        self,
        user: UserKey,
        inbox: str,
        notification_ids: Sequence[str],
        change: StateChange,
        state: ReadState,
        now: int,
    ) -> None:
        """Change the states of at most 100 copies; `state` has the user's present marks.

        Ids of notifications of which the user has no copy are skipped.
        """
        ...

    async def change_broadcasts(
        self,
        user: UserKey,
        inbox: str,
        broadcasts: Sequence[Broadcast],
        change: StateChange,
        state: ReadState,
        now: int,
    ) -> None:
        """Change the states of at most 100 broadcasts; `state` has the user's present marks."""
        ...

    async def mark_before(
        self, user: UserKey, inbox: str, kind: StateKind, time: int, announced: int
    ) -> None:
        """Set a state of all copies made up to `time` and broadcasts up to sequence `announced`.

        A smaller `time` or `announced` than before changes nothing.
        """
        ...

    async def act_on_copy(
        self, user: UserKey, inbox: str, notification_id: str, action: str, now: int
    ) -> Acted | None:
        """Store the action that a user chose, unless an earlier one is stored; return the stored
        action.

        The copy becomes read. If the user has no such copy, the result is None.
        """
        ...

    async def act_on_broadcast(
        self, user: UserKey, inbox: str, broadcast: Broadcast, action: str, now: int
    ) -> Acted:
        """Do for a broadcast what `act_on_copy` does for a copy."""
        ...

    async def forget_broadcasts(
        self, user: UserKey, inbox: str, states: Sequence[BroadcastStates]
    ) -> None:
        """Remove the states of these broadcasts, except those that were changed since they were
        read."""
        ...
