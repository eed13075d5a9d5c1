# SPDX-License-Identifier: Apache-2.0
"""Public records of entries, messages, chats, members and receipts, as clients see them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tidings.model import limits
from tidings.model.chats import (
    DIRECT_MEMBERS,
    ChatRow,
    ChatType,
    Receipt,
    ShownMember,
    Status,
    status,
)
from tidings.model.entries import Entry, Gone, Kind, Poster
from tidings.model.ids import rfc3339, user_id
from tidings.model.roles import Role
from tidings.model.unread_totals import UnreadTotal
from tidings.wire.file_records import AttachmentRecord, attachment_records


class EntryRecord(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One entry of a log."""

    chat: str
    sequence: int
    kind: Kind
    sender: str
    created_at: str
    message_id: str | None = None
    client_message_id: str | None = None
    content: str | None = None
    content_type: str | None = None
    expires_at: str | None = None
    edited_at: str | None = None
    redacted: bool = False
    expired: bool = False
    erased: bool = False
    target: int | None = None
    emoji: str | None = None
    users: list[str] | None = None
    role: Role | None = None
    name: str | None = None
    reactions: dict[str, int] | None = None
    reply_to: int | None = None
    reply_count: int = 0
    mentions: list[str] = []
    silent: bool = False
    posted_by: Poster | None = None
    frozen: bool | None = None
    slow_mode_seconds: int | None = None
    blocked: bool = False
    attachments: list[AttachmentRecord] = []


class ReactionCount(msgspec.Struct):
    """How many members reacted with an emoji, and whether the reader is one of them."""

    emoji: str
    count: int
    mine: bool


