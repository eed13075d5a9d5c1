# SPDX-License-Identifier: Apache-2.0
"""Converts entries, keys, reactions, members, receipts and heads to items and back.

An item is billed by its size, which includes the names of its attributes. Empty fields are
therefore left out, and so are fields of a message that can be derived from its other fields.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tidings.model import limits
from tidings.model.attachments import files_from_bytes, files_to_bytes
from tidings.model.chat_settings import ChatSettings, settings_of
from tidings.model.chats import Receipt, ReceiptWithTimes
from tidings.model.entries import Entry, Head, Person, SendKey
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipt_times import (
    DELIVERED_TIMES_MAX,
    READ_TIMES_MAX,
    MarkTimes,
    in_order,
    thinned,
)
from tidings.model.roles import Member
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

PLAIN_TEXT: Final = "text/plain"
_SECONDS_MAX: Final = 10**10
"""A number larger than every time in seconds. One stored number can therefore contain a sequence,
multiplied by this number, and a time."""
PREVIEW_BOX_BYTES_MAX: Final = 268
"""Limit on the encrypted content that is copied for previews: 240 bytes of text."""
_UNIT_BYTES: Final = 1_024
"""Writing an item of at most this size costs one unit. No copy makes an item larger."""
_ROW_BYTES_MAX: Final = 440
"""Maximum size of a direct chat's row, without the two users and the copied message."""
_GROUP_BYTES_MAX: Final = 240
"""Maximum size of a group's item, without its texts and the copied message."""

_ALWAYS: Final = ("chat_id", "sequence", "kind", "sender", "created_at", "number", "mark")
_IF_ANY: Final = (
    "client_message_id", "expires_at", "edited_at", "redacted", "reactions", "target", "emoji",
    "name", "digest", "reply_to", "reply_count", "pinned", "silent",
    "posted_by", "files",
)  # fmt: skip
BODY: Final = "body_id"
"""Attribute of an expiring message that names its body, a separate item with the content."""


# Entries.


def entry_item(entry: Entry, body_id: str | None = None) -> Item:
    """Convert a new entry to its item; with a `body_id`, the content is stored in that body."""
    item: Item = {name: getattr(entry, name) for name in _ALWAYS}
    for name in _IF_ANY:
        if value := getattr(entry, name):
            item[name] = value
    is_message = entry.kind == "message"
    if entry.content_type is not None and not (is_message and entry.content_type == PLAIN_TEXT):
        item["content_type"] = entry.content_type
    if entry.mentions:
        item["mentions"] = list(entry.mentions)
    if entry.people:
        item["people"] = [{"user": person.user, "role": person.role} for person in entry.people]
    if entry.settings is not None:
        item |= settings_item(entry.settings)
    if not is_message:
        item["last_message"], item["active_at"] = entry.last_message, entry.active_at
    else:
        # The key is also needed to count unread messages, which reads no bodies.
        item["box_key"] = entry.box_key
        item["box" if body_id is None else BODY] = entry.box if body_id is None else body_id
        if body_id is not None and entry.files is not None:
            # The ids stay, because a redaction or deletion looks for them.
            item["files"] = files_to_bytes(replace(files_from_bytes(entry.files), box=b""))
    return item


def to_entry(item: Item) -> Entry:
    """Convert a stored item to an `Entry`, without the content of an expiring message."""
    fields = {name: item[name] for name in _ALWAYS}
    for name in _IF_ANY:
        if name in item:
            fields[name] = item[name]
    is_message = item["kind"] == "message"
    if "mentions" in item:
        fields["mentions"] = tuple(item["mentions"])
    if "people" in item:
        fields["people"] = tuple(Person(each["user"], each["role"]) for each in item["people"])
    if item["kind"] == "settings":
        fields["settings"] = to_settings(item)
    return Entry(
        **fields,
        content_type=item.get("content_type", PLAIN_TEXT if is_message else None),
        last_message=item["sequence"] if is_message else item["last_message"],
        active_at=item["created_at"] if is_message else item["active_at"],
        box=item.get("box"),
        box_key=item.get("box_key", 0),
    )


def settings_item(settings: ChatSettings) -> Item:
    """Return the attributes for the settings of a chat, in its item, its rows and its entries."""
    return {"frozen": settings.frozen, "slow_mode_seconds": settings.slow_mode_seconds}


def to_settings(item: Item) -> ChatSettings:
    """Return the settings in an item; a chat whose settings were never changed has none there."""
    return settings_of(item.get("frozen", False), item.get("slow_mode_seconds", 0))


