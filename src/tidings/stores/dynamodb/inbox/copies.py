# SPDX-License-Identifier: Apache-2.0
"""The copies and read marks of each user in an inbox, on DynamoDB.

A copy is written on condition that it does not exist yet. A repeated delivery job therefore never
overwrites a copy that the user has read meanwhile.

A copy contains its own read mark. All other read marks of a user in an inbox are stored in one
item, and they only move forward. This item also has a set of the broadcasts that were read one by
one. Each member of the set combines a sequence and the time of reading. DynamoDB itself adds and
removes members, so that several devices at once never undo each other's changes.
"""

import asyncio
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Final

from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.notifications import Copy, ReadState
from tidings.model.refusals import StoreUnavailable
from tidings.ports.inboxes import Copies, DeliveredInPart
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.inbox.inbox_patterns import (
    DELIVER_COPY,
    FIND_HOLDERS,
    LIST_COPIES,
    MARK_COPY,
    MOVE_MARKS,
    READ_MARKS,
)
from tidings.stores.dynamodb.inbox.items import (
    IS_FREE,
    IS_THERE,
    MARKS,
    NEXT_TO,
    copy_item,
    copy_key,
    marks_key,
    to_copy,
    user_partition,
)
from tidings.stores.dynamodb.inbox.marks import MARK_NAMES, move_mark
from tidings.stores.dynamodb.inbox.preferences import (
    PREFERENCES,
    preferences_in,
    preferences_to_attribute,
)
from tidings.stores.dynamodb.inbox.states import STATES, to_broadcast_states

SINGLE_MAX: Final = 1_000
NEEDLESS_MAX: Final = 100
"""Redundant members of the set are removed only when there are this many, because a removal costs a
write."""

_EXPIRED_MS: Final = (limits.KEEP_DAYS_MAX + 1) * limits.DAY_MS
"""A broadcast that was read so long ago has expired. The extra day is for broadcasts whose time is
a little ahead of the clock."""

_TIMES: Final = 10**14
"""A member of the set is `sequence * _TIMES + time`. The time, in milliseconds, is always smaller
than this number."""

_HAS_ROOM: Final = "attribute_not_exists(#singly) OR size(#singly) <= :most"

_IS_UNREAD: Final = f"{IS_THERE} AND attribute_not_exists(#read_at)"
_BEHIND_ALL: Final = f"m{NEXT_TO}"


