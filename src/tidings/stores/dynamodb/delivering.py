# SPDX-License-Identifier: Apache-2.0
"""What delivery asks of the tables."""

from collections.abc import Mapping, Sequence

from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.ports.deliveries import Deliveries
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.entries import entries_at, items_after, to_entries
from tidings.stores.dynamodb.heads import Heads
from tidings.stores.dynamodb.patterns import CHECK_HEADS, LIST_MUTES, READ_ENTRIES


class DynamoDeliveries:
    """Entries, head copies and mutes, for those who deliver."""

    def __init__(self, dynamo: Dynamo, heads: Heads) -> None:
        self._dynamo = dynamo
        self._heads = heads

    async def entries(self, chat: ChatId, *, after: int, limit: int) -> list[Entry]:
        items = await items_after(self._dynamo, chat, after, limit)
        entries = await to_entries(self._dynamo, items)
        places = [(chat, one.target) for one in entries if one.kind == "edited" and one.target]
        targets = await entries_at(self._dynamo, READ_ENTRIES, places)
        for entry in entries:
            if entry.kind == "edited" and entry.target is not None:
                entry.shown = targets.get((chat, entry.target))
        return entries

    async def advance(self, chat: ChatId, head: Head, member_count: int | None) -> None:
        self._heads.advance(chat, head, member_count)
        await self._heads.settled(chat)

    async def reached(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        # What stands in the table and nothing else: what this process knows besides was perhaps
        # never handed to anyone.
        keys = [{"chat_id": chat} for chat in dict.fromkeys(chats)]
        items = await self._dynamo.batch_get(CHECK_HEADS, keys)
        return {ChatId(item["chat_id"]): item.get("sequence", 0) for item in items}

    async def mutes(self, chat: ChatId) -> Mapping[UserKey, int]:
        rows = await self._dynamo.query(
            LIST_MUTES, "#chat_id = :chat", {":chat": chat}, only="attribute_exists(#muted_until)"
        )
        return {UserKey(row["user_id"]): row["muted_until"] for row in rows}


_conforms: type[Deliveries] = DynamoDeliveries
