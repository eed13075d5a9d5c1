# SPDX-License-Identifier: Apache-2.0
"""Builds pages of the log for a reader, with the reader's own reactions and with receipts."""

from collections.abc import Iterable, Mapping, Sequence

from tidings.model import limits
from tidings.model.chats import Receipt
from tidings.model.entries import Entry, Head, mention_position, place_of_mention
from tidings.model.ids import ChatId, UserKey
from tidings.ports.log import Page
from tidings.ports.people import Listed
from tidings.stores.dynamodb.chat.items import (
    BODY,
    body_key,
    entry_key,
    head_of_item,
    member_key,
    reaction_key,
    receipt_key,
    to_entry,
    to_reaction,
    to_receipt,
)
from tidings.stores.dynamodb.chat.link_patterns import (
    CHECK_MEMBERS,
    LIST_MENTIONS,
    READ_PINS,
    READ_SETTLED_LOG,
)
from tidings.stores.dynamodb.chat.links import pins_of
from tidings.stores.dynamodb.chat.packs import unpacked
from tidings.stores.dynamodb.chat.pages import (
    FoundEntries,
    entries_at,
    item_in_pack,
    items_at,
    items_before,
    members_of,
    membership_row,
    take_body,
    to_entries,
)
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item, gather_two
from tidings.stores.dynamodb.patterns import (
    READ_CHAT,
    READ_ENTRIES,
    READ_MESSAGE,
    READ_MESSAGE_STATUS,
    READ_OWN_REACTIONS,
    SHOW_CHAT,
    SHOW_RECEIPTS,
)
from tidings.stores.dynamodb.tables import mentions_of


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


async def settled_messages(
    dynamo: Dynamo, chat: ChatId, reader: UserKey, first: int, last: int
) -> list[Entry]:
    """Return the messages of a part of the log that has not changed for a while, at half the price
    of a page; newest first."""
    items = await items_before(
        dynamo, chat, last + 1, last - first + 1, head_min=last, pattern=READ_SETTLED_LOG
    )
    messages = [item for item in items if item["kind"] == "message"]
    return await _content(dynamo, chat, reader, messages)


async def message_page(dynamo: Dynamo, chat: ChatId, reader: UserKey, sequence: int) -> Page | None:
    """Return a page that consists of one message; None if the reader is not a member.

    The page is empty if there is no such message. This takes two requests, or three if the message
    is in a pack, and one more in a small chat whose item does not name all members. The last
    request also checks the membership.
    """
    key = entry_key(chat, sequence)
    first = await dynamo.batch_get_all(
        READ_MESSAGE, {"messages": [key], "chats": [{"chat_id": chat}]}
    )
    facts = next(iter(first["chats"]), None) or await dynamo.get(READ_CHAT, {"chat_id": chat})
    if facts is None:
        return None
    found = next(iter(unpacked(first["messages"])), None) or await item_in_pack(
        dynamo, chat, sequence
    )
    items = [found] if found is not None and found["kind"] == "message" else []
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


async def pinned_page(
    dynamo: Dynamo, chat: ChatId, reader: UserKey
) -> tuple[Page, list[Entry]] | None:
    """Return the pinned messages and the entries that pinned them; None if the reader is not a
    member.

    The messages decide: after a restore, the list may name messages that are not pinned.
    """
    rows = await dynamo.query(READ_PINS, "#message_id = :pins", {":pins": pins_of(chat)})
    pairs = [((chat, row["target"]), (chat, int(row["reaction"]))) for row in rows]
    items = await items_at(dynamo, READ_ENTRIES, [place for pair in pairs for place in pair])
    pins = [
        (items[message], items[pin])
        for message, pin in pairs
        if message in items and pin in items and items[message].get("pinned") == pin[1]
    ]
    found = FoundEntries([message for message, _ in pins], None, Head())
    page = await admit(dynamo, chat, reader, found)
    return None if page is None else (page, [to_entry(pin) for _, pin in pins])


async def list_mentions(
    dynamo: Dynamo, user: UserKey, since: int, below: str | None, limit: int
) -> Listed[Entry]:
    """Return a page of the messages that mention a user, newest first.

    Memberships are checked last, so that a user who was removed meanwhile sees nothing of the chat.
    The messages decide: after a restore, the list may name messages that mention nobody.
    """
    # No position is as short as a time, or begins with a letter.
    first, last = f"{since + 1:013d}", below or "a"
    if last < first:
        return Listed([], None)  # by now, the rest of the list is too old; DynamoDB would refuse
    rows = await dynamo.query(
        LIST_MENTIONS,
        "#chat_id = :mentions AND #claim BETWEEN :since AND :below",
        {":mentions": mentions_of(user), ":since": first, ":below": last},
        limit=limit + 2,
        backwards=True,
    )
    positions = [row["claim"] for row in rows if row["claim"] != below]
    places = [place_of_mention(position)[1:] for position in positions[:limit]]
    found = await entries_at(dynamo, READ_ENTRIES, places)
    keys = [member_key(chat, user) for chat in dict.fromkeys(chat for chat, _ in places)]
    chats = {row["chat_id"] for row in await dynamo.batch_get(CHECK_MEMBERS, keys)}
    end = positions[limit - 1] if len(positions) > limit else None
    entries = [
        entry
        for position, place in zip(positions, places, strict=False)
        if (entry := found.get(place)) is not None
        and entry.chat_id in chats
        and entry.does_mention(user)
        and mention_position(entry) == position
    ]
    return Listed(entries, end)


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
    """Convert an item to a message. `rest` has the reader's reactions and, if the message expires,
    its content."""
    entry = to_entry(item)
    for body in rest["bodies"]:
        take_body(entry, body)
    entry.mine = tuple(sorted(to_reaction(row)[0] for row in rest["reactions"]))
    return entry


async def _content(dynamo: Dynamo, chat: ChatId, reader: UserKey, items: list[Item]) -> list[Entry]:
    """Convert items to entries with their content.

    An edit also gets the message that it edited, and a message gets the reader's own reactions.
    """
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
