# SPDX-License-Identifier: Apache-2.0
"""Frames of the socket, both ways, and their codec. Encoder and decoders are made once."""

from typing import Annotated, Any

import msgspec

from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import SEQUENCE_MAX, user_id
from tidings.model.times import rfc3339
from tidings.wire.records import EntryRecord, entry_fields

Sequence = Annotated[int, msgspec.Meta(ge=0, le=SEQUENCE_MAX)]
RequestId = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
ChatName = Annotated[str, msgspec.Meta(max_length=64)]


# Client to server. Unknown fields are ignored, so that newer clients can talk to older servers.


class Hello(msgspec.Struct, tag_field="op", tag="hello"):
    """The first frame: who I am and what I have."""

    token: Annotated[str, msgspec.Meta(max_length=limits.TOKEN_BYTES_MAX)]
    device: str | None = None
    epoch: str | None = None
    have: dict[ChatName, Sequence] | None = None


class SendFrame(msgspec.Struct, tag_field="op", tag="send"):
    """Post a message."""

    id: RequestId
    chat: ChatName
    client_message_id: str
    content: str
    content_type: str | None = None
    ttl_seconds: int | None = None


class Received(msgspec.Struct, tag_field="op", tag="received"):
    """I have all entries of the chat up to here."""

    chat: ChatName
    sequence: Sequence


class Read(msgspec.Struct, tag_field="op", tag="read"):
    """My user has read the chat up to here."""

    chat: ChatName
    sequence: Sequence


class TypingFrame(msgspec.Struct, tag_field="op", tag="typing"):
    """My user is writing."""

    chat: ChatName


class Fetch(msgspec.Struct, tag_field="op", tag="fetch"):
    """Give me part of a log: upwards from after, or downwards from before."""

    id: RequestId
    chat: ChatName
    after: Sequence | None = None
    before: Sequence | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=limits.PAGE_MAX)] = limits.PAGE_DEFAULT


class Auth(msgspec.Struct, tag_field="op", tag="auth"):
    """A fresh token for the same user."""

    token: Annotated[str, msgspec.Meta(max_length=limits.TOKEN_BYTES_MAX)]


class Ping(msgspec.Struct, tag_field="op", tag="ping"):
    """I am alive."""


ClientFrame = Hello | SendFrame | Received | Read | TypingFrame | Fetch | Auth | Ping


# Server to client.


class Welcome(msgspec.Struct, tag_field="op", tag="welcome"):
    """You are in; what you missed follows."""

    user: str
    device: str
    connection: str
    epoch: str
    heartbeat_ms: int
    window: int


class Live(msgspec.Struct, tag_field="op", tag="live"):
    """All that was there before `welcome` has been sent, or named by resync or gone."""


class EntryFrame(EntryRecord, tag_field="op", tag="entry"):
    """An entry of a chat's log."""


class SentFrame(msgspec.Struct, tag_field="op", tag="sent"):
    """Your message is durable."""

    id: str
    chat: str
    sequence: int
    message_id: str
    created_at: str


class Refused(msgspec.Struct, tag_field="op", tag="refused", omit_defaults=True):
    """No, and whether it makes sense to try again."""

    code: str
    detail: str
    retryable: bool
    id: str | None = None
    retry_after_ms: int | None = None
    """Of what was too fast, or more than a quota: when it may be tried again."""


class PageFrame(msgspec.Struct, tag_field="op", tag="page"):
    """Part of a log."""

    id: str
    chat: str
    entries: list[msgspec.Raw]
    head: int
    more: bool


class ReceiptFrame(msgspec.Struct, tag_field="op", tag="receipt"):
    """Another member, or another device of yours, is further."""

    chat: str
    user: str
    delivered: int
    read: int


class TypingNotice(msgspec.Struct, tag_field="op", tag="typing"):
    """A member is writing."""

    chat: str
    user: str


class Presence(msgspec.Struct, tag_field="op", tag="presence", omit_defaults=True):
    """A user you share a small chat with came or went."""

    user: str
    online: bool
    last_seen: str | None = None


class UnreadFrame(msgspec.Struct, tag_field="op", tag="unread"):
    """A count changed by something other than a new entry."""

    chat: str
    unread: int
    unread_exact: bool


class InvitedFrame(msgspec.Struct, tag_field="op", tag="invited"):
    """Somebody asks you into a group; `GET /v1/me/invites` has all that wait for an answer."""

    chat: str
    user: str


class InboxUnread(msgspec.Struct, tag_field="op", tag="unread"):
    """How much of an inbox is unread changed by something other than a new notification."""

    inbox: str
    total: int
    categories: dict[str, int]


class NotificationFrame(msgspec.Struct, tag_field="op", tag="notification"):
    """Something new in an inbox."""

    inbox: str
    id: str
    category: str | None
    sender: str | None
    host_system_id: str | None
    message: dict[str, Any]
    received_at: str


class RetractedFrame(msgspec.Struct, tag_field="op", tag="retracted"):
    """Something in an inbox was taken back: show it no longer."""

    inbox: str
    id: str


class Resync(msgspec.Struct, tag_field="op", tag="resync"):
    """Too much is missing: drop what you hold of the chat and load its newest page."""

    chat: str
    head: int


class GoneFrame(msgspec.Struct, tag_field="op", tag="gone"):
    """Not yours (any more), or not there."""

    chat: str


class Bye(msgspec.Struct, tag_field="op", tag="bye"):
    """The server is about to close."""

    code: int
    reconnect: bool
    retry_after_ms: int


class Pong(msgspec.Struct, tag_field="op", tag="pong"):
    """So am I."""


_encoder = msgspec.json.Encoder()
encode = _encoder.encode
decode_client_frame = msgspec.json.Decoder(ClientFrame).decode

PONG = encode(Pong())
LIVE = encode(Live())


def encode_entry(entry: Entry) -> bytes:
    """An entry as a frame, for everyone who gets it."""
    if entry.kind == "message" and entry.gone is None and entry.edited_at is None:
        return _encode_fresh(entry)
    return encode(EntryFrame(**entry_fields(entry)))  # type: ignore[arg-type]


def _encode_fresh(entry: Entry) -> bytes:
    """The same for a message that nothing has happened to: 1.6 µs instead of 3.1, and the rule."""
    return encode(
        EntryFrame(
            chat=entry.chat_id,
            sequence=entry.sequence,
            kind="message",
            sender=user_id(entry.sender),
            created_at=rfc3339(entry.created_at),
            message_id=entry.message_id,
            client_message_id=entry.client_message_id,
            content=entry.content,
            content_type=entry.content_type,
            expires_at=None if entry.expires_at is None else rfc3339(entry.expires_at),
            reactions=entry.reactions,
        )
    )