def head_of_item(item: Item) -> Head:
    """Return the head of a log that ends with this entry's item."""
    is_message = item["kind"] == "message"
    return Head(
        item["sequence"],
        item["number"],
        item["sequence"] if is_message else item["last_message"],
        item["created_at"] if is_message else item["active_at"],
    )


def entry_key(chat: ChatId, sequence: int) -> Item:
    """Return the key of an entry's item."""
    return {"chat_id": chat, "sequence": sequence}


def body_item(entry: Entry, body_id: str) -> Item:
    """Build the item with the content of an expiring message."""
    assert entry.expires_at is not None
    files = {} if entry.files is None else {"files": entry.files}
    return {
        **body_key(entry.chat_id, body_id),
        **files,
        "box": entry.box,
        "box_key": entry.box_key,
        "expires_at": entry.expires_at,
        TTL: ttl_seconds(entry.expires_at),
    }


def body_key(chat: ChatId, body_id: str) -> Item:
    """Return the key of the item with the content of an expiring message."""
    return {"chat_id": chat, "body_id": body_id}


# Keys and reactions.


def claim_key(chat: ChatId, key: SendKey) -> Item:
    """Return the key of the item with which a send claims its idempotency key.

    Neither the sender nor the client's message id contains a `#`, so no two sends share a key.
    """
    return {"chat_id": chat, "claim": f"{key.sender}#{key.client_message_id}"}


def claim_item(chat: ChatId, key: SendKey, entry: Entry) -> Item:
    """Build the item of a claimed idempotency key.

    Its attribute `hint` says where to search for the message: at this sequence or after it.
    """
    return {
        **claim_key(chat, key),
        "hint": entry.sequence if key.after is None else min(entry.sequence, key.after + 1),
        "digest": key.digest,
        "mark": entry.mark,
        "expires_at": key.expires_at,
        TTL: ttl_seconds(key.expires_at),
    }


def reactions_of(chat: ChatId, sequence: int) -> str:
    """Return the partition of the reactions to a message."""
    return f"{chat}#{sequence}"


def reaction_key(chat: ChatId, sequence: int, emoji: str, user: UserKey) -> Item:
    """Return the key of a reaction. No user key contains a `#`, so the last `#` ends the emoji."""
    return {"message_id": reactions_of(chat, sequence), "reaction": f"{emoji}#{user}"}


def to_reaction(item: Item) -> tuple[str, UserKey, int]:
    """Convert a stored item to (emoji, user, time)."""
    emoji, _, user = item["reaction"].rpartition("#")
    return emoji, UserKey(user), item["created_at"]


# Members, receipts, heads.


def member_key(chat: ChatId, user: UserKey) -> Item:
    """Return the key of a membership's item."""
    return {"chat_id": chat, "user_id": user}


def member_item(entry: Entry, person: Person) -> Item:
    """Build the item of a membership that begins with this entry."""
    return {
        **member_key(entry.chat_id, person.user),
        "role": person.role,
        "joined_at": entry.created_at,
        "joined": entry.sequence,
    }


def to_member(item: Item) -> Member:
    """Convert a stored item to a `Member`."""
    return Member(item["role"], item["joined_at"], item["joined"])


def receipt_key(user: UserKey, chat: ChatId) -> Item:
    """Return the key of a receipt's item."""
    return {"user_id": user, "chat_id": chat}


