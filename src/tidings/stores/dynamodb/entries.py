# SPDX-License-Identifier: Apache-2.0
"""Entries read from the log, with the content of those that expire fetched from where it is."""

from collections.abc import Iterable, Sequence

from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.items import BODY, body_key, head_of_item, place, to_entry
from tidings.stores.dynamodb.patterns import READ_BODIES, READ_LOG, SHOW_LAST, Pattern
from tidings.stores.dynamodb.trouble import Item


async def items_after(dynamo: Dynamo, chat: ChatId, after: int, limit: int) -> list[Item]:
    """Up to so many entries after a sequence, as items."""
    return await dynamo.query(
        READ_LOG,
        "#chat_id = :chat AND #sequence > :after",
        {":chat": chat, ":after": after},
        limit=limit,
    )


async def items_before(dynamo: Dynamo, chat: ChatId, before: int, limit: int) -> list[Item]:
    """Up to so many entries before a sequence, the last first, as items."""
    return await dynamo.query(
        READ_LOG,
        "#chat_id = :chat AND #sequence < :before",
        {":chat": chat, ":before": before},
        limit=limit,
        backwards=True,
    )


async def last_items(dynamo: Dynamo, chat: ChatId, limit: int) -> list[Item]:
    """The last entries of a log, the very last first, as items."""
    return await dynamo.query(
        READ_LOG, "#chat_id = :chat", {":chat": chat}, limit=limit, backwards=True
    )


async def head_of_chat(dynamo: Dynamo, chat: ChatId) -> Head:
    """Where the log ends: read off its last entry."""
    items = await last_items(dynamo, chat, 1)
    return head_of_item(items[0]) if items else Head()


async def to_entries(dynamo: Dynamo, items: Sequence[Item]) -> list[Entry]:
    """The entries of these items, with their content."""
    entries = [to_entry(item) for item in items]
    named = {
        (item["chat_id"], item[BODY]): entry
        for item, entry in zip(items, entries, strict=True)
        if BODY in item
    }
    if named:
        for body in await dynamo.batch_get(READ_BODIES, [body_key(*name) for name in named]):
            entry = named[body["chat_id"], body["body_id"]]
            entry.box, entry.box_key = body["box"], body["box_key"]
    return entries


async def entries_at(
    dynamo: Dynamo, pattern: Pattern, places: Iterable[tuple[ChatId, int]]
) -> dict[tuple[ChatId, int], Entry]:
    """The entries at these places, those that are there."""
    keys = [place(chat, sequence) for chat, sequence in dict.fromkeys(places) if sequence > 0]
    if not keys:
        return {}
    found = await to_entries(dynamo, await dynamo.batch_get(pattern, keys))
    return {(entry.chat_id, entry.sequence): entry for entry in found}


async def last_messages(
    dynamo: Dynamo, places: Iterable[tuple[ChatId, int]]
) -> dict[tuple[ChatId, int], Entry]:
    """Messages for the previews of a chat list."""
    return await entries_at(dynamo, SHOW_LAST, places)
