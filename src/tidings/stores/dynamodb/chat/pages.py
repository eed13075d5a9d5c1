# SPDX-License-Identifier: Apache-2.0
"""Reads entries from the log, with the content of expiring messages, and builds pages of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tidings.model import limits
from tidings.model.chats import ChatState, Receipt
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Member
from tidings.ports.log import Page
from tidings.stores.dynamodb.chat.items import (
    BODY,
    body_key,
    entry_key,
    head_of_item,
    member_key,
    reaction_key,
    receipt_key,
    to_entry,
    to_member,
    to_reaction,
    to_receipt,
)
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item, gather_two
from tidings.stores.dynamodb.patterns import (
    CHECK_MEMBER,
    LIST_MEMBERS,
    READ_BODIES,
    READ_CHAT,
    READ_ENTRIES,
    READ_LOG,
    READ_MESSAGE,
    READ_MESSAGE_STATUS,
    READ_OWN_REACTIONS,
    SHOW_CHAT,
    SHOW_LAST,
    SHOW_RECEIPTS,
    Pattern,
)

SCAN_ENTRIES_MAX: Final = 1_000
"""Maximum number of entries that are read to find one page of messages."""
SCAN_STEP_MAX: Final = 250
FOLDED_ENTRIES: Final = 20
"""Number of last entries that `load_state` applies to the stored rows. One is nearly always
enough."""


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
    """Convert items to entries, and read the content of expiring messages."""
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
    dynamo: Dynamo, pattern: Pattern, sequences: Iterable[tuple[ChatId, int]]
) -> dict[tuple[ChatId, int], Entry]:
    """Return the entries at the given sequences, as far as they exist."""
    keys = [
        entry_key(chat, sequence) for chat, sequence in dict.fromkeys(sequences) if sequence > 0
    ]
    if not keys:
        return {}
    found = await to_entries(dynamo, await dynamo.batch_get(pattern, keys))
    return {(entry.chat_id, entry.sequence): entry for entry in found}


async def last_messages(
    dynamo: Dynamo, sequences: Iterable[tuple[ChatId, int]]
) -> dict[tuple[ChatId, int], Entry]:
    """Return the messages that a chat list shows as previews."""
    return await entries_at(dynamo, SHOW_LAST, sequences)


async def load_state(dynamo: Dynamo, chat: ChatId) -> ChatState | None:
    """Load a chat's state; it includes every entry that was stored before this call."""
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
    """Return all members in the order in which they joined."""
    rows = await dynamo.query(LIST_MEMBERS, "#chat_id = :chat", {":chat": chat})
    members = [(UserKey(row["user_id"]), to_member(row)) for row in rows]
    members.sort(key=lambda member: (member[1].joined, member[0]))
    return dict(members)


async def membership_row(dynamo: Dynamo, chat: ChatId, user: UserKey) -> Item | None:
    """Return the user's membership from a strong read, or None if the user is not a member.

    Call this after reading from the chat. If the user is still a member, the user may see what was
    read.
    """
    return await dynamo.get(CHECK_MEMBER, member_key(chat, user))


class FoundEntries(msgspec.Struct):
    """The entries of a page as items, the position of the next page, and the log's head."""

    items: list[Item]
    next: int | None
    head: Head


async def find_up(
    dynamo: Dynamo, chat: ChatId, after: int, limit: int, *, only_messages: bool
) -> FoundEntries:
    """Find the entries after a sequence, in ascending order."""
    seen, wanted = await _search(dynamo, chat, after, limit, only_messages, up=True)
    most = SCAN_ENTRIES_MAX if only_messages else limit
    is_end = len(seen) < most and len(wanted) < limit
    head = head_of_item(seen[-1]) if is_end and seen else await head_of_chat(dynamo, chat)
    reached = wanted[-1]["sequence"] if len(wanted) == limit else after + most
    return FoundEntries(wanted, reached if reached < head.sequence else None, head)


async def find_down(
    dynamo: Dynamo, chat: ChatId, before: int, limit: int, *, only_messages: bool
) -> FoundEntries:
    """Find the entries before a sequence, in descending order."""
    seen, wanted = await _search(dynamo, chat, before, limit, only_messages, up=False)
    if seen and seen[0]["sequence"] < before - 1:
        head = head_of_item(seen[0])  # nothing is right before `before`, so the log ends here
    else:
        head = await head_of_chat(dynamo, chat)
    reached = seen[-1]["sequence"] if seen else 1
    if len(wanted) == limit:
        reached = wanted[-1]["sequence"]
    return FoundEntries(wanted, reached if reached > 1 else None, head)


async def _search(
    dynamo: Dynamo, chat: ChatId, start: int, limit: int, only_messages: bool, *, up: bool
) -> tuple[list[Item], list[Item]]:
    """Return all entries that were read, and those of them that belong on the page.

    Most entries are messages. A search for messages therefore reads only as many entries at first
    as the page has room for. Each further step reads twice as many.
    """
    read = items_after if up else items_before
    if not only_messages:
        items = await read(dynamo, chat, start, limit)
        return items, items
    seen: list[Item] = []
    wanted: list[Item] = []
    step = limit
    while len(wanted) < limit and len(seen) < SCAN_ENTRIES_MAX:
        step = min(step, SCAN_STEP_MAX, SCAN_ENTRIES_MAX - len(seen))
        items = await read(dynamo, chat, start, step)
        seen += items
        wanted += [item for item in items if item["kind"] == "message"]
        if len(items) < step:
            break
        start, step = items[-1]["sequence"], 2 * step
    return seen, wanted[:limit]


