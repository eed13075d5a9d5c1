# SPDX-License-Identifier: Apache-2.0
"""The copies of each user in an inbox, on DynamoDB: one partition for each user and inbox.

A copy is written on condition that there is none yet. A delivery job can therefore be repeated at
any time, even while its users read.
"""

import asyncio
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Final

from tidings.model.ids import UserKey
from tidings.model.notifications import Copy
from tidings.model.refusals import StoreUnavailable
from tidings.ports.inboxes import Copies
from tidings.stores.dynamodb.client.errors import ConditionFailed
from tidings.stores.dynamodb.client.retrying import gather_bounded
from tidings.stores.dynamodb.inbox.inbox_patterns import (
    DELIVER_COPY,
    FIND_HOLDERS,
    LIST_COPIES,
    MARK_COPY,
)
from tidings.stores.dynamodb.inbox.items import (
    IS_FREE,
    IS_THERE,
    NEXT_TO,
    copy_item,
    copy_key,
    to_copy,
    user_partition,
)
from tidings.stores.dynamodb.inbox.read_marks import ReadMarks

_IS_UNREAD: Final = f"{IS_THERE} AND attribute_not_exists(#read_at)"
_BEHIND_ALL: Final = f"m{NEXT_TO}"


class DynamoCopies(ReadMarks):
    """Copies and read marks of users."""

    async def deliver(self, users: Sequence[UserKey], inbox: str, copy: Copy) -> list[UserKey]:
        new: set[UserKey] = set()
        left = list(users)
        for attempt in itertools.count(1):
            tried = await gather_bounded(partial(self._try, user, inbox, copy) for user in left)
            new.update(user for user, is_new in zip(left, tried, strict=True) if is_new)
            rest = [user for user, is_new in zip(left, tried, strict=True) if is_new is None]
            if not rest:
                break
            if len(rest) == len(left):
                raise StoreUnavailable
            left = rest
            await asyncio.sleep(self._dynamo.retrying.pause_before(attempt))
        return [user for user in users if user in new]

    async def _try(self, user: UserKey, inbox: str, copy: Copy) -> bool | None:
        """Write a copy; return whether it is new, or None if that is unknown.

        If the store rejects one of many copies, only that copy is repeated: `deliver` gives up
        when no copy at all gets through.
        """
        item = copy_item(user, inbox, copy)
        try:
            await self._dynamo.put(DELIVER_COPY, item, IS_FREE)
        except ConditionFailed as failed:
            return failed.is_repeat and failed.item == item
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
