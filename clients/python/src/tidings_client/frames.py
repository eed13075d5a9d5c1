# SPDX-License-Identifier: Apache-2.0
"""Frames of the socket as a client sees them, both ways, and their codec."""

from datetime import datetime
from typing import Any

import msgspec

SEQUENCE_MAX = 2**53 - 1
"""The largest sequence there can be: `before` it is the newest page of any log."""

# Client to server.


class Hello(msgspec.Struct, tag_field="op", tag="hello", omit_defaults=True):
    """The first frame: who I am and what I have."""

    token: str
    device: str | None = None
    epoch: str | None = None
    have: dict[str, int] | None = None


class Send(msgspec.Struct, tag_field="op", tag="send", omit_defaults=True):
    """Post a message."""

    id: str
    chat: str
    client_message_id: str
    content: str
    content_type: str | None = None
    ttl_seconds: int | None = None


class Received(msgspec.Struct, tag_field="op", tag="received"):
    """I have all entries of the chat up to here."""

    chat: str
    sequence: int


class Read(msgspec.Struct, tag_field="op", tag="read"):
    """My user has read the chat up to here."""

    chat: str
    sequence: int


class TypingFrame(msgspec.Struct, tag_field="op", tag="typing"):
    """My user is writing."""

    chat: str


class Fetch(msgspec.Struct, tag_field="op", tag="fetch", omit_defaults=True):
    """Give me part of a log: upwards from after, or downwards from before."""

    id: str
    chat: str
    limit: int
    after: int | None = None
    before: int | None = None


class Auth(msgspec.Struct, tag_field="op", tag="auth"):
    """A fresh token for the same user."""

    token: str


class Ping(msgspec.Struct, tag_field="op", tag="ping"):
    """I am alive."""


ClientFrame = Hello | Send | Received | Read | TypingFrame | Fetch | Auth | Ping


# Server to client. Unknown fields are ignored, and so are unknown frames.


class Welcome(msgspec.Struct, tag_field="op", tag="welcome"):
    """You are in; what you missed follows."""

    user: str
    device: str
    epoch: str
    heartbeat_ms: int


class Live(msgspec.Struct, tag_field="op", tag="live"):
    """All that was there before `welcome` has been sent, or named by resync or gone."""


class Entry(msgspec.Struct, tag_field="op", tag="entry", kw_only=True, omit_defaults=True):
    """An entry of a chat's log. In a page it comes without its `op`."""

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


class SentFrame(msgspec.Struct, tag_field="op", tag="sent"):
    """Your message is durable."""

    id: str
    chat: str
    sequence: int
    message_id: str
    created_at: datetime


class RefusedFrame(msgspec.Struct, tag_field="op", tag="refused"):
    """No, and whether it makes sense to try again."""

    code: str
    detail: str
    retryable: bool
    id: str | None = None
    retry_after_ms: int | None = None


class Page(msgspec.Struct, tag_field="op", tag="page"):
    """Part of a log, in its order."""

    id: str
    chat: str
    entries: list[Entry]
    head: int
    more: bool


class ReceiptFrame(msgspec.Struct, tag_field="op", tag="receipt"):
    """Another member, or another device of mine, is further."""

    chat: str
    user: str
    delivered: int
    read: int


class TypingNotice(msgspec.Struct, tag_field="op", tag="typing"):
    """A member is writing."""

    chat: str
    user: str


class PresenceFrame(msgspec.Struct, tag_field="op", tag="presence"):
    """A user I share a small chat with came or went."""

    user: str
    online: bool
    last_seen: datetime | None = None


class UnreadFrame(msgspec.Struct, tag_field="op", tag="unread"):
    """A count changed by something other than a new entry: of a chat, or of an inbox."""

    chat: str | None = None
    unread: int = 0
    unread_exact: bool = True
    inbox: str | None = None
    total: int = 0
    categories: dict[str, int] = {}


class NotificationFrame(msgspec.Struct, tag_field="op", tag="notification", kw_only=True):
    """Something new in an inbox."""

    inbox: str
    id: str
    category: str | None = None
    sender: str | None = None
    host_system_id: str | None = None
    message: dict[str, Any]
    received_at: datetime


class RetractedFrame(msgspec.Struct, tag_field="op", tag="retracted"):
    """Something in an inbox was taken back."""

    inbox: str
    id: str


class Resync(msgspec.Struct, tag_field="op", tag="resync"):
    """Too much is missing: drop what you hold of the chat and load its newest page."""

    chat: str
    head: int


class Gone(msgspec.Struct, tag_field="op", tag="gone"):
    """Not yours (any more), or not there."""

    chat: str


class Bye(msgspec.Struct, tag_field="op", tag="bye"):
    """The server is about to close."""

    code: int
    reconnect: bool
    retry_after_ms: int


class Pong(msgspec.Struct, tag_field="op", tag="pong"):
    """So am I."""


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
    | UnreadFrame
    | NotificationFrame
    | RetractedFrame
    | Resync
    | Gone
    | Bye
    | Pong
)

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ServerFrame).decode


def decode(payload: bytes | memoryview) -> ServerFrame | None:
    """What a frame says; None if this client does not know such frames.

    An entry that cannot be understood leaves a gap, and a gap is fetched: passing a frame over
    loses nothing.
    """
    try:
        frame: ServerFrame = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return frame
