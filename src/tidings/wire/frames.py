# SPDX-License-Identifier: Apache-2.0
"""The frames that clients and server exchange over the socket, and their encoder and decoder.

A new client frame must also be added to `ClientFrame` here and to `gateway.requests`; a new server
frame must also be added to `api.documents`.
"""

import hmac
from typing import Annotated, Any, Literal

import msgspec

from tidings.model import limits
from tidings.model.entries import SendOptions, send_options
from tidings.model.ids import CLIENT, SEQUENCE_MAX
from tidings.model.notifications import NOTIFICATION, NotificationAction
from tidings.tracing.spans import TRACE_PATTERN
from tidings.wire.records import EntryRecord, UnreadTotalRecord

Sequence = Annotated[int, msgspec.Meta(ge=0, le=SEQUENCE_MAX)]
RequestId = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
ChatName = Annotated[str, msgspec.Meta(max_length=64)]
InboxName = Annotated[str, msgspec.Meta(max_length=64)]
LastNotification = Annotated[str, msgspec.Meta(pattern=rf"^({NOTIFICATION.pattern})?(?!\n)$")]
ClientName = Annotated[str, msgspec.Meta(pattern=rf"^{CLIENT.pattern}(?!\n)$")]
"""Name and version of the client's program."""
Trace = Annotated[str, msgspec.Meta(pattern=rf"^{TRACE_PATTERN}(?!\n)$")]
"""A `traceparent` as in W3C Trace Context."""


# Client to server. Unknown fields are ignored, so that newer clients can talk to older servers.


class Hello(msgspec.Struct, tag_field="op", tag="hello"):
    """The first frame: a token, and the last sequence that the client has of each chat."""

    token: Annotated[str, msgspec.Meta(max_length=limits.TOKEN_BYTES_MAX)]
    device: str | None = None
    epoch: str | None = None
    have: dict[ChatName, Sequence] | None = None
    client: ClientName | None = None
    catch_up: Literal["all", "heads"] = "all"
    erasures: Sequence | None = None
    """`n` of the last `erased` frame, or 0; without it the client gets no `erased` frames."""
    inboxes: (
        Annotated[
            dict[InboxName, LastNotification | None],
            msgspec.Meta(max_length=limits.HELLO_INBOXES_MAX),
        ]
        | None
    ) = None
    """For each inbox, the newest notification that the client has; null or "" if it has none."""
    totals: bool = False
    """Whether the client wants `unread_total` frames."""


class SendFrame(msgspec.Struct, tag_field="op", tag="send"):
    """Post a message."""

    id: RequestId
    chat: ChatName
    client_message_id: str
    content: str
    content_type: str | None = None
    ttl_seconds: int | None = None
    after: Sequence | None = None
    reply_to: Sequence | None = None
    mentions: list[str] | None = None
    silent: bool | None = None
    attachments: list[str] | None = None
    trace: Trace | None = None
    """The `traceparent` of the client's own span, if it wants the message to be traced."""

    @property
    def options(self) -> SendOptions | None:
        """The options of the message; None if it has none, which is the usual case."""
        if self.reply_to is None and not (self.mentions or self.silent or self.attachments):
            return None
        return send_options(self.reply_to, self.mentions, self.silent, self.attachments)


class Received(msgspec.Struct, tag_field="op", tag="received"):
    """The client has all entries of the chat up to this sequence."""

    chat: ChatName
    sequence: Sequence


class Read(msgspec.Struct, tag_field="op", tag="read"):
    """The user has read the chat up to this sequence."""

    chat: ChatName
    sequence: Sequence


class TypingFrame(msgspec.Struct, tag_field="op", tag="typing"):
    """The user is typing."""

    chat: ChatName


class Fetch(msgspec.Struct, tag_field="op", tag="fetch"):
    """Request part of a log: forwards from `after`, or backwards from `before`."""

    id: RequestId
    chat: ChatName
    after: Sequence | None = None
    before: Sequence | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=limits.PAGE_MAX)] = limits.PAGE_DEFAULT


class Follow(msgspec.Struct, tag_field="op", tag="follow"):
    """Request the entries of a chat after the sequence `after`, and all new entries."""

    chat: ChatName
    after: Sequence | None = None
    id: RequestId | None = None


class Away(msgspec.Struct, tag_field="op", tag="away"):
    """Nobody looks at this device, or somebody does again."""

    away: bool


class Auth(msgspec.Struct, tag_field="op", tag="auth"):
    """A new token for the same user, before the old one expires."""

    token: Annotated[str, msgspec.Meta(max_length=limits.TOKEN_BYTES_MAX)]


class Ping(msgspec.Struct, tag_field="op", tag="ping"):
    """The client is alive; the server answers with `pong`."""


ClientFrame = (
    Hello | SendFrame | Received | Read | TypingFrame | Fetch | Follow | Away | Auth | Ping
)


# Server to client.


class Welcome(msgspec.Struct, tag_field="op", tag="welcome"):
    """The connection is accepted; catch-up follows."""

    user: str
    device: str
    connection: str
    epoch: str
    heartbeat_ms: int
    window: int


class Live(msgspec.Struct, tag_field="op", tag="live"):
    """Catch-up is complete: each missed entry was sent, or its chat got `resync` or `gone`, or was
    named in `heads`."""


class EntryFrame(EntryRecord, tag_field="op", tag="entry"):
    """An entry of a chat's log."""


class SentFrame(msgspec.Struct, tag_field="op", tag="sent"):
    """The message is durable."""

    id: str
    chat: str
    sequence: int
    message_id: str
    created_at: str


