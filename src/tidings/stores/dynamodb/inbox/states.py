# SPDX-License-Identifier: Apache-2.0
"""What users do with single notifications, on DynamoDB.

The item of a copy contains its states. A broadcast has no item of its own for each user, so its
states are in an item that exists only if the user has changed one. These items are next to the item
with the user's marks, and one query reads them all.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tidings.model.ids import UserKey
from tidings.model.notification_states import (
    Acted,
    Assignment,
    BroadcastStates,
    NotificationStates,
    StateChange,
    StateKind,
    assignments,
)
from tidings.model.notifications import Broadcast, ReadState
from tidings.ports.inbox_states import InboxStates
from tidings.stores.dynamodb.client.access import Pattern
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.inbox.inbox_patterns import (
    ACT_ON_NOTIFICATION,
    CHANGE_BROADCAST_STATES,
    CHANGE_COPY,
    DROP_BROADCAST_STATES,
)
from tidings.stores.dynamodb.inbox.items import (
    IS_THERE,
    copy_key,
    made,
    marks_key,
    plain,
    user_partition,
)
from tidings.stores.dynamodb.inbox.marks import MARK_NAMES, move_mark
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

STATES: Final = "s#"
"""Prefix of the sort keys of broadcasts' states. They sort between the copies and the marks."""

_HAS_NO_ACTION: Final = "attribute_not_exists(#acted)"
_ACTS: Final = "SET #acted = :action, #acted_at = :now, #read_at = if_not_exists(#read_at, :now)"


def states_key(user: UserKey, inbox: str, sequence: int) -> Item:
    """Return the key of the item with a user's states of a broadcast."""
    return {"pk": user_partition(user, inbox), "sk": f"{STATES}{sequence:012d}"}


def states_item(user: UserKey, inbox: str, states: BroadcastStates) -> Item:
    """Build the item with a user's states of a broadcast."""
    return {
        **states_key(user, inbox, states.sequence),
        **plain(states, "sequence"),
        TTL: ttl_seconds(states.expires_at),
    }


def to_broadcast_states(item: Item) -> BroadcastStates:
    """Convert a stored item to a `BroadcastStates`."""
    return made(BroadcastStates, item, sequence=int(item["sk"].removeprefix(STATES)))


class DynamoInboxStates:
    """Stores the states of single notifications, and moves the marks that cover many."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def change_copies(
        self,
        user: UserKey,
        inbox: str,
        notification_ids: Sequence[str],
        change: StateChange,
        state: ReadState,
        now: int,
    ) -> None:
        marks = {kind: state.mark(kind).before for kind in MARK_NAMES}
        update, values = _update(assignments(change, marks, now))
        await gather_bounded(
            partial(
                self._change, CHANGE_COPY, copy_key(user, inbox, each), update, values, IS_THERE
            )
            for each in notification_ids
        )

    async def change_broadcasts(
        self,
        user: UserKey,
        inbox: str,
        broadcasts: Sequence[Broadcast],
        change: StateChange,
        state: ReadState,
        now: int,
    ) -> None:
        marks = {kind: state.mark(kind).announced for kind in MARK_NAMES}
        changes = assignments(change, marks, now)
        await gather_bounded(
            partial(
                self._change,
                CHANGE_BROADCAST_STATES,
                states_key(user, inbox, each.sequence),
                *_update([*changes, *_expiry(each)]),
            )
            for each in broadcasts
        )

    async def _change(
        self, pattern: Pattern, key: Item, update: str, values: Item, condition: str = ""
    ) -> None:
        try:
            await self._dynamo.update(pattern, key, update, condition, values)
        except ConditionFailed:
            return  # the user has no such copy

    async def mark_before(
        self, user: UserKey, inbox: str, kind: StateKind, time: int, announced: int
    ) -> None:
        await move_mark(self._dynamo, marks_key(user, inbox), kind, time, announced)

    async def act_on_copy(
        self, user: UserKey, inbox: str, notification_id: str, action: str, now: int
    ) -> Acted | None:
        key, values = copy_key(user, inbox, notification_id), {":action": action, ":now": now}
        return await self._act(key, _ACTS, f"{IS_THERE} AND {_HAS_NO_ACTION}", values)

    async def act_on_broadcast(
        self, user: UserKey, inbox: str, broadcast: Broadcast, action: str, now: int
    ) -> Acted:
        rest, values = _update(_expiry(broadcast))
        update = f"{_ACTS}, {rest.removeprefix('SET ')}"
        values |= {":action": action, ":now": now}
        key = states_key(user, inbox, broadcast.sequence)
        acted = await self._act(key, update, _HAS_NO_ACTION, values)
        assert acted is not None, "the condition fails only if an action is stored"
        return acted

    async def _act(self, key: Item, update: str, condition: str, values: Item) -> Acted | None:
        try:
            item = await self._dynamo.update(ACT_ON_NOTIFICATION, key, update, condition, values)
        except ConditionFailed as failed:
            item = failed.item or {}
        return Acted(item["acted"], item["acted_at"]) if "acted" in item else None

    async def forget_broadcasts(
        self, user: UserKey, inbox: str, states: Sequence[BroadcastStates]
    ) -> None:
        await gather_bounded(partial(self._forget, user, inbox, one) for one in states)

    async def _forget(self, user: UserKey, inbox: str, states: BroadcastStates) -> None:
        values = {name: getattr(states, name) for name in NotificationStates.__struct_fields__}
        is_same = [
            f"attribute_not_exists(#{name})" if value is None else f"#{name} = :{name}"
            for name, value in values.items()
        ]
        given = {f":{name}": value for name, value in values.items() if value is not None}
        key = states_key(user, inbox, states.sequence)
        with suppress(ConditionFailed):  # the user has changed them meanwhile
            await self._dynamo.delete(DROP_BROADCAST_STATES, key, " AND ".join(is_same), given)


def _expiry(broadcast: Broadcast) -> list[Assignment]:
    return [
        Assignment("expires_at", broadcast.expires_at),
        Assignment(TTL, ttl_seconds(broadcast.expires_at)),
    ]


def _update(changes: Sequence[Assignment]) -> tuple[str, Item]:
    """Return the update expression of some assignments, and its values."""
    sets, removes, values = [], [], dict[str, object]()
    for field, value, keeps_earlier in changes:
        if value is None:
            removes.append(f"#{field}")
            continue
        values[f":{field}"] = value
        new = f"if_not_exists(#{field}, :{field})" if keeps_earlier else f":{field}"
        sets.append(f"#{field} = {new}")
    parts = [f"SET {', '.join(sets)}" if sets else "", f"REMOVE {', '.join(removes)}"]
    return " ".join(part for part in parts[: 1 + bool(removes)] if part), values


_conforms: type[InboxStates] = DynamoInboxStates
