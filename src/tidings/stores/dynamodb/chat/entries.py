# SPDX-License-Identifier: Apache-2.0
"""Reads of the log: entries with the content of expiring messages, the head, the chat state."""

from collections.abc import Iterable, Sequence
from typing import Final

from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Member
from tidings.stores.dynamodb.chat.items import (
    BODY,
    body_key,
    head_of_item,
    member_key,
    place,
    to_entry,
    to_member,
)
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.errors import Item
from tidings.stores.dynamodb.patterns import (
    CHECK_MEMBER,
    LIST_MEMBERS,
    READ_BODIES,
    READ_CHAT,
    READ_LOG,
    SHOW_LAST,
    Pattern,
)


async def items_after(dynamo: Dynamo, chat: ChatId, after: int, limit: int) -> list[Item]:
    """Return up to `limit` entries after a sequence, as items."""
    return await dynamo.query(
        READ_LOG,
        "#chat_id = :chat AND #sequence > :after",
        {":chat": chat, ":after": after},
        limit=limit,
    )


async def items_before(dynamo: Dynamo, chat: ChatId, before: int, limit: int) -> list[Item]:
    """Return up to `limit` entries before a sequence, newest first, as items."""
    return await dynamo.query(
        READ_LOG,
        "#chat_id = :chat AND #sequence < :before",
        {":chat": chat, ":before": before},
        limit=limit,
        backwards=True,
    )


async def last_items(dynamo: Dynamo, chat: ChatId, limit: int) -> list[Item]:
    """Return the last entries of a log, newest first, as items."""
    return await dynamo.query(
        READ_LOG, "#chat_id = :chat", {":chat": chat}, limit=limit, backwards=True
    )


async def head_of_chat(dynamo: Dynamo, chat: ChatId) -> Head:
    """Read the head of a log from its last entry."""
    items = await last_items(dynamo, chat, 1)
    return head_of_item(items[0]) if items else Head()


async def to_entries(dynamo: Dynamo, items: Sequence[Item]) -> list[Entry]:
    """Convert items to entries, with their content."""
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
    """Return the entries at these positions that exist."""
    keys = [place(chat, sequence) for chat, sequence in dict.fromkeys(places) if sequence > 0]
    if not keys:
        return {}
    found = await to_entries(dynamo, await dynamo.batch_get(pattern, keys))
    return {(entry.chat_id, entry.sequence): entry for entry in found}


async def last_messages(
    dynamo: Dynamo, places: Iterable[tuple[ChatId, int]]
) -> dict[tuple[ChatId, int], Entry]:
    """Return messages for the previews of a chat list."""
    return await entries_at(dynamo, SHOW_LAST, places)


FOLDED_ENTRIES: Final = 20
"""Entries at the end of the log that are applied to the rows; one would nearly always do."""


async def load_state(dynamo: Dynamo, chat: ChatId) -> ChatState | None:
    """Load a chat's state, at a head that is no older than this call."""
    page = await last_items(dynamo, chat, FOLDED_ENTRIES)
    facts = await dynamo.get(READ_CHAT, {"chat_id": chat}) if page else None
    if facts is None:
        return None
    members = await members_of(dynamo, chat)
    oldest = to_entry(page[-1])
    state = ChatState(
        chat_id=chat,
        tenant=facts["tenant"],
        type=facts["type"],
        name=facts.get("name"),
        members=members,
        head=oldest.sequence - 1,
        is_deleted="deleted_at" in facts,
    )
    for item in reversed(page):
        state.fold(to_entry(item))
    return state


async def members_of(dynamo: Dynamo, chat: ChatId) -> dict[UserKey, Member]:
    """Return all members, longest-standing first."""
    rows = await dynamo.query(LIST_MEMBERS, "#chat_id = :chat", {":chat": chat})
    members = [(UserKey(row["user_id"]), to_member(row)) for row in rows]
    members.sort(key=lambda member: (member[1].joined, member[0]))
    return dict(members)


async def membership_row(dynamo: Dynamo, chat: ChatId, user: UserKey) -> Item | None:
    """Return the user's membership from a strong read; None unless the user is a member.

    If there is a row, the user may see everything that was read from the chat before this call.
    """
    return await dynamo.get(CHECK_MEMBER, member_key(chat, user))
