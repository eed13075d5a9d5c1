# SPDX-License-Identifier: Apache-2.0
"""The events that an application gets from its client, one type for each."""

from collections.abc import Callable
from datetime import datetime
from typing import Literal

import msgspec

from tidings_client.notifications import (
    InboxMissed,
    InboxStateChanged,
    InboxUnreadChanged,
    Notification,
    NotificationRetracted,
)

WhyGone = Literal["redacted", "expired", "erased"]
"""Why a message no longer has content."""


class EntryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a chat's log. The entries of a chat come in order, without gaps, each once."""

    chat: str
    sequence: int
    sender: str
    created_at: datetime


class Thumbnail(msgspec.Struct, frozen=True):
    """The small image that stands for a file."""

    content_type: str
    size: int


class Attachment(msgspec.Struct, frozen=True):
    """A file of a message. Name, type, width and height are as its sender says."""

    attachment_id: str
    name: str
    content_type: str
    size: int
    width: int | None = None
    height: int | None = None
    thumbnail: Thumbnail | None = None


class Message(EntryEvent, frozen=True, kw_only=True):
    """A message. The user's own messages are included, at their position in the log."""

    message_id: str
    client_message_id: str
    content: str | None
    """None if the content is gone; `gone` gives the reason."""
    content_type: str
    expires_at: datetime | None = None
    edited_at: datetime | None = None
    gone: WhyGone | None = None
    blocked: bool = False
    """Whether the user blocks the sender; the message then has no content."""
    reactions: dict[str, int] = {}
    reply_to: int | None = None
    """Sequence of the message that this one answers."""
    reply_count: int = 0
    """Number of replies when the entry was sent; a later `Message` with `reply_to` adds one."""
    mentions: tuple[str, ...] = ()
    """User ids of the members whom the message mentions, or `("*",)` for everyone."""
    silent: bool = False
    posted_by: str | None = None
    """`tenant` if not the sender posted the message, but the tenant in the sender's name."""
    attachments: tuple[Attachment, ...] = ()


class Edited(EntryEvent, frozen=True, kw_only=True):
    """The message with the sequence `target` was edited.

    `content` is its current content; None if it is gone.
    """

    target: int
    content: str | None
    content_type: str | None


class Redacted(EntryEvent, frozen=True, kw_only=True):
    """The content of the message with the sequence `target` was removed for everyone."""

    target: int


class Reacted(EntryEvent, frozen=True, kw_only=True):
    """The sender reacted with an emoji to the message with the sequence `target`."""

    target: int
    emoji: str


class Unreacted(EntryEvent, frozen=True, kw_only=True):
    """The sender removed a reaction from the message with the sequence `target`."""

    target: int
    emoji: str


class Pinned(EntryEvent, frozen=True, kw_only=True):
    """The sender pinned the message with the sequence `target`."""

    target: int


class Unpinned(EntryEvent, frozen=True, kw_only=True):
    """The sender unpinned the message with the sequence `target`."""

    target: int


class MemberAdded(EntryEvent, frozen=True, kw_only=True):
    """These users joined the chat."""

    users: list[str]
    role: str


class MemberRemoved(EntryEvent, frozen=True, kw_only=True):
    """These users left the chat or were removed."""

    users: list[str]


class RoleChanged(EntryEvent, frozen=True, kw_only=True):
    """These users got another role."""

    users: list[str]
    role: str


class Renamed(EntryEvent, frozen=True, kw_only=True):
    """The chat got another name."""

    name: str


class SettingsChanged(EntryEvent, frozen=True, kw_only=True):
    """The tenant froze the chat, or changed its slow mode."""

    frozen: bool
    slow_mode_seconds: int


class ChatDeleted(EntryEvent, frozen=True, kw_only=True):
    """The chat was deleted, and this is its last entry.

    Nobody can write in the chat; after the deletion has finished, nobody can read it.
    """


class ChatCreated(EntryEvent, frozen=True, kw_only=True):
    """The first entry of a chat."""

    users: list[str]
    name: str | None


class OtherEntry(EntryEvent, frozen=True, kw_only=True):
    """An entry of a kind that this version of the client does not know."""

    kind: str


class ChatResynced(msgspec.Struct, frozen=True, kw_only=True):
    """Too many entries were missing. The application must drop its entries of the chat.

    The entries from `start` on follow as events; `Client.history` returns earlier ones.
    """

    chat: str
    start: int


class ChatGone(msgspec.Struct, frozen=True, kw_only=True):
    """The chat does not exist, or is no longer the user's."""

    chat: str


class ReceiptMoved(msgspec.Struct, frozen=True, kw_only=True):
    """The sequences up to which another member, or the user on another device, has received and
    read a chat."""

    chat: str
    user: str
    delivered: int
    read: int


class Typing(msgspec.Struct, frozen=True, kw_only=True):
    """A member is typing. The application should show this for six seconds."""

    chat: str
    user: str


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who shares a small chat with the user came online or went offline."""

    user: str
    online: bool
    last_seen: datetime | None


class ProfileChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The user, or somebody who shares a small chat with the user, has a new name or avatar."""

    user: str
    display_name: str | None
    avatar_url: str | None


class UnreadChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The unread count of a chat changed, but not because of a new entry."""

    chat: str
    unread: int
    exact: bool
    mentions: int = 0
    """How many of the unread messages mention the user."""


class UnreadTotalChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The number of unread messages and notifications; upper bounds unless `exact`.

    The event comes after each connect and after each change, if the client was created with
    `totals=True`.
    """

    chats: int
    messages: int
    mentions: int
    inboxes: dict[str, int]
    total: int
    exact: bool


class ScheduledFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduled message of the user could not be sent at its time."""

    chat: str
    scheduled_id: str
    code: str
    """Code of the refusal, such as `chat.not_found`."""


class Invited(msgspec.Struct, frozen=True, kw_only=True):
    """Another user invites the user into a group; `api.invites` lists all open invitations."""

    chat: str
    user: str
    """Who invites."""


class ChatChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The user marked the chat as unread, hid it or muted it, on this device or another one."""

    chat: str | None
    """None if the user blocked somebody or ended a block, which may change all chats."""


class ChatHead(msgspec.Struct, frozen=True, kw_only=True):
    """The last sequence of a chat that this client does not follow."""

    chat: str
    head: int


class ContentErased(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that some users wrote was erased, and the application must drop its copies.

    Later events do not contain the erased content.
    """

    all: bool
    """Whether all content must be dropped, because too much was erased to list it."""
    covers: Callable[[str, datetime], bool]
    """Returns whether the content of a message must be dropped, given its `sender` and
    `created_at`."""


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """The client is connected. All missed entries came before this event."""

    user: str
    device: str


class Disconnected(msgspec.Struct, frozen=True, kw_only=True):
    """The connection is lost. `retry_in` is None if the client does not reconnect."""

    code: int | None
    reason: str
    retry_in: float | None


class SendFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the outbox has failed for good, and no call of `send` is waiting for it."""

    chat: str
    client_message_id: str
    content: str
    code: str
    detail: str


Event = (
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
    | ChatDeleted
    | ChatCreated
    | OtherEntry
    | ChatResynced
    | ChatGone
    | ReceiptMoved
    | Typing
    | Presence
    | ProfileChanged
    | UnreadChanged
    | UnreadTotalChanged
    | ChatChanged
    | ScheduledFailed
    | Invited
    | Notification
    | NotificationRetracted
    | InboxUnreadChanged
    | InboxMissed
    | InboxStateChanged
    | ChatHead
    | ContentErased
    | Connected
    | Disconnected
    | SendFailed
)
