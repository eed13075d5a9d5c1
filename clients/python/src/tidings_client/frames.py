# SPDX-License-Identifier: Apache-2.0
"""The frames of the socket in both directions, and their codec."""

from datetime import datetime
from typing import Any

import msgspec

from tidings_client.events import Attachment
from tidings_client.notifications import Action, InboxStateChanged

SEQUENCE_MAX = 2**53 - 1
"""The largest possible sequence; a fetch `before` it returns the newest page of any log."""

# Client to server.


class Hello(msgspec.Struct, tag_field="op", tag="hello", omit_defaults=True):
    """The first frame: the client's token and device, and the entries that it has."""

    token: str
    device: str | None = None
    epoch: str | None = None
    have: dict[str, int] | None = None
    erasures: int | None = None
    client: str | None = None
    catch_up: str | None = None
    inboxes: dict[str, str | None] | None = None
    totals: bool = False


class Send(msgspec.Struct, tag_field="op", tag="send", omit_defaults=True):
    """Post a message."""

    id: str
    chat: str
    client_message_id: str
    content: str
    content_type: str | None = None
    ttl_seconds: int | None = None
    after: int | None = None
    reply_to: int | None = None
    mentions: tuple[str, ...] = ()
    silent: bool = False
    attachments: tuple[str, ...] = ()


class Received(msgspec.Struct, tag_field="op", tag="received"):
    """Report that this device has received all entries of the chat up to the sequence."""

    chat: str
    sequence: int


class Read(msgspec.Struct, tag_field="op", tag="read"):
    """Report that the user has read the chat up to the sequence."""

    chat: str
    sequence: int


class TypingFrame(msgspec.Struct, tag_field="op", tag="typing"):
    """Report that the user is typing."""

    chat: str


class Fetch(msgspec.Struct, tag_field="op", tag="fetch", omit_defaults=True):
    """Request a part of a log: the entries after `after`, or the newest before `before`."""

    id: str
    chat: str
    limit: int
    after: int | None = None
    before: int | None = None


class Follow(msgspec.Struct, tag_field="op", tag="follow", omit_defaults=True):
    """Request the entries of a chat after the sequence `after`, and all new entries."""

    chat: str
    after: int | None = None
    id: str | None = None


class Away(msgspec.Struct, tag_field="op", tag="away"):
    """Report that nobody looks at this device, or that somebody does again."""

    away: bool


class Auth(msgspec.Struct, tag_field="op", tag="auth"):
    """A new token for the same user."""

    token: str


class Ping(msgspec.Struct, tag_field="op", tag="ping"):
    """Show the server that this client is alive."""


ClientFrame = Hello | Send | Received | Read | TypingFrame | Fetch | Follow | Away | Auth | Ping


# Server to client. Unknown fields are ignored, and so are unknown frames.


class Welcome(msgspec.Struct, tag_field="op", tag="welcome"):
    """The client is accepted; the entries that it missed follow."""

    user: str
    device: str
    epoch: str
    heartbeat_ms: int


class Live(msgspec.Struct, tag_field="op", tag="live"):
    """Catch-up is complete: every chat was sent, or named by `resync` or `gone`."""


class Entry(msgspec.Struct, tag_field="op", tag="entry", kw_only=True, omit_defaults=True):
    """An entry of a chat's log. Inside a page it has no `op`."""

    chat: str
    sequence: int
    kind: str
    sender: str
    created_at: datetime
    message_id: str | None = None
    client_message_id: str | None = None
    content: str | None = None
    content_type: str | None = None
    expires_at: datetime | None = None
    edited_at: datetime | None = None
    redacted: bool = False
    expired: bool = False
    erased: bool = False
    target: int | None = None
    emoji: str | None = None
    users: list[str] | None = None
    role: str | None = None
    name: str | None = None
    reactions: dict[str, int] | None = None
    reply_to: int | None = None
    reply_count: int = 0
    mentions: tuple[str, ...] = ()
    silent: bool = False
    posted_by: str | None = None
    frozen: bool | None = None
    slow_mode_seconds: int | None = None
    blocked: bool = False
    attachments: tuple[Attachment, ...] = ()


class SentFrame(msgspec.Struct, tag_field="op", tag="sent"):
    """A message of this client is durable."""

    id: str
    chat: str
    sequence: int
    message_id: str
    created_at: datetime


class RefusedFrame(msgspec.Struct, tag_field="op", tag="refused"):
    """A request was refused; `retryable` tells whether a repeat may succeed."""

    code: str
    detail: str
    retryable: bool
    id: str | None = None
    retry_after_ms: int | None = None


class Page(msgspec.Struct, tag_field="op", tag="page"):
    """A part of a log, oldest entry first."""

    id: str
    chat: str
    entries: list[Entry]
    head: int
    more: bool


