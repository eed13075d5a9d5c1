# SPDX-License-Identifier: Apache-2.0
"""Convert entries from the wire to the events that the application gets."""

from datetime import datetime
from typing import TypedDict

import msgspec

from tidings_client.events import (
    ChatCreated,
    ChatDeleted,
    Edited,
    MemberAdded,
    MemberRemoved,
    Message,
    OtherEntry,
    Pinned,
    Reacted,
    Redacted,
    Renamed,
    RoleChanged,
    SettingsChanged,
    Unpinned,
    Unreacted,
    WhyGone,
)
from tidings_client.frames import Entry

AnyEntryEvent = (
    Message
    | Edited
    | Redacted
    | Reacted
    | Unreacted
    | Pinned
    | Unpinned
    | MemberAdded
    | MemberRemoved
    | RoleChanged
    | Renamed
    | SettingsChanged
    | ChatCreated
    | ChatDeleted
    | OtherEntry
)


class History(msgspec.Struct, frozen=True):
    """A part of a chat's log, oldest entry first."""

    entries: list[AnyEntryEvent]
    head: int
    """The sequence of the newest entry of the chat."""
    more: bool
    """Whether there are more entries in the requested direction."""


class _Place(TypedDict):
    chat: str
    sequence: int
    sender: str
    created_at: datetime


def event_of(entry: Entry) -> AnyEntryEvent:
    """Return the event for an entry; an entry that lacks a necessary field is an `OtherEntry`."""
    place = _Place(
        chat=entry.chat,
        sequence=entry.sequence,
        sender=entry.sender,
        created_at=entry.created_at,
    )
    match entry:
        case Entry(kind="message", message_id=str(), client_message_id=str()):
            return _message(entry, place)
        case Entry(kind="edited", target=int(target)):
            return Edited(
                **place, target=target, content=entry.content, content_type=entry.content_type
            )
        case Entry(kind="redacted", target=int(target)):
            return Redacted(**place, target=target)
        case Entry(kind="reacted", target=int(target), emoji=str(emoji)):
            return Reacted(**place, target=target, emoji=emoji)
        case Entry(kind="unreacted", target=int(target), emoji=str(emoji)):
            return Unreacted(**place, target=target, emoji=emoji)
        case Entry(kind="pinned", target=int(target)):
            return Pinned(**place, target=target)
        case Entry(kind="unpinned", target=int(target)):
            return Unpinned(**place, target=target)
        case _:
            return _of_the_chat(entry, place)


def _of_the_chat(entry: Entry, place: _Place) -> AnyEntryEvent:
    users = entry.users or []
    match entry:
        case Entry(kind="added", role=str(role)):
            return MemberAdded(**place, users=users, role=role)
        case Entry(kind="removed"):
            return MemberRemoved(**place, users=users)
        case Entry(kind="role", role=str(role)):
            return RoleChanged(**place, users=users, role=role)
        case Entry(kind="renamed", name=str(name)):
            return Renamed(**place, name=name)
        case Entry(kind="settings", frozen=bool(frozen), slow_mode_seconds=int(seconds)):
            return SettingsChanged(**place, frozen=frozen, slow_mode_seconds=seconds)
        case Entry(kind="deleted"):
            return ChatDeleted(**place)
        case Entry(kind="created"):
            return ChatCreated(**place, users=users, name=entry.name)
        case _:
            return OtherEntry(**place, kind=entry.kind)


def _message(entry: Entry, place: _Place) -> Message:
    assert entry.message_id is not None
    assert entry.client_message_id is not None
    return Message(
        **place,
        message_id=entry.message_id,
        client_message_id=entry.client_message_id,
        content=entry.content,
        content_type=entry.content_type or "text/plain",
        expires_at=entry.expires_at,
        edited_at=entry.edited_at,
        gone=_why_gone(entry),
        blocked=entry.blocked,
        reactions=entry.reactions or {},
        reply_to=entry.reply_to,
        reply_count=entry.reply_count,
        mentions=entry.mentions,
        silent=entry.silent,
        posted_by=entry.posted_by,
        attachments=entry.attachments,
    )


def _why_gone(entry: Entry) -> WhyGone | None:
    if entry.redacted:
        return "redacted"
    if entry.expired:
        return "expired"
    return "erased" if entry.erased else None