async def admit(dynamo: Dynamo, chat: ChatId, reader: UserKey, found: FoundEntries) -> Page | None:
    """Complete the page; return None if the reader is not a member.

    Membership is checked last, so that a user who was removed meanwhile does not see the page.
    """
    entries, (member_count, receipts) = await gather_two(
        _content(dynamo, chat, reader, found.items), _count_and_receipts(dynamo, chat)
    )
    row = await membership_row(dynamo, chat, reader)
    if row is None:
        return None
    return Page(
        entries=entries,
        head=found.head,
        next=found.next,
        role=row["role"],
        member_count=member_count,
        receipts=tuple(receipts),
    )


async def message_page(dynamo: Dynamo, chat: ChatId, reader: UserKey, sequence: int) -> Page | None:
    """Return a page that consists of one message; None if the reader is not a member.

    The page is empty if there is no such message. In a chat whose item names all members, and in a
    large one, this takes two requests. The second also checks the membership.
    """
    key = entry_key(chat, sequence)
    first = await dynamo.batch_get_all(
        READ_MESSAGE, {"messages": [key], "chats": [{"chat_id": chat}]}
    )
    facts = next(iter(first["chats"]), None) or await dynamo.get(READ_CHAT, {"chat_id": chat})
    if facts is None:
        return None
    items = [item for item in first["messages"] if item["kind"] == "message"]
    users = await _receipt_users(dynamo, facts)
    keys = {"delivery_state": [receipt_key(user, chat) for user in users]}
    rest = await dynamo.batch_get_all(
        READ_MESSAGE_STATUS, {**_status_keys(chat, reader, items), **keys}
    )
    if not rest["chat_memberships"]:
        return None
    by_user = {item["user_id"]: to_receipt(item) for item in rest["delivery_state"]}
    return Page(
        entries=[_shown(item, rest) for item in items],
        head=Head() if not items else head_of_item(items[0]),
        next=None,
        role=rest["chat_memberships"][0]["role"],
        member_count=facts["member_count"],
        receipts=tuple(by_user[user] for user in users if user in by_user),
    )


def _status_keys(chat: ChatId, reader: UserKey, items: list[Item]) -> dict[str, list[Item]]:
    """Return the keys of the reader's membership and reactions, and of expiring content."""
    return {
        "chat_memberships": [member_key(chat, reader)],
        "reactions": [
            reaction_key(chat, item["sequence"], emoji, reader)
            for item in items
            for emoji in item.get("reactions", ())
        ],
        "bodies": [body_key(chat, item[BODY]) for item in items if BODY in item],
    }


def _shown(item: Item, rest: Mapping[str, Sequence[Item]]) -> Entry:
    """Return a message with the expiring content and the reader's reactions that were found."""
    entry = to_entry(item)
    for body in rest["bodies"]:
        entry.box, entry.box_key = body["box"], body["box_key"]
    entry.mine = tuple(sorted(to_reaction(row)[0] for row in rest["reactions"]))
    return entry


async def _content(dynamo: Dynamo, chat: ChatId, reader: UserKey, items: list[Item]) -> list[Entry]:
    """Convert items to entries with content, targets of edits and the reader's own reactions."""
    entries = await to_entries(dynamo, items)
    edits = [entry for entry in entries if entry.kind == "edited" and entry.target is not None]
    targets = await entries_at(
        dynamo, READ_ENTRIES, [(chat, edit.target) for edit in edits if edit.target is not None]
    )
    for edit in edits:
        assert edit.target is not None
        edit.shown = targets[chat, edit.target]
    await _attach_own_reactions(dynamo, chat, reader, entries)
    return entries


async def _attach_own_reactions(
    dynamo: Dynamo, chat: ChatId, reader: UserKey, entries: Iterable[Entry]
) -> None:
    by_row = {
        (row["message_id"], row["reaction"]): (entry, emoji)
        for entry in entries
        for emoji in entry.reactions or ()
        if (row := reaction_key(chat, entry.sequence, emoji, reader))
    }
    keys = [{"message_id": message, "reaction": reaction} for message, reaction in by_row]
    for item in await dynamo.batch_get(READ_OWN_REACTIONS, keys):
        entry, emoji = by_row[item["message_id"], item["reaction"]]
        entry.mine = tuple(sorted((*entry.mine, emoji)))


async def _count_and_receipts(dynamo: Dynamo, chat: ChatId) -> tuple[int, list[Receipt]]:
    """Return the member count and, for a small chat, the receipts in the order of joining."""
    facts = await dynamo.get(SHOW_CHAT, {"chat_id": chat})
    if facts is None:
        facts = await dynamo.get(READ_CHAT, {"chat_id": chat})  # the chat may be very new
    if facts is None:
        return 0, []
    users = await _receipt_users(dynamo, facts)
    return facts["member_count"], await receipts_of(dynamo, chat, users)


async def _receipt_users(dynamo: Dynamo, facts: Item) -> list[UserKey]:
    """Return the members of a small chat, in the order of joining; nobody if the chat is large."""
    count, users = facts["member_count"], facts["first_members"]
    if count > limits.SMALL_CHAT_MEMBERS_MAX:
        return []
    if len(users) < count:
        return list(await members_of(dynamo, facts["chat_id"]))
    return list(users)


async def receipts_of(dynamo: Dynamo, chat: ChatId, users: Iterable[UserKey]) -> list[Receipt]:
    """Return the receipts of these users, in the given order, without users who left the chat."""
    users = list(users)
    items = await dynamo.batch_get(SHOW_RECEIPTS, [receipt_key(user, chat) for user in users])
    by_user = {item["user_id"]: to_receipt(item) for item in items}
    return [by_user[user] for user in users if user in by_user]
