# SPDX-License-Identifier: Apache-2.0
"""The search index on DynamoDB: for each chat a partition with the state and the segments.

Segments are written before the state, each on condition that nobody else has written it since.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.model.ids import ChatId
from tidings.ports.search import AuthorWords, IndexState, SearchIndex, Segment
from tidings.stores.dynamodb.chat.link_patterns import (
    FORGET_INDEX,
    PUT_SEGMENT,
    READ_CHANGED_SEGMENTS,
    READ_INDEX_STATE,
    READ_SEGMENTS,
)
from tidings.stores.dynamodb.client.dynamo import BATCH_WRITE_MAX, Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.tables import index_of

SEGMENT_COST: Final = 40
"""A segment has the size of about 80 entries, and is read at half the price."""
_STATE: Final = "state"
_SAME_VERSION: Final = "#version = :version"
_NEW: Final = "attribute_not_exists(#claim)"
_SAME_STATE: Final = "#until = :until"

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[AuthorWords, ...]).decode


class DynamoSearchIndex:
    """Stores the index of each chat in the table of claimed keys, which has no backups."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    @property
    def segment_cost(self) -> int:
        return SEGMENT_COST

    async def state(self, chat: ChatId) -> IndexState:
        item = await self._dynamo.get(READ_INDEX_STATE, _key(chat, _STATE))
        if item is None:
            return IndexState()
        return IndexState(until=item["until"], mark=item["mark"], changed_at=item["changed_at"])

    async def segments(
        self, chat: ChatId, first: int, last: int, *, strong: bool = False
    ) -> list[Segment]:
        items = await self._dynamo.query(
            READ_CHANGED_SEGMENTS if strong else READ_SEGMENTS,
            "#chat_id = :index AND #claim BETWEEN :first AND :last",
            {":index": index_of(chat), ":first": _place(first), ":last": _place(last)},
            backwards=True,
        )
        return [_segment(item) for item in items]

    async def put(
        self, chat: ChatId, segments: Sequence[Segment], before: IndexState, after: IndexState
    ) -> bool:
        state = {**_key(chat, _STATE), **msgspec.structs.asdict(after)}
        try:
            for segment in segments:
                version = segment.version - 1
                condition = (_SAME_VERSION, {":version": version}) if version else (_NEW, None)
                await self._dynamo.put(PUT_SEGMENT, _item(chat, segment), *condition)
            known = (_SAME_STATE, {":until": before.until}) if before.until else (_NEW, None)
            await self._dynamo.put(PUT_SEGMENT, state, *known)
        except ConditionFailed:
            return False
        return True

    async def forget(self, chat: ChatId) -> None:
        await forget_index(self._dynamo, chat)


async def forget_index(dynamo: Dynamo, chat: ChatId) -> None:
    """Remove the index of a chat."""
    while True:
        items = await dynamo.query(
            READ_CHANGED_SEGMENTS,
            "#chat_id = :index",
            {":index": index_of(chat)},
            limit=BATCH_WRITE_MAX,
            backwards=True,
        )
        # The state sorts last, so it is removed first: a part of an index must not be used.
        keys = [{"chat_id": item["chat_id"], "claim": item["claim"]} for item in items]
        await dynamo.batch_write(FORGET_INDEX, deletes=keys)
        if len(items) < BATCH_WRITE_MAX:
            return


def _key(chat: ChatId, claim: str) -> Item:
    return {"chat_id": index_of(chat), "claim": claim}


def _place(number: int) -> str:
    return f"{number:012d}"


def _item(chat: ChatId, segment: Segment) -> Item:
    fields = msgspec.structs.asdict(segment)
    return {**_key(chat, _place(segment.number)), **fields, "parts": _encode(segment.parts)}


def _segment(item: Item) -> Segment:
    fields = {name: item[name] for name in Segment.__struct_fields__}
    return Segment(**{**fields, "parts": _decode(item["parts"])})


_conforms: type[SearchIndex] = DynamoSearchIndex
