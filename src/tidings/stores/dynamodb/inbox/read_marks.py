# SPDX-License-Identifier: Apache-2.0
"""The read marks of a user in an inbox, and the settings of inboxes and tenants, on DynamoDB.

Read marks, except those of single copies, are one item in which nothing moves back. Broadcasts read
one by one are members of a set, each a sequence together with a time. The engine itself adds
members and removes redundant ones, so several devices at once never undo each other's changes.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.notifications import InboxConfig, ReadState
from tidings.model.refusals import StoreUnavailable
from tidings.ports.inboxes import InboxSettings
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.errors import ConditionFailed, Item
from tidings.stores.dynamodb.inbox.inbox_patterns import (
    KEEP_INBOX,
    KEEP_SETTINGS,
    MOVE_MARKS,
    READ_INBOX,
    READ_MARKS,
    READ_SETTINGS,
)
from tidings.stores.dynamodb.inbox.items import IS_FREE, config_key, marks_key, settings_key

SINGLE_MAX: Final = 1_000
NEEDLESS_MAX: Final = 100
"""Redundant members that may stay: their removal costs one more write."""

_TIMES: Final = 10**14
"""Larger than any time in milliseconds: a member is a sequence times this, plus a time."""

_TIME_IS_LATER: Final = "(attribute_not_exists(#before) OR #before <= :time)"
_SEQUENCE_IS_LATER: Final = "(attribute_not_exists(#announced) OR #announced <= :announced)"
_HAS_ROOM: Final = "attribute_not_exists(#singly) OR size(#singly) <= :most"


class ReadMarks:
    """Read marks of each user in each inbox."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def read_state(self, user: UserKey, inbox: str) -> ReadState:
        item = await self._dynamo.get(READ_MARKS, marks_key(user, inbox)) or {}
        return to_read_state(item)

    async def read_before(self, user: UserKey, inbox: str, time: int, announced: int) -> None:
        key, values = marks_key(user, inbox), {":time": time, ":announced": announced}
        update = "SET #before = :time, #announced = :announced"
        condition = f"{_TIME_IS_LATER} AND {_SEQUENCE_IS_LATER}"
        try:
            item = await self._dynamo.update(MOVE_MARKS, key, update, condition, values)
        except ConditionFailed as failed:
            item = await self._move_one(key, time, announced, failed.item or {})
        await self._remove_redundant(key, item)

    async def _move_one(self, key: Item, time: int, announced: int, stored: Item) -> Item:
        """Move only the mark that is further than the stored one, if any."""
        if stored.get("before", 0) < time:
            update, condition = "SET #before = :time", _TIME_IS_LATER
            values = {":time": time}
        elif stored.get("announced", 0) < announced:
            update, condition = "SET #announced = :announced", _SEQUENCE_IS_LATER
            values = {":announced": announced}
        else:
            return stored
        try:
            return await self._dynamo.update(MOVE_MARKS, key, update, condition, values)
        except ConditionFailed as failed:
            return failed.item or {}

    async def read_announcements(
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
                await self._remove_redundant(key, failed.item or {})
            else:
                await self._remove_redundant(key, item)
                return
        raise StoreUnavailable

    async def _remove_redundant(self, key: Item, item: Item) -> None:
        redundant = item.get("singly", frozenset()).difference(_members(item))
        if len(redundant) >= NEEDLESS_MAX:
            values = {":redundant": redundant}
            await self._dynamo.update(MOVE_MARKS, key, "DELETE #singly :redundant", values=values)


def marks_item(user: UserKey, inbox: str, state: ReadState) -> Item:
    """Build the item with the read marks of a user in an inbox."""
    members = frozenset(sequence * _TIMES + time for sequence, time in state.singly.items())
    marks = {"before": state.before, "announced": state.announced, "singly": members}
    return {**marks_key(user, inbox), **{name: mark for name, mark in marks.items() if mark}}


def to_read_state(item: Item) -> ReadState:
    """Convert an item to its read marks; an empty item means that nothing was read."""
    return ReadState(
        before=item.get("before", 0),
        announced=item.get("announced", 0),
        singly=dict(divmod(member, _TIMES) for member in _members(item)),
    )


def _members(item: Item) -> list[int]:
    """Return the members in use: beyond the mark, first time of each sequence, highest first."""
    first: dict[int, int] = {}
    for member in sorted(item.get("singly", ()), reverse=True):
        first[member // _TIMES] = member
    announced = item.get("announced", 0)
    return [member for sequence, member in first.items() if sequence > announced][:SINGLE_MAX]


_JSON: Final = "json"


class DynamoInboxSettings:
    """Settings of tenants and inboxes, in the partition of the tenant."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def settings(self, tenant: str) -> dict[str, object] | None:
        item = await self._dynamo.get(READ_SETTINGS, settings_key(tenant))
        return msgspec.json.decode(item[_JSON], type=dict[str, object]) if item else None

    async def put_settings(self, tenant: str, settings: dict[str, object]) -> None:
        await self._dynamo.put(KEEP_SETTINGS, said_item(settings_key(tenant), settings))

    async def config(self, tenant: str, inbox: str) -> InboxConfig | None:
        item = await self._dynamo.get(READ_INBOX, config_key(tenant, inbox))
        return msgspec.json.decode(item[_JSON], type=InboxConfig) if item else None

    async def put_config(self, tenant: str, inbox: str, config: InboxConfig) -> bool:
        item = said_item(config_key(tenant, inbox), config)
        try:
            await self._dynamo.put(KEEP_INBOX, item, IS_FREE)
        except ConditionFailed as failed:
            if failed.item == item:
                return failed.is_repeat
            await self._dynamo.put(KEEP_INBOX, item)
            return False
        return True


def said_item(key: Item, settings: object) -> Item:
    """Build an item that stores settings as JSON."""
    return {**key, _JSON: msgspec.json.encode(settings).decode()}


_conforms: type[InboxSettings] = DynamoInboxSettings