class Refused(msgspec.Struct, tag_field="op", tag="refused", omit_defaults=True):
    """A request was refused; `retryable` says whether a retry makes sense."""

    code: str
    detail: str
    retryable: bool
    id: str | None = None
    retry_after_ms: int | None = None
    """Time until a retry makes sense, if a rate limit or quota is reached."""


class PageFrame(msgspec.Struct, tag_field="op", tag="page"):
    """Part of a log, as the answer to `fetch`."""

    id: str
    chat: str
    entries: list[msgspec.Raw]
    head: int
    more: bool


class ReceiptFrame(msgspec.Struct, tag_field="op", tag="receipt"):
    """The receipt of another member, or of the user on another device, has moved forward."""

    chat: str
    user: str
    delivered: int
    read: int


class TypingNotice(msgspec.Struct, tag_field="op", tag="typing"):
    """A member is typing."""

    chat: str
    user: str


class Presence(msgspec.Struct, tag_field="op", tag="presence", omit_defaults=True):
    """A user who shares a small chat with the receiver came online or went offline."""

    user: str
    online: bool
    last_seen: str | None = None


class ProfileFrame(msgspec.Struct, tag_field="op", tag="profile"):
    """The user, or somebody who shares a small chat with the user, has a new name or avatar."""

    user: str
    display_name: str | None
    avatar_url: str | None


class UnreadFrame(msgspec.Struct, tag_field="op", tag="unread"):
    """The unread count of a chat changed, but not because of a new entry."""

    chat: str
    unread: int
    unread_exact: bool
    unread_mentions: int = 0


class UnreadTotalFrame(UnreadTotalRecord, tag_field="op", tag="unread_total"):
    """The number of unread messages and notifications has changed, or the device is live. Sent if
    `hello` had `totals: true`."""


class ChatChangedFrame(msgspec.Struct, tag_field="op", tag="chat_changed", omit_defaults=True):
    """The user changed the chat on some device: marked it as unread, hid it or muted it. Load it
    again with `GET /v1/chats/{chat}`. Without a chat: the user blocked somebody, or ended a block.
    Load all chats again."""

    chat: str | None = None


class InvitedFrame(msgspec.Struct, tag_field="op", tag="invited"):
    """The user was invited into a group; `GET /v1/me/invites` lists all open invitations."""

    chat: str
    user: str


class InboxUnread(msgspec.Struct, tag_field="op", tag="unread"):
    """The unread counts of an inbox changed, but not because of a new notification."""

    inbox: str
    total: int
    categories: dict[str, int]
    exact: bool = True
    """False if only the newest notifications were counted, at hello."""
    unseen: int | msgspec.UnsetType = msgspec.UNSET
    """How many of them the user has not seen; absent if it is all of them."""


class InboxMissed(msgspec.Struct, tag_field="op", tag="inbox_missed"):
    """The number of notifications in an inbox that are newer than the one named in `hello`."""

    inbox: str
    count: int
    exact: bool
    """False if the count stopped at its limit, or if the last notification is unknown."""


class NotificationFrame(msgspec.Struct, tag_field="op", tag="notification", omit_defaults=True):
    """A new notification in an inbox."""

    inbox: str
    id: str
    category: str | None
    sender: str | None
    host_system_id: str | None
    message: dict[str, Any]
    received_at: str
    actions: list[NotificationAction] = []
    collapse_key: str | None = None
    """The device shows only the newest notification with this key."""


class RetractedFrame(msgspec.Struct, tag_field="op", tag="retracted"):
    """A notification was retracted; the client must stop showing it."""

    inbox: str
    id: str


class HeadsFrame(msgspec.Struct, tag_field="op", tag="heads"):
    """The last sequence of chats that the client does not follow."""

    chats: dict[str, int]


class ErasedAuthor(msgspec.Struct):
    """Everything that an author wrote up to a moment is erased."""

    digest: str
    """The first 8 bytes, in hexadecimal, of the HMAC-SHA-256 of the author's user id under the
    salt."""
    before: str


class ErasedFrame(msgspec.Struct, tag_field="op", tag="erased"):
    """The content of these authors was erased. The client must drop it, even if it arrives after
    this frame."""

    salt: str
    """The key of the digests, in hexadecimal."""
    authors: list[ErasedAuthor]
    n: int


class AllErased(msgspec.Struct, tag_field="op", tag="erased"):
    """The client must drop all content that it keeps, because too much was erased to list the
    authors."""

    n: int
    all: bool = True


class Resync(msgspec.Struct, tag_field="op", tag="resync"):
    """Too many entries are missing: drop the chat's cached entries and load its newest page."""

    chat: str
    head: int


class GoneFrame(msgspec.Struct, tag_field="op", tag="gone"):
    """The chat does not exist, or the user is no longer a member."""

    chat: str


class Bye(msgspec.Struct, tag_field="op", tag="bye"):
    """The server is about to close the connection."""

    code: int
    reconnect: bool
    retry_after_ms: int


class Pong(msgspec.Struct, tag_field="op", tag="pong"):
    """The answer to `ping`."""


DIGEST_BYTES = 8


def author_digest(salt: bytes, user: str) -> str:
    """Return the digest by which an `erased` frame names an author."""
    return hmac.digest(salt, user.encode(), "sha256")[:DIGEST_BYTES].hex()


_encoder = msgspec.json.Encoder()
encode = _encoder.encode
decode_client_frame = msgspec.json.Decoder(ClientFrame).decode

PONG = encode(Pong())
LIVE = encode(Live())
