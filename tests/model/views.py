# SPDX-License-Identifier: Apache-2.0
"""What a user gets to see, in plain values: once from the reference, once from the product."""

from typing import Any

from tests.model.reference import Room
from tidings.model.chats import ChatRow
from tidings.model.entries import Entry

View = dict[str, Any]


def entry_of_reference(room: Room, sequence: int, reader: str, now: int) -> View:
    """One entry of the log."""
    line = room.log[sequence - 1]
    source = room.log[line.target - 1] if line.kind == "edited" and line.target else line
    gone = source.gone(now)
    emoji_given = [emoji for emoji, _ in line.reactions]
    return {
        "sequence": sequence,
        "kind": line.kind,
        "sender": line.sender,
        "created_at": line.at,
        "number": room.number(sequence),
        "content": None if gone or (reader, line.sender) in room.blocks else source.content,
        "blocked": (reader, line.sender) in room.blocks,
        "gone": gone,
        "client_message_id": line.cmid,
        "expires_at": line.expires_at,
        "edited_at": line.edited_at,
        "reactions": {emoji: emoji_given.count(emoji) for emoji in emoji_given},
        "mine": sorted(emoji for emoji, user in line.reactions if user == reader),
        "target": line.target,
        "emoji": line.emoji,
        "people": line.people,
        "name": line.name,
        "reply_to": line.reply_to,
        "reply_count": len(room.replies(sequence)),
        "mentions": [] if gone else line.mentions,
        "pinned": line.pinned,
        "posted_by": "tenant" if line.is_by_tenant else None,
        "files": [] if gone or (reader, line.sender) in room.blocks else list(line.files),
    }


def entry_of_product(entry: Entry) -> View:
    """The same of the product's entry, its content opened."""
    source = entry.shown if entry.kind == "edited" else entry
    assert source is not None
    return {
        "sequence": entry.sequence,
        "kind": entry.kind,
        "sender": entry.sender,
        "created_at": entry.created_at,
        "number": entry.number,
        "content": source.content,
        "blocked": entry.blocked,
        "gone": source.gone,
        "client_message_id": entry.client_message_id,
        "expires_at": entry.expires_at,
        "edited_at": entry.edited_at,
        "reactions": entry.reactions or {},
        "mine": list(entry.mine),
        "target": entry.target,
        "emoji": entry.emoji,
        "people": [(person.user, person.role) for person in entry.people],
        "name": entry.name,
        "reply_to": entry.reply_to,
        "reply_count": entry.reply_count,
        "mentions": [] if entry.gone else list(entry.mentions),
        "pinned": entry.pinned,
        "posted_by": entry.posted_by,
        "files": [file.attachment_id for file in entry.attachments],
    }


def row_of_reference(chat: str, room: Room, user: str, now: int) -> View:
    """A chat in the user's list."""
    member = room.members[user]
    last = max((sequence for sequence, _ in room.messages()), default=0)
    others = sorted((other.joined, name) for name, other in room.members.items() if name != user)
    return {
        "chat": chat,
        "type": room.kind,
        "name": room.name,
        "others": [name for _, name in others],
        "member_count": len(room.members),
        "role": member.role,
        "muted_until": member.muted_until,
        "head": len(room.log),
        "number": room.number(len(room.log)),
        "active_at": room.active_at(),
        "last": entry_of_reference(room, last, user, now)["content"] if last else None,
        "last_sequence": last,
        "unread": (room.unread(user, member.read, now), True),
        "mentions": room.unread_mentions(user, member.read, now),
        "marked_unread": member.unread_from > 0,
        "hidden": room.is_hidden(user),
        "settings": (room.frozen, room.slow_mode_seconds),
    }


def row_of_product(row: ChatRow) -> View:
    """The same of the product's row, its last message opened."""
    return {
        "chat": row.chat_id,
        "type": row.type,
        "name": row.name,
        "others": list(row.others),
        "member_count": row.member_count,
        "role": row.role,
        "muted_until": row.muted_until,
        "head": row.head.sequence,
        "number": row.head.number,
        "active_at": row.head.active_at,
        "last": row.last.content if row.last else None,
        "last_sequence": row.last.sequence if row.last else 0,
        "unread": (row.unread.count, row.unread.exact),
        "mentions": row.unread.mentions,
        "marked_unread": row.receipt.is_marked_unread,
        "hidden": row.is_hidden,
        "settings": (row.settings.frozen, row.settings.slow_mode_seconds),
    }