class ReadMarks:
    """Stores the read marks of each user in each inbox."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def read_state(self, user: UserKey, inbox: str) -> ReadState:
        return to_read_state(await self.mark_items(user, inbox))

    async def mark_items(self, user: UserKey, inbox: str) -> list[Item]:
        """Return the items with the states of single broadcasts, and then the item with marks."""
        return await self._dynamo.query(
            READ_MARKS,
            "#pk = :user AND #sk BETWEEN :first AND :last",
            {":user": user_partition(user, inbox), ":first": STATES, ":last": MARKS},
        )

    async def read_before(self, user: UserKey, inbox: str, time: int, announced: int) -> None:
        key = marks_key(user, inbox)
        item = await move_mark(self._dynamo, key, "read", time, announced)
        await self._remove_redundant(key, item, time)

    async def read_broadcasts(
        self, user: UserKey, inbox: str, sequences: Sequence[int], now: int
    ) -> None:
        if not sequences:
            return
        key = marks_key(user, inbox)
        members = frozenset(sequence * _TIMES + now for sequence in sequences)
        values = {":members": members, ":most": SINGLE_MAX + NEEDLESS_MAX}
        for _ in range(limits.SLOT_ATTEMPTS_MAX):
            try:
                item = await self._dynamo.update(
                    MOVE_MARKS, key, "ADD #singly :members", _HAS_ROOM, values
                )
            except ConditionFailed as failed:
                await self._remove_redundant(key, failed.item or {}, now)
            else:
                await self._remove_redundant(key, item, now)
                return
        raise StoreUnavailable

    async def _remove_redundant(self, key: Item, item: Item, now: int) -> None:
        useful = [one for one in _members(item) if one % _TIMES > now - _EXPIRED_MS]
        redundant = item.get("singly", frozenset()).difference(useful)
        if len(redundant) >= NEEDLESS_MAX:
            values = {":redundant": redundant}
            await self._dynamo.update(MOVE_MARKS, key, "DELETE #singly :redundant", values=values)


def marks_item(user: UserKey, inbox: str, state: ReadState) -> Item:
    """Build the item with the marks of a user in an inbox."""
    members = frozenset(sequence * _TIMES + time for sequence, time in state.singly.items())
    chosen = None if state.preferences is None else preferences_to_attribute(state.preferences)
    marks = {name: getattr(state, name) for names in MARK_NAMES.values() for name in names}
    marks |= {"singly": members, PREFERENCES: chosen}
    return {**marks_key(user, inbox), **{name: mark for name, mark in marks.items() if mark}}


def to_read_state(items: Sequence[Item]) -> ReadState:
    """Convert the items that `mark_items` returns to a `ReadState`."""
    marks = next((item for item in items if item["sk"] == MARKS), {})
    states = [to_broadcast_states(item) for item in items if item["sk"].startswith(STATES)]
    return ReadState(
        **{name: marks.get(name, 0) for names in MARK_NAMES.values() for name in names},
        singly=dict(divmod(member, _TIMES) for member in _members(marks)),
        broadcasts={one.sequence: one for one in states},
        preferences=preferences_in(marks),
    )


def _members(item: Item) -> list[int]:
    """Return the useful members of the set of broadcasts that were read one by one.

    The highest sequence comes first. A member is useless if the read mark includes its sequence,
    or if another member has the same sequence and an earlier time.
    """
    first: dict[int, int] = {}
    for member in sorted(item.get("singly", ()), reverse=True):
        first[member // _TIMES] = member
    announced = item.get("announced", 0)
    return [member for sequence, member in first.items() if sequence > announced][:SINGLE_MAX]


class DynamoCopies(ReadMarks):
    """Stores the copies and read marks of users."""

    async def deliver(self, users: Sequence[UserKey], inbox: str, copy: Copy) -> list[UserKey]:
        new: set[UserKey] = set()
        left = list(users)
        for attempt in itertools.count(1):
            is_again = attempt > 1
            tried = await gather_bounded(
                partial(self._try, user, inbox, copy, is_again=is_again) for user in left
            )
            new.update(user for user, is_new in zip(left, tried, strict=True) if is_new)
            rest = [user for user, is_new in zip(left, tried, strict=True) if is_new is None]
            if not rest:
                break
            if len(rest) == len(left):
                raise DeliveredInPart([user for user in users if user in new])
            left = rest
            await asyncio.sleep(self._dynamo.retrying.pause_before(attempt))
        return [user for user in users if user in new]

    async def _try(self, user: UserKey, inbox: str, copy: Copy, *, is_again: bool) -> bool | None:
        """Write a copy; return True if it is new, False if it existed, None if the store failed.

        `deliver` repeats only the copies for which the store failed, and gives up when it fails
        for all of them. A copy that is repeated may have been written although the store failed.
        """
        item = copy_item(user, inbox, copy)
        try:
            await self._dynamo.put(DELIVER_COPY, item, IS_FREE)
        except ConditionFailed as failed:
            return (failed.is_repeat or is_again) and failed.item == item
        except StoreUnavailable:
            return None
        return True

    async def newest(
        self, user: UserKey, inbox: str, *, before: str | None, limit: int
    ) -> list[Copy]:
        below = _BEHIND_ALL if before is None else copy_key(user, inbox, before)["sk"]
        items = await self._dynamo.query(
            LIST_COPIES,
            "#pk = :user AND #sk < :below",
            {":user": user_partition(user, inbox), ":below": below},
            limit=limit,
            backwards=True,
        )
        return [to_copy(item) for item in items]

    async def holders(
        self, users: Sequence[UserKey], inbox: str, notification_id: str
    ) -> list[UserKey]:
        keys = [copy_key(user, inbox, notification_id) for user in users]
        found = {item["pk"] for item in await self._dynamo.batch_get(FIND_HOLDERS, keys)}
        return [user for user, key in zip(users, keys, strict=True) if key["pk"] in found]

    async def mark_read(
        self, user: UserKey, inbox: str, notification_ids: Sequence[str], now: int
    ) -> None:
        await gather_bounded(
            partial(self._mark, user, inbox, each, now) for each in notification_ids
        )

    async def _mark(self, user: UserKey, inbox: str, notification_id: str, now: int) -> None:
        key = copy_key(user, inbox, notification_id)
        try:
            await self._dynamo.update(
                MARK_COPY, key, "SET #read_at = :now", _IS_UNREAD, {":now": now}
            )
        except ConditionFailed:
            return  # already read, or the user has no such copy


_conforms: type[Copies] = DynamoCopies
