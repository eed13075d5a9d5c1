# SPDX-License-Identifier: Apache-2.0
"""Claims of push notices on DynamoDB, in the items of the receipts."""

from typing import Final

from tidings.model.ids import ChatId, UserKey
from tidings.ports.delivery import PushMute
from tidings.ports.push import PushClaims
from tidings.stores.dynamodb.chat.items import member_key, receipt_key
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed
from tidings.stores.dynamodb.identity.push_patterns import (
    CLAIM_PUSH,
    CLEAR_PUSH,
    READ_MUTE,
    READ_PUSH_CLAIM,
)

_IS_NEW: Final = (
    "attribute_exists(#user_id) AND #read < :sequence"
    " AND (attribute_not_exists(#pushed) OR #pushed < :sequence)"
)
_IS_NOT_DELIVERED: Final = f"{_IS_NEW} AND #delivered < :sequence"


class DynamoPushClaims:
    """Claims notices with one conditional update each."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def claim(
        self, user: UserKey, chat: ChatId, sequence: int, *, unless_delivered: bool
    ) -> bool:
        key, values = receipt_key(user, chat), {":sequence": sequence}
        condition = _IS_NOT_DELIVERED if unless_delivered else _IS_NEW
        try:
            await self._dynamo.update(CLAIM_PUSH, key, "SET #pushed = :sequence", condition, values)
        except ConditionFailed:
            # The claim that is found may be our own, if an answer was lost. It may also be that of
            # another process, and a notice must not be sent twice.
            return False
        return True

    async def clear(self, user: UserKey, chat: ChatId, pushed: int) -> bool:
        key = receipt_key(user, chat)
        try:
            await self._dynamo.update(
                CLEAR_PUSH, key, "REMOVE #pushed", "#pushed = :pushed", {":pushed": pushed}
            )
        except ConditionFailed:
            # After a repeat this notice may not be taken back; the device does so when it opens.
            return False
        return True

    async def is_claimed(self, user: UserKey, chat: ChatId, sequence: int) -> bool:
        row = await self._dynamo.get(READ_PUSH_CLAIM, receipt_key(user, chat))
        return row is not None and row.get("pushed", 0) >= sequence and row["read"] < sequence

    async def mute(self, user: UserKey, chat: ChatId) -> PushMute | None:
        item = await self._dynamo.get(READ_MUTE, member_key(chat, user))
        until = item.get("muted_until") if item is not None else None
        if item is None or until is None:
            return None
        return PushMute(until, bool(item.get("except_mentions")))


_conforms: type[PushClaims] = DynamoPushClaims
