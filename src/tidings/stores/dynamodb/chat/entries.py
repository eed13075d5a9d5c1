# SPDX-License-Identifier: Apache-2.0
"""Entries read from the log, with the content of those that expire fetched from where it is."""

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


FOLDED_ENTRIES: Final = 20
"""How many entries at the end of the log are folded over the rows: one would nearly always do."""


async def load_state(dynamo: Dynamo, chat: ChatId) -> ChatState | None:
    """A chat's state as of a head that is at least the one at the time of the call."""
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
    """All members, longest-standing first."""
    rows = await dynamo.query(LIST_MEMBERS, "#chat_id = :chat", {":chat": chat})
    members = [(UserKey(row["user_id"]), to_member(row)) for row in rows]
    members.sort(key=lambda member: (member[1].joined, member[0]))
    return dict(members)


async def membership_row(dynamo: Dynamo, chat: ChatId, user: UserKey) -> Item | None:
    """The user's membership, read strongly; None unless a member.

    What was read of the chat before this call may be shown to the user if there is a row.
    """
    return await dynamo.get(CHECK_MEMBER, member_key(chat, user))
