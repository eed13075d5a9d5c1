# SPDX-License-Identifier: Apache-2.0
"""Reads and writes entries, head copies and mutes for delivery, on DynamoDB."""

import sys
from collections.abc import Mapping, Sequence

from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.ports.delivery import BeforeHeadCopy, DeliveryStore, PushMute
from tidings.stores.dynamodb.chat.head_copies import HeadCopy
from tidings.stores.dynamodb.chat.head_patterns import CHECK_HEADS
from tidings.stores.dynamodb.chat.heads import Heads
from tidings.stores.dynamodb.chat.items import head_of_item, last_message_of
from tidings.stores.dynamodb.chat.pages import entries_at, items_after, last_items, to_entries
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.patterns import LIST_MUTES, READ_ENTRIES


class DynamoDeliveryStore:
    """Reads and writes entries, head copies and mutes for delivery."""

    def __init__(self, dynamo: Dynamo, heads: Heads) -> None:
        self._dynamo = dynamo
        self._heads = heads

    async def entries(self, chat: ChatId, *, after: int, limit: int) -> list[Entry]:
        items = await items_after(self._dynamo, chat, after, limit)
        entries = await to_entries(self._dynamo, items)
        edited = [(chat, edit.target) for edit in entries if edit.kind == "edited" and edit.target]
        targets = await entries_at(self._dynamo, READ_ENTRIES, edited)
        for entry in entries:
            if entry.kind == "edited" and entry.target is not None:
                entry.shown = targets.get((chat, entry.target))
        return entries

    async def advance(self, chat: ChatId, head: Head, last: Entry | None) -> None:
        copied = None if last is None else last_message_of(last)
        self._heads.advance(chat, HeadCopy(head, copied))
        await self._heads.settled(chat)

    async def reached(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        # Only stored copies are used: entries up to a cached head were perhaps never delivered. The
        # sender's row of a direct chat is written before the delivery, so the other row decides.
        wanted = list(dict.fromkeys(chats))
        stored = await self._heads.stored(wanted, CHECK_HEADS)
        # A chat without an item or without rows is deleted, and needs no delivery.
        return {chat: min(stored.get(chat, ()), default=sys.maxsize) for chat in wanted}

    def before_head_copies(self, call: BeforeHeadCopy) -> None:
        self._heads.before_writing(call)

    async def mutes(self, chat: ChatId) -> Mapping[UserKey, PushMute]:
        rows = await self._dynamo.query(
            LIST_MUTES, "#chat_id = :chat", {":chat": chat}, only="attribute_exists(#muted_until)"
        )
        return {
            UserKey(row["user_id"]): PushMute(row["muted_until"], row.get("except_mentions", False))
            for row in rows
        }


async def fill_missing(
    dynamo: Dynamo, epoch: str, chats: Sequence[Item], before: int | None = None
) -> int:
    """Write the head copies that these chats lack; return how many chats got one.

    With `before`, chats that have an entry since this time are left out. A relay may still have to
    deliver that entry, and finds it only because the head copy is missing. Such a chat gets its
    head copy with its next message.
    """
    heads, count = Heads(dynamo, epoch, writes=False), 0
    by_id = {ChatId(item["chat_id"]): item for item in chats if "type" in item}
    stored = await heads.stored(list(by_id), CHECK_HEADS)
    for chat, sequences in stored.items():
        # Tables are restored one by one, so a chat may have no log.
        last = await last_items(dynamo, chat, 1) if min(sequences) == 0 else []
        if last and (before is None or last[0]["created_at"] < before):
            await heads.fill(chat, heads.saw_chat(by_id[chat]), head_of_item(last[0]))
            count += 1
    return count


_conforms: type[DeliveryStore] = DynamoDeliveryStore
