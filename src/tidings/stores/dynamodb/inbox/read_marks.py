# SPDX-License-Identifier: Apache-2.0
"""What a user has read of an inbox besides single copies: one item, and nothing in it moves back.

Announcements read one by one are members of a set, each a sequence together with a time. Adding
members and taking out those that say nothing more are both done by the engine, so several devices
at once lose nothing of each other's.
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
"""So many members that say nothing more may stay: taking them out is a write of its own."""

_TIMES: Final = 10**14
"""More than any time in milliseconds: a member is a sequence times this, and a time."""

_TIME_IS_LATER: Final = "(attribute_not_exists(#before) OR #before <= :time)"
_SEQUENCE_IS_LATER: Final = "(attribute_not_exists(#announced) OR #announced <= :announced)"
_HAS_ROOM: Final = "attribute_not_exists(#singly) OR size(#singly) <= :most"


class ReadMarks:
    """How far each user has read each inbox."""

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
        await self._take_out_needless(key, item)

    async def _move_one(self, key: Item, time: int, announced: int, there: Item) -> Item:
        """Move the mark that is further than what stands there: the other one is not."""
        if there.get("before", 0) < time:
            update, condition = "SET #before = :time", _TIME_IS_LATER
            values = {":time": time}
        elif there.get("announced", 0) < announced:
            update, condition = "SET #announced = :announced", _SEQUENCE_IS_LATER
            values = {":announced": announced}
        else:
            return there
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
                await self._take_out_needless(key, failed.item or {})
            else:
                await self._take_out_needless(key, item)
                return
        raise StoreUnavailable

    async def _take_out_needless(self, key: Item, item: Item) -> None:
        needless = item.get("singly", frozenset()).difference(_members(item))
        if len(needless) >= NEEDLESS_MAX:
            values = {":needless": needless}
            await self._dynamo.update(MOVE_MARKS, key, "DELETE #singly :needless", values=values)


def marks_item(user: UserKey, inbox: str, state: ReadState) -> Item:
    """What a user has read of an inbox."""
    members = frozenset(sequence * _TIMES + time for sequence, time in state.singly.items())
    marks = {"before": state.before, "announced": state.announced, "singly": members}
    return {**marks_key(user, inbox), **{name: mark for name, mark in marks.items() if mark}}


def to_read_state(item: Item) -> ReadState:
    """What a user has read of an inbox; nothing if there is no item."""
    return ReadState(
        before=item.get("before", 0),
        announced=item.get("announced", 0),
        singly=dict(divmod(member, _TIMES) for member in _members(item)),
    )


def _members(item: Item) -> list[int]:
    """The members that count: beyond the mark, the first time of each, the highest sequences."""
    first: dict[int, int] = {}
    for member in sorted(item.get("singly", ()), reverse=True):
        first[member // _TIMES] = member
    announced = item.get("announced", 0)
    return [member for sequence, member in first.items() if sequence > announced][:SINGLE_MAX]


_JSON: Final = "json"


class DynamoInboxSettings:
    """Settings and inboxes, side by side under their tenant."""

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


def said_item(key: Item, said: object) -> Item:
    """What was said, under a key."""
    return {**key, _JSON: msgspec.json.encode(said).decode()}


_conforms: type[InboxSettings] = DynamoInboxSettings
