# SPDX-License-Identifier: Apache-2.0
"""Reads entries from the log, with the content of expiring messages, and finds the entries of a
page."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Member
from tidings.stores.dynamodb.chat.items import (
    BODY,
    body_key,
    entry_key,
    head_of_item,
    member_key,
    to_entry,
    to_member,
    to_settings,
)
from tidings.stores.dynamodb.chat.link_patterns import READ_REPLIES
from tidings.stores.dynamodb.chat.links import replies_of, reply_place
from tidings.stores.dynamodb.chat.packs import unpacked
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item, gather_bounded
from tidings.stores.dynamodb.patterns import (
    CHECK_MEMBER,
    LIST_MEMBERS,
    READ_BODIES,
    READ_CHAT,
    READ_ENTRIES,
    READ_ENTRY,
    READ_LOG,
    SHOW_LAST,
    Pattern,
)

SCAN_ENTRIES_MAX: Final = 1_000
"""Maximum number of entries that are read to find one page of messages."""
SCAN_STEP_MAX: Final = 250
FOLDED_ENTRIES: Final = 20
"""Number of last entries that `load_state` applies to the stored rows. One is nearly always
enough."""


async def items_after(dynamo: Dynamo, chat: ChatId, after: int, limit: int) -> list[Item]:
    """Return the next `limit` entries after a sequence. If the last of them is in a pack, the rest
    of the pack is returned too."""
    return (await _items_up(dynamo, chat, after, limit))[0]


async def items_after_entry(dynamo: Dynamo, chat: ChatId, after: int, limit: int) -> list[Item]:
    """Return entries as `items_after` does, after a sequence that the log has reached.

    The same request reads the entry at that sequence. If this entry has its own item, no later
    entry can be in a pack that begins before it. A writer at the end of the log therefore needs
    only one request to find out that nothing follows.
    """
    found = await _items_between(dynamo, chat, after, after + limit)
    if not found or found[0]["sequence"] > after + 1:
        found = unpacked(await item_up_to(dynamo, chat, after)) + found
    return [item for item in found if item["sequence"] > after]


async def _items_up(
    dynamo: Dynamo, chat: ChatId, after: int, limit: int
) -> tuple[list[Item], Head | None]:
    """Return entries as `items_after` does. If the log ends before them, also return its head.

    Logs have no gaps. If the next entry has no item of its own, it is in the pack that begins
    before it.
    """
    found = await _items_between(dynamo, chat, after + 1, after + limit)
    if after < 1 or (found and found[0]["sequence"] == after + 1):
        return found, None
    earlier = unpacked(await item_up_to(dynamo, chat, after))
    found = [item for item in earlier if item["sequence"] > after] + found
    return found, head_of_item(earlier[-1]) if earlier and not found else None


async def _items_between(dynamo: Dynamo, chat: ChatId, first: int, last: int) -> list[Item]:
    """Return the entries whose items begin between two sequences, in ascending order."""
    items = await dynamo.query(
        READ_LOG,
        "#chat_id = :chat AND #sequence BETWEEN :first AND :last",
        {":chat": chat, ":first": first, ":last": last},
    )
    return unpacked(items)


async def item_up_to(
    dynamo: Dynamo, chat: ChatId, sequence: int, pattern: Pattern = READ_LOG
) -> list[Item]:
    """Return the last item that begins at or before a sequence, as it is stored, if any."""
    return await dynamo.query(
        pattern,
        "#chat_id = :chat AND #sequence <= :sequence",
        {":chat": chat, ":sequence": sequence},
        limit=1,
        backwards=True,
    )


async def items_before(
    dynamo: Dynamo,
    chat: ChatId,
    before: int,
    limit: int,
    head_min: int,
    pattern: Pattern = READ_LOG,
) -> list[Item]:
    """Return up to `limit` entries before a sequence, newest first, as items.

    The caller knows that the head of the log is at least `head_min`. Entries further below it than
    `limit` are not read. Without this bound, `limit` items that are packs could have far too many
    entries.
    """
    last = before - 1
    if last < 1:
        return []
    first = max(1, min(last, head_min) - limit + 1)
    items = await dynamo.query(
        pattern,
        "#chat_id = :chat AND #sequence BETWEEN :first AND :last",
        {":chat": chat, ":first": first, ":last": last},
        limit=limit,
        backwards=True,
    )
    found = [item for item in unpacked(items, backwards=True) if item["sequence"] < before]
    lowest = found[-1]["sequence"] if found else first
    if len(found) < limit and lowest > 1:
        # The missing entries are in a pack that begins before the range.
        earlier = unpacked(await item_up_to(dynamo, chat, lowest - 1, pattern))
        found += [item for item in reversed(earlier) if item["sequence"] < before]
    return found[:limit]


async def last_items(dynamo: Dynamo, chat: ChatId, limit: int) -> list[Item]:
    """Return the entries of the last `limit` items of a log, newest first."""
    items = await dynamo.query(
        READ_LOG, "#chat_id = :chat", {":chat": chat}, limit=limit, backwards=True
    )
    return unpacked(items, backwards=True)


async def item_at(dynamo: Dynamo, chat: ChatId, sequence: int) -> Item | None:
    """Return the entry at a sequence, as an item, or None if the log is shorter."""
    item = await dynamo.get(READ_ENTRY, entry_key(chat, sequence))
    return unpacked([item])[0] if item is not None else await item_in_pack(dynamo, chat, sequence)


async def items_at(
    dynamo: Dynamo, pattern: Pattern, sequences: Iterable[tuple[ChatId, int]]
) -> dict[tuple[ChatId, int], Item]:
    """Return the entries at the given sequences, as items, as far as they exist."""
    wanted = [(chat, sequence) for chat, sequence in dict.fromkeys(sequences) if sequence > 0]
    items = await dynamo.batch_get(pattern, [entry_key(*place) for place in wanted])
    found = {(item["chat_id"], item["sequence"]): item for item in unpacked(items)}
    missing = [place for place in wanted if place not in found]
    packed = await gather_bounded(partial(item_in_pack, dynamo, *place) for place in missing)
    found |= {place: item for place, item in zip(missing, packed, strict=True) if item is not None}
    return {place: found[place] for place in wanted if place in found}


async def item_in_pack(dynamo: Dynamo, chat: ChatId, sequence: int) -> Item | None:
    """Return an entry that is in a pack, as an item, or None if the log is shorter."""
    items = unpacked(await item_up_to(dynamo, chat, sequence))
    return next((item for item in items if item["sequence"] == sequence), None)


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
            take_body(named[body["chat_id"], body["body_id"]], body)
    return entries


def take_body(entry: Entry, body: Item) -> None:
    """Give an expiring message its content and its files, which are in an item of their own."""
    entry.box, entry.box_key = body["box"], body["box_key"]
    entry.files = body.get("files")


async def entries_at(
    dynamo: Dynamo, pattern: Pattern, sequences: Iterable[tuple[ChatId, int]]
) -> dict[tuple[ChatId, int], Entry]:
    """Return the entries at the given sequences, as far as they exist."""
    found = await items_at(dynamo, pattern, sequences)
    return dict(zip(found, await to_entries(dynamo, list(found.values())), strict=True))


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
        settings=to_settings(facts),
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
    head = None
    if only_messages:
        read = partial(items_after, dynamo, chat)
        seen, wanted = await _search(read, after, limit)
    else:
        found, head = await _items_up(dynamo, chat, after, limit)
        seen = wanted = found[:limit]
    most = SCAN_ENTRIES_MAX if only_messages else limit
    is_end = len(seen) < most and len(wanted) < limit
    if is_end and seen:
        head = head_of_item(seen[-1])
    head = head or await head_of_chat(dynamo, chat)
    reached = wanted[-1]["sequence"] if len(wanted) == limit else after + most
    return FoundEntries(wanted, reached if reached < head.sequence else None, head)


async def find_down(
    dynamo: Dynamo, chat: ChatId, before: int, limit: int, *, only_messages: bool, head_min: int
) -> FoundEntries:
    """Find the entries before a sequence, in descending order.

    The caller knows that the head of the log is at least `head_min`, as in `items_before`.
    """
    read = partial(items_before, dynamo, chat, head_min=head_min)
    if only_messages:
        seen, wanted = await _search(read, before, limit)
    else:
        seen = wanted = await read(before, limit)
    if seen and seen[0]["sequence"] < before - 1:
        head = head_of_item(seen[0])  # nothing is right before `before`, so the log ends here
    else:
        head = await head_of_chat(dynamo, chat)
    reached = seen[-1]["sequence"] if seen else 1
    if len(wanted) == limit:
        reached = wanted[-1]["sequence"]
    return FoundEntries(wanted, reached if reached > 1 else None, head)


async def find_replies(
    dynamo: Dynamo, chat: ChatId, sequence: int, after: int, limit: int
) -> FoundEntries:
    """Find the replies to a message after a sequence, in ascending order.

    The messages decide: after a restore, the list may name messages that answer nothing.
    """
    rows = await dynamo.query(
        READ_REPLIES,
        "#message_id = :replies AND #reaction > :after",
        {":replies": replies_of(chat, sequence), ":after": reply_place(after)},
        limit=limit + 1,
    )
    places = [int(row["reaction"]) for row in rows]
    found = await items_at(dynamo, READ_ENTRIES, [(chat, place) for place in places[:limit]])
    replies = [item for item in found.values() if item.get("reply_to") == sequence]
    return FoundEntries(replies, places[limit - 1] if len(places) > limit else None, Head())


async def _search(
    read: Callable[[int, int], Awaitable[list[Item]]], start: int, limit: int
) -> tuple[list[Item], list[Item]]:
    """Return all entries that were read, and the messages among them that belong on the page.

    Most entries are messages. The search therefore reads only as many entries at first as the page
    has room for. Each further step reads twice as many.
    """
    seen: list[Item] = []
    wanted: list[Item] = []
    step = limit
    while len(wanted) < limit and len(seen) < SCAN_ENTRIES_MAX:
        step = min(step, SCAN_STEP_MAX, SCAN_ENTRIES_MAX - len(seen))
        items = (await read(start, step))[:step]
        seen += items
        wanted += [item for item in items if item["kind"] == "message"]
        if len(items) < step:
            break
        start, step = items[-1]["sequence"], 2 * step
    return seen, wanted[:limit]