class MentionRecord(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A message without its status."""

    chat_id: str
    sequence: int
    message_id: str
    sender_id: str
    client_message_id: str
    content_type: str
    created_at: str
    reply_count: int
    """Number of messages that answer this one; it stops at 1000. Tombstones count."""
    content: str | None = None
    expires_at: str | None = None
    edited_at: str | None = None
    redacted: bool = False
    expired: bool = False
    erased: bool = False
    blocked: bool = False
    reactions: list[ReactionCount] | None = None
    reply_to: int | None = None
    """Sequence of the message that this one answers."""
    mentions: list[str] = []
    """User ids of the members whom the message mentions; `*` stands for everyone."""
    silent: bool = False
    posted_by: Poster | None = None
    """`tenant` if not the sender posted the message, but the tenant in the sender's name."""
    attachments: list[AttachmentRecord] = []


class MessageRecord(MentionRecord, omit_defaults=True, kw_only=True):
    """A message. If it has no content, it is redacted, expired or erased, or the reader blocks its
    sender, or it is the answer to a sender who has left the chat."""

    status: Status


class PinRecord(MessageRecord, omit_defaults=True, kw_only=True):
    """A pinned message, with the user who pinned it and the time."""

    pinned_by: str
    pinned_at: str


class LastMessage(msgspec.Struct, kw_only=True):
    """The newest message of a chat. The preview is empty if the message has only files. If its
    content is gone, the preview is null, and `gone` is the reason."""

    sequence: int
    sender_id: str
    preview: str | None
    gone: Gone | None
    created_at: str


class ShownUser(msgspec.Struct):
    """A user as chats show them. The values are at most a minute old."""

    user_id: str
    display_name: str | None
    avatar_url: str | None


class ChatRecord(msgspec.Struct, kw_only=True):
    """A chat as one member sees it."""

    chat_id: str
    type: ChatType
    name: str | None
    members: list[str]
    others: list[ShownUser]
    member_count: int
    role: Role
    created_at: str
    created_by: str
    updated_at: str
    last_activity_at: str
    last_message: LastMessage | None
    message_count: int
    unread: int
    unread_exact: bool
    unread_mentions: int
    marked_unread: bool
    hidden: bool
    muted_until: str | None
    mute_except_mentions: bool
    deleted_user: bool
    frozen: bool
    slow_mode_seconds: int


class MemberRecord(msgspec.Struct):
    """A member of a chat; `delivered` and `read` are sequences."""

    user_id: str
    role: Role
    joined_at: str
    display_name: str | None
    avatar_url: str | None
    delivered: int
    read: int
    read_at: str | None


class ReceiptRecord(msgspec.Struct):
    """The receipt of one member."""

    user_id: str
    delivered: int
    read: int


class UnreadTotalRecord(msgspec.Struct, kw_only=True):
    """Everything that a user has not read. `total` counts messages and notifications; `mentions`
    are among the messages."""

    chats: int
    messages: int
    mentions: int
    inboxes: dict[str, int]
    total: int
    exact: bool


class ReactionRecord(msgspec.Struct):
    """One member's reaction."""

    emoji: str
    user_id: str
    created_at: str


def entry_fields(entry: Entry) -> dict[str, object]:
    """Return the fields of an entry's record; the kind of the entry determines which these are."""
    fields: dict[str, object] = {
        "chat": entry.chat_id,
        "sequence": entry.sequence,
        "kind": entry.kind,
        "sender": user_id(entry.sender),
        "created_at": rfc3339(entry.created_at),
    }
    if entry.kind == "message":
        _add_message_fields(fields, entry)
    else:
        _add_change_fields(fields, entry)
    if entry.blocked:
        fields["blocked"] = True
        fields.pop("content", None)
    return fields


def _add_message_fields(fields: dict[str, object], entry: Entry) -> None:
    fields["message_id"] = entry.message_id
    fields["client_message_id"] = entry.client_message_id
    fields["content_type"] = entry.content_type
    if entry.gone is None:
        fields["content"] = entry.content
    else:
        fields[entry.gone] = True
    if entry.expires_at is not None:
        fields["expires_at"] = rfc3339(entry.expires_at)
    if entry.edited_at is not None:
        fields["edited_at"] = rfc3339(entry.edited_at)
    if entry.reactions and entry.gone is None:
        fields["reactions"] = entry.reactions
    fields["reply_to"] = entry.reply_to
    fields["reply_count"] = entry.reply_count
    fields["mentions"] = list(entry.mentions) if entry.gone is None else []
    fields["silent"] = entry.silent
    fields["posted_by"] = entry.posted_by
    fields["attachments"] = attachment_records(entry)


def _add_change_fields(fields: dict[str, object], entry: Entry) -> None:
    shown = entry.shown or entry
    if entry.target is not None:
        fields["target"] = entry.target
    if entry.kind == "edited":
        fields["content"] = shown.content
        fields["content_type"] = shown.content_type
    if entry.emoji is not None:
        fields["emoji"] = entry.emoji
    if entry.people:
        fields["users"] = [user_id(person.user) for person in entry.people]
        if entry.kind in ("added", "role"):
            fields["role"] = entry.people[0].role
    if entry.name is not None:
        fields["name"] = entry.name
    if entry.settings is not None:
        fields["frozen"] = entry.settings.frozen
        fields["slow_mode_seconds"] = entry.settings.slow_mode_seconds


def entry_record(entry: Entry) -> EntryRecord:
    """Return the record of an entry, as the REST API returns it."""
    return EntryRecord(**entry_fields(entry))  # type: ignore[arg-type]


def message_record(entry: Entry, receipts: Sequence[Receipt]) -> MessageRecord:
    """Return the record of a message with its status; `receipts` is empty in a large chat."""
    shown = status(entry.sequence, entry.sender, receipts)
    return MessageRecord(**_message_fields(entry), status=shown)


def pin_record(entry: Entry, pin: Entry, receipts: Sequence[Receipt]) -> PinRecord:
    """Return the record of a message that the entry `pin` pinned."""
    return PinRecord(
        **_message_fields(entry),
        status=status(entry.sequence, entry.sender, receipts),
        pinned_by=user_id(pin.sender),
        pinned_at=rfc3339(pin.created_at),
    )


def mention_record(entry: Entry) -> MentionRecord:
    """Return the record of a message in a list of mentions."""
    return MentionRecord(**_message_fields(entry))


def _message_fields(entry: Entry) -> dict[str, Any]:
    assert entry.kind == "message"
    return {
        "chat_id": entry.chat_id,
        "sequence": entry.sequence,
        "message_id": entry.message_id,
        "sender_id": user_id(entry.sender),
        "client_message_id": entry.client_message_id,
        "content_type": entry.content_type or "text/plain",
        "created_at": rfc3339(entry.created_at),
        "content": entry.content,
        "expires_at": _time(entry.expires_at),
        "edited_at": _time(entry.edited_at),
        "redacted": entry.gone == "redacted",
        "expired": entry.gone == "expired",
        "erased": entry.gone == "erased",
        "blocked": entry.blocked,
        "reactions": [
            ReactionCount(emoji, count, emoji in entry.mine)
            for emoji, count in entry.reactions.items()
        ]
        if entry.reactions and entry.gone is None
        else None,
        "reply_to": entry.reply_to,
        "reply_count": entry.reply_count,
        "mentions": list(entry.mentions) if entry.gone is None else [],
        "silent": entry.silent,
        "posted_by": entry.posted_by,
        "attachments": attachment_records(entry),
    }


def sent_record(entry: Entry) -> MessageRecord:
    """Return the record of a message without content, for a sender who has left the chat."""
    sent = Entry(
        chat_id=entry.chat_id,
        kind="message",
        sender=entry.sender,
        sequence=entry.sequence,
        created_at=entry.created_at,
        client_message_id=entry.client_message_id,
        content_type=entry.content_type,
    )
    return message_record(sent, ())


def chat_record(row: ChatRow) -> ChatRecord:
    """Return the record of a chat in a chat list; its last message must be decrypted already."""
    return ChatRecord(
        chat_id=row.chat_id,
        type=row.type,
        name=row.name,
        members=[user_id(user) for user in row.others],
        others=[
            ShownUser(user_id(shown.user), shown.display_name, shown.avatar_url)
            for shown in row.profiles
        ],
        member_count=row.member_count,
        role=row.role,
        created_at=rfc3339(row.created_at),
        created_by=user_id(row.creator),
        updated_at=rfc3339(row.updated_at),
        last_activity_at=rfc3339(row.head.active_at),
        last_message=_last_message(row.last) if row.last else None,
        message_count=row.head.number,
        unread=row.unread.count,
        unread_exact=row.unread.exact,
        unread_mentions=row.unread.mentions,
        marked_unread=row.receipt.is_marked_unread,
        hidden=row.is_hidden,
        muted_until=_time(row.muted_until),
        mute_except_mentions=row.except_mentions,
        deleted_user=row.type == "direct" and row.member_count < DIRECT_MEMBERS,
        frozen=row.settings.frozen,
        slow_mode_seconds=row.settings.slow_mode_seconds,
    )


def member_record(shown: ShownMember) -> MemberRecord:
    """Return the record of a member."""
    profile, receipt = shown.profile, shown.receipt.receipt
    return MemberRecord(
        user_id=user_id(profile.user),
        role=shown.member.role,
        joined_at=rfc3339(shown.member.joined_at),
        display_name=profile.display_name,
        avatar_url=profile.avatar_url,
        delivered=receipt.delivered,
        read=receipt.read,
        read_at=_time(shown.receipt.read_at(receipt.read)),
    )


def total_fields(total: UnreadTotal) -> dict[str, Any]:
    """Return the fields that the record and the frame of the unread total have in common."""
    return {"total": total.total, **msgspec.structs.asdict(total)}


def _last_message(entry: Entry) -> LastMessage:
    return LastMessage(
        sequence=entry.sequence,
        sender_id=user_id(entry.sender),
        preview=None if entry.content is None else entry.content[: limits.PREVIEW_CHARS_MAX],
        gone=entry.gone,
        created_at=rfc3339(entry.created_at),
    )


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else rfc3339(time_ms)
