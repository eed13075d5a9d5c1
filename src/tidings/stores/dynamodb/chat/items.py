# SPDX-License-Identifier: Apache-2.0
"""Items of the tables: entries and the rest as plain values, and back.

An item is billed by its size, names included. So what is empty is left out, and of a message also
what follows from the rest of it.
"""

from typing import Any, Final

from tidings.model.entries import Entry, Head, Person, SendKey
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipts import Receipt
from tidings.model.roles import Member
from tidings.stores.dynamodb.client.errors import Item
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

PLAIN_TEXT: Final = "text/plain"

_ALWAYS: Final = ("chat_id", "sequence", "kind", "sender", "created_at", "number", "mark")
_IF_ANY: Final = (
    "client_message_id", "expires_at", "edited_at", "redacted", "reactions", "target", "emoji",
    "name",
)  # fmt: skip
BODY: Final = "body_id"
"""In an entry: the name of the item that holds its content."""


# Entries.


def entry_item(entry: Entry, body_id: str | None = None) -> Item:
    """An entry as it is first written. Only a message keeps content, or the name of its body."""
    item: Item = {name: getattr(entry, name) for name in _ALWAYS}
    for name in _IF_ANY:
        if value := getattr(entry, name):
            item[name] = value
    is_message = entry.kind == "message"
    if entry.content_type is not None and not (is_message and entry.content_type == PLAIN_TEXT):
        item["content_type"] = entry.content_type
    if entry.people:
        item["people"] = [{"user": one.user, "role": one.role} for one in entry.people]
    if not is_message:
        item["last_message"], item["active_at"] = entry.last_message, entry.active_at
    elif body_id is not None:
        item[BODY] = body_id
    else:
        item["box"], item["box_key"] = entry.box, entry.box_key
    return item


def to_entry(item: Item) -> Entry:
    """The entry of an item; that of a message that expires is still without its content."""
    fields = {name: item[name] for name in _ALWAYS}
    for name in _IF_ANY:
        if name in item:
            fields[name] = item[name]
    is_message = item["kind"] == "message"
    if "people" in item:
        fields["people"] = tuple(Person(one["user"], one["role"]) for one in item["people"])
    return Entry(
        **fields,
        content_type=item.get("content_type", PLAIN_TEXT if is_message else None),
        last_message=item["sequence"] if is_message else item["last_message"],
        active_at=item["created_at"] if is_message else item["active_at"],
        box=item.get("box"),
        box_key=item.get("box_key", 0),
    )


def head_of_item(item: Item) -> Head:
    """The head of a log that ends with this entry's item."""
    is_message = item["kind"] == "message"
    return Head(
        item["sequence"],
        item["number"],
        item["sequence"] if is_message else item["last_message"],
        item["created_at"] if is_message else item["active_at"],
    )


def place(chat: ChatId, sequence: int) -> Item:
    """The key of an entry."""
    return {"chat_id": chat, "sequence": sequence}


def body_item(entry: Entry, body_id: str) -> Item:
    """The content of a message that expires."""
    assert entry.expires_at is not None
    return {
        **body_key(entry.chat_id, body_id),
        "box": entry.box,
        "box_key": entry.box_key,
        "expires_at": entry.expires_at,
        TTL: ttl_seconds(entry.expires_at),
    }


def body_key(chat: ChatId, body_id: str) -> Item:
    """The key of a body."""
    return {"chat_id": chat, "body_id": body_id}


# Keys and reactions.


def claim_key(chat: ChatId, key: SendKey) -> Item:
    """Where a send's key stands. Neither part has a `#`, so two keys never look the same."""
    return {"chat_id": chat, "claim": f"{key.sender}#{key.client_message_id}"}


def claim_item(chat: ChatId, key: SendKey, entry: Entry) -> Item:
    """A claimed key: the entry stands at the hint or after it, or nowhere."""
    return {
        **claim_key(chat, key),
        "hint": entry.sequence,
        "digest": key.digest,
        "mark": entry.mark,
        "expires_at": key.expires_at,
        TTL: ttl_seconds(key.expires_at),
    }


def reactions_of(chat: ChatId, sequence: int) -> str:
    """The partition that holds who reacted to a message."""
    return f"{chat}#{sequence}"


def reaction_key(chat: ChatId, sequence: int, emoji: str, user: UserKey) -> Item:
    """Where one reaction stands. A user has no `#`, so the last one ends the emoji."""
    return {"message_id": reactions_of(chat, sequence), "reaction": f"{emoji}#{user}"}


def to_reaction(item: Item) -> tuple[str, UserKey, int]:
    """Emoji, user and time."""
    emoji, _, user = item["reaction"].rpartition("#")
    return emoji, UserKey(user), item["created_at"]


# Members, receipts, heads.


def member_key(chat: ChatId, user: UserKey) -> Item:
    """Where a membership stands."""
    return {"chat_id": chat, "user_id": user}


def member_item(entry: Entry, person: Person) -> Item:
    """The membership that begins with this entry."""
    return {
        **member_key(entry.chat_id, person.user),
        "role": person.role,
        "joined_at": entry.created_at,
        "joined": entry.sequence,
    }


def to_member(item: Item) -> Member:
    """A membership."""
    return Member(item["role"], item["joined_at"], item["joined"])


def receipt_key(user: UserKey, chat: ChatId) -> Item:
    """Where a receipt stands."""
    return {"user_id": user, "chat_id": chat}


def receipt_item(entry: Entry, user: UserKey) -> Item:
    """The receipt of a user who joins with this entry; it says if the chat is the user's own.

    One that does not say so is from before chats were counted apart.
    """
    return {
        **receipt_key(user, entry.chat_id),
        "delivered": entry.sequence,
        "read": entry.sequence,
        "read_number": entry.number,
        "own": user == entry.sender,
    }


def to_receipt(item: Item) -> Receipt:
    """A receipt. Reading is also receiving: the marks are kept apart and compared here."""
    return Receipt(
        item["user_id"], max(item["delivered"], item["read"]), item["read"], item["read_number"]
    )


def pair_of(one: UserKey, other: UserKey) -> str:
    """Where the direct chat of two is claimed, whoever comes first."""
    first, second = sorted((one, other))
    return f"d#{first}#{second}"


def head_values(head: Head) -> dict[str, Any]:
    """The head as values of an expression."""
    return {
        ":sequence": head.sequence,
        ":number": head.number,
        ":last_message": head.last_message,
        ":active_at": head.active_at,
    }


def to_head(item: Item) -> Head:
    """The head of a head copy."""
    return Head(item["sequence"], item["number"], item["last_message"], item["active_at"])