def receipt_item(entry: Entry, user: UserKey, peer: UserKey | None = None) -> Item:
    """Build the receipt item of a user who joins the chat with this entry.

    Its attribute `own` says whether the user created the chat or wrote in it. Its attribute `peer`
    is the other user of a direct chat. Receipts from older versions have neither attribute.
    """
    floor = times_to_numbers([(entry.sequence, entry.created_at // limits.SECOND_MS)])
    item = {
        **receipt_key(user, entry.chat_id),
        "delivered": entry.sequence,
        "read": entry.sequence,
        "read_number": entry.number,
        "own": user == entry.sender,
        "deliveries": floor,
        "reads": floor,
    }
    return (
        item
        if peer is None
        else {**item, **direct_facts(user, peer, entry.sender, entry.created_at)}
    )


def direct_facts(user: UserKey, peer: UserKey, creator: UserKey, created_at: int) -> Item:
    """Return the attributes that describe a direct chat in the receipt row of a user."""
    facts = {"peer": peer, "is_creator": user == creator, "created_at": created_at}
    return facts if creator in (user, peer) else {**facts, "creator": creator}


def chat_of_row(row: Item) -> Item:
    """Convert the row of a direct chat to the form of a chat's item, with all fields that a chat
    list needs."""
    peers = [] if row.get("is_alone") else [row["peer"]]
    return {
        "creator": row["user_id"] if row["is_creator"] else row["peer"],
        **row,
        "type": "direct",
        "member_count": 1 + len(peers),
        "first_members": peers,
        "as_of": 1,
    }


def to_receipt(item: Item) -> Receipt:
    """Convert a stored item to a `Receipt`; everything that was read is also treated as
    received."""
    return Receipt(
        item["user_id"],
        max(item["delivered"], item["read"]),
        item["read"],
        item["read_number"],
        item.get("unread_from", 0),
        item.get("unread_number", 0),
        item.get("hidden_number", -1),
        item.get("pushed", 0),
    )


def times_to_numbers(times: MarkTimes) -> list[int]:
    """Convert the times of a receipt to one number each, for storage as a list.

    DynamoDB can append to a list without reading it.
    """
    return [sequence * _SECONDS_MAX + second for sequence, second in times]


def to_times(numbers: Iterable[int] | None, most: int) -> list[tuple[int, int]]:
    """Convert a stored list of a receipt to pairs of a sequence and a time, ascending.

    Returns at most `most` pairs and one more, the oldest, before which times are unknown. A stored
    list may be longer; see `model.receipt_times`.
    """
    return thinned(in_order([divmod(number, _SECONDS_MAX) for number in numbers or ()]), most)


def to_receipt_with_times(item: Item, joined: int) -> ReceiptWithTimes:
    """Convert a stored item to a receipt with the times at which it moved."""
    return ReceiptWithTimes(
        to_receipt(item),
        joined,
        to_times(item.get("deliveries"), DELIVERED_TIMES_MAX),
        to_times(item.get("reads"), READ_TIMES_MAX),
    )


def pair_of(one: UserKey, other: UserKey) -> str:
    """Return the key that claims the direct chat of two users; their order does not matter."""
    first, second = sorted((one, other))
    return f"d#{first}#{second}"


def head_values(head: Head) -> dict[str, Any]:
    """Convert a head to the values for an update expression."""
    return {
        ":sequence": head.sequence,
        ":number": head.number,
        ":last_message": head.last_message,
        ":active_at": head.active_at,
    }


def to_head(item: Item) -> Head:
    """Return the copied head in an item."""
    return Head(item["sequence"], item["number"], item["last_message"], item["active_at"])


# Previews.


class CopiedMessage(msgspec.Struct, frozen=True, array_like=True):
    """The copy of a message that a chat list shows, with its content still encrypted."""

    sequence: int
    sender: UserKey
    created_at: int
    client_message_id: str | None
    box: bytes | None
    """None if the content is not copied: it is too long, it expires, or it is gone."""
    box_key: int


def last_message_of(entry: Entry) -> CopiedMessage:
    """Return the copy of a message; the content of an expiring message is never copied."""
    # A row has the ids of both users, and the copy has that of the sender.
    ids = 3 * len(entry.sender) + len(entry.client_message_id or "")
    most = min(PREVIEW_BOX_BYTES_MAX, _UNIT_BYTES - _ROW_BYTES_MAX - ids)
    is_short = entry.box is not None and len(entry.box) <= most
    return CopiedMessage(
        entry.sequence,
        entry.sender,
        entry.created_at,
        entry.client_message_id,
        entry.box if is_short and entry.expires_at is None and not entry.redacted else None,
        entry.box_key,
    )


def room_in(chat: Item) -> int:
    """Return how many bytes the copy of a message may take in the item of a group."""
    texts = [chat["tenant"], chat["creator"], chat.get("name", ""), *chat["first_members"]]
    return _UNIT_BYTES - _GROUP_BYTES_MAX - sum(len(text.encode()) + 1 for text in texts)


def packed(last: CopiedMessage) -> bytes:
    """Pack the copy of a message into the bytes of one attribute."""
    return _pack.encode(last)


def to_last_message(item: Item) -> Entry | None:
    """Return the copied message in an item; None if the message must be read from the log.

    A copy is valid only if it is the last message of the head beside it, and if the message was not
    changed after it was sent. The attribute `touched` is the sequence of the last message that was
    changed.
    """
    if PREVIEW not in item:
        return None
    last = _unpack.decode(item[PREVIEW])
    if last.sequence != item["last_message"] or last.sequence <= item.get("touched", 0):
        return None
    return Entry(
        chat_id=item["chat_id"],
        kind="message",
        sender=last.sender,
        sequence=last.sequence,
        created_at=last.created_at,
        number=item["number"],  # the number of messages, of which this is the last
        last_message=last.sequence,
        active_at=last.created_at,
        client_message_id=last.client_message_id,
        box=last.box,
        box_key=last.box_key,
    )


PREVIEW: Final = "preview"
_pack: Final = msgspec.msgpack.Encoder()
_unpack: Final = msgspec.msgpack.Decoder(CopiedMessage)
