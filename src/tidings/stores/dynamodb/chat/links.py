# SPDX-License-Identifier: Apache-2.0
"""Builds the items that list replies to a message, pins of a chat, and mentions of a user."""

from tidings.model import limits
from tidings.model.entries import Entry, mention_position
from tidings.model.ids import ChatId
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.tables import TTL, mentions_of, ttl_seconds


def replies_of(chat: ChatId, sequence: int) -> str:
    """Return the partition of the replies to a message, in the table of reactions."""
    return f"{chat}#{sequence}#replies"


def reply_item(reply: Entry) -> Item:
    """Build the item that lists a message among the replies to another message."""
    assert reply.reply_to is not None
    replies = replies_of(reply.chat_id, reply.reply_to)
    return {"message_id": replies, "reaction": reply_place(reply.sequence)}


def reply_place(sequence: int) -> str:
    """Return the sort key of a reply, which has the order of the sequences."""
    return f"{sequence:016d}"


def pins_of(chat: ChatId) -> str:
    """Return the partition of the pinned messages of a chat, in the table of reactions."""
    return f"{chat}#pins"


def pin_key(chat: ChatId, pinned: int) -> Item:
    """Return the key of the item that lists a pinned message; `pinned` is the sequence of the entry
    that pinned it."""
    return {"message_id": pins_of(chat), "reaction": reply_place(pinned)}


def mention_items(entry: Entry) -> list[Item]:
    """Build the items that list a message among the mentions of each user whom it mentions."""
    until = entry.created_at + limits.MENTIONS_MS
    return [
        {
            "chat_id": mentions_of(user),
            "claim": mention_position(entry),
            "expires_at": until,
            TTL: ttl_seconds(until),
        }
        for user in entry.mentioned
    ]