class ReceiptFrame(msgspec.Struct, tag_field="op", tag="receipt"):
    """A receipt moved forward, of another member or of the user on another device."""

    chat: str
    user: str
    delivered: int
    read: int


class TypingNotice(msgspec.Struct, tag_field="op", tag="typing"):
    """A member is typing."""

    chat: str
    user: str


class PresenceFrame(msgspec.Struct, tag_field="op", tag="presence"):
    """A user who shares a small chat with this user came online or went offline."""

    user: str
    online: bool
    last_seen: datetime | None = None


class ProfileFrame(msgspec.Struct, tag_field="op", tag="profile"):
    """The user, or somebody who shares a small chat with the user, has a new name or avatar."""

    user: str
    display_name: str | None
    avatar_url: str | None


class UnreadFrame(msgspec.Struct, tag_field="op", tag="unread"):
    """The unread count of a chat or an inbox changed for another reason than a new message."""

    chat: str | None = None
    unread: int = 0
    unread_exact: bool = True
    unread_mentions: int = 0
    inbox: str | None = None
    total: int = 0
    categories: dict[str, int] = {}
    exact: bool = True
    unseen: int | None = None


class InboxMissedFrame(msgspec.Struct, tag_field="op", tag="inbox_missed"):
    """The number of notifications in an inbox that this client has not seen."""

    inbox: str
    count: int
    exact: bool


class UnreadTotalFrame(msgspec.Struct, tag_field="op", tag="unread_total", kw_only=True):
    """The number of unread messages and notifications."""

    chats: int
    messages: int
    mentions: int
    inboxes: dict[str, int]
    total: int
    exact: bool


class InvitedFrame(msgspec.Struct, tag_field="op", tag="invited"):
    """The user was invited into a group."""

    chat: str
    user: str


class ScheduledFailedFrame(msgspec.Struct, tag_field="op", tag="scheduled_failed"):
    """A scheduled message of the user could not be sent."""

    scheduled_id: str = ""
    chat: str = ""
    code: str = ""


class ChatChangedFrame(msgspec.Struct, tag_field="op", tag="chat_changed"):
    """The user marked a chat as unread, hid it or muted it, on one of the user's devices. Without a
    chat, the user blocked somebody or ended a block."""

    chat: str | None = None


class NotificationFrame(msgspec.Struct, tag_field="op", tag="notification", kw_only=True):
    """A new notification in an inbox."""

    inbox: str
    id: str
    category: str | None = None
    sender: str | None = None
    host_system_id: str | None = None
    message: dict[str, Any]
    received_at: datetime
    actions: list[Action] = []
    collapse_key: str | None = None


class MarkedFrame(InboxStateChanged, tag_field="op", tag="marked", frozen=True):
    """The user changed states of notifications on one of the user's devices."""


class RetractedFrame(msgspec.Struct, tag_field="op", tag="retracted"):
    """A notification in an inbox was retracted."""

    inbox: str
    id: str


class ErasedAuthor(msgspec.Struct):
    """An author, named by a digest, whose content up to a moment was erased."""

    digest: str
    before: datetime


class ErasedFrame(msgspec.Struct, tag_field="op", tag="erased"):
    """The client must drop its copies of the content of these authors, or of all content."""

    n: int
    salt: str = ""
    authors: list[ErasedAuthor] = []
    all: bool = False


class Heads(msgspec.Struct, tag_field="op", tag="heads"):
    """The last sequences of chats that this client does not follow."""

    chats: dict[str, int]


class Resync(msgspec.Struct, tag_field="op", tag="resync"):
    """Too much is missing: the client must drop the chat's entries and load its newest page."""

    chat: str
    head: int


class Gone(msgspec.Struct, tag_field="op", tag="gone"):
    """The chat does not exist, or is no longer the user's."""

    chat: str


class Bye(msgspec.Struct, tag_field="op", tag="bye"):
    """The server is about to close the connection."""

    code: int
    reconnect: bool
    retry_after_ms: int


class Pong(msgspec.Struct, tag_field="op", tag="pong"):
    """Answer to a ping."""


ServerFrame = (
    Welcome
    | Live
    | Entry
    | SentFrame
    | RefusedFrame
    | Page
    | ReceiptFrame
    | TypingNotice
    | PresenceFrame
    | ProfileFrame
    | UnreadFrame
    | InboxMissedFrame
    | UnreadTotalFrame
    | ChatChangedFrame
    | ScheduledFailedFrame
    | InvitedFrame
    | NotificationFrame
    | RetractedFrame
    | MarkedFrame
    | ErasedFrame
    | Heads
    | Resync
    | Gone
    | Bye
    | Pong
)

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ServerFrame).decode


def decode(payload: bytes | memoryview) -> ServerFrame | None:
    """Decode a frame; return None if this client does not know it.

    Nothing is lost by ignoring a frame: an entry that cannot be decoded leaves a gap in the log,
    and the client fetches missing entries.
    """
    try:
        frame: ServerFrame = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return frame
