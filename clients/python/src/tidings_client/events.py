# SPDX-License-Identifier: Apache-2.0
"""What a client hands to its application: one type for each thing that happens."""

from datetime import datetime
from typing import Any, Literal

import msgspec

WhyGone = Literal["redacted", "expired", "erased"]
"""Why a message has no content any more."""


class EntryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a chat's log. For each chat they come in order, without a gap, each once."""

    chat: str
    sequence: int
    sender: str
    created_at: datetime


class Message(EntryEvent, frozen=True, kw_only=True):
    """A message; one's own come too, at their place in the log."""

    message_id: str
    client_message_id: str
    content: str | None
    """None if it is gone; `gone` says why."""
    content_type: str
    expires_at: datetime | None = None
    edited_at: datetime | None = None
    gone: WhyGone | None = None
    reactions: dict[str, int] = {}


class Edited(EntryEvent, frozen=True, kw_only=True):
    """The message at `target` was edited; the content is its present one, None if it is gone."""

    target: int
    content: str | None
    content_type: str | None


class Redacted(EntryEvent, frozen=True, kw_only=True):
    """The content of the message at `target` is gone for everyone."""

    target: int


class Reacted(EntryEvent, frozen=True, kw_only=True):
    """The sender put an emoji to the message at `target`."""

    target: int
    emoji: str


class Unreacted(EntryEvent, frozen=True, kw_only=True):
    """The sender took an emoji away from the message at `target`."""

    target: int
    emoji: str


class MemberAdded(EntryEvent, frozen=True, kw_only=True):
    """These users came into the chat."""

    users: list[str]
    role: str


class MemberRemoved(EntryEvent, frozen=True, kw_only=True):
    """These users left the chat or were removed."""

    users: list[str]


class RoleChanged(EntryEvent, frozen=True, kw_only=True):
    """These users have another role."""

    users: list[str]
    role: str


class Renamed(EntryEvent, frozen=True, kw_only=True):
    """The chat has another name."""

    name: str


class ChatDeleted(EntryEvent, frozen=True, kw_only=True):
    """The last entry of a chat: nobody can write in it any more, and soon nobody reads it."""


class ChatCreated(EntryEvent, frozen=True, kw_only=True):
    """The first entry of a chat."""

    users: list[str]
    name: str | None


class OtherEntry(EntryEvent, frozen=True, kw_only=True):
    """An entry of a kind that this version of the client does not know."""

    kind: str


class ChatResynced(msgspec.Struct, frozen=True, kw_only=True):
    """Too much was missing: drop what you show of the chat; its entries from `start` on follow.

    What lies before `start` can be had with `Client.history`.
    """

    chat: str
    start: int


class ChatGone(msgspec.Struct, frozen=True, kw_only=True):
    """The chat is not (any more) the user's, or not there."""

    chat: str


class ReceiptMoved(msgspec.Struct, frozen=True, kw_only=True):
    """A member, or the user on another device, has received and read this far."""

    chat: str
    user: str
    delivered: int
    read: int


class Typing(msgspec.Struct, frozen=True, kw_only=True):
    """A member is writing; to be forgotten after six seconds."""

    chat: str
    user: str


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody the user shares a small chat with came or went."""

    user: str
    online: bool
    last_seen: datetime | None


class UnreadChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The unread count of a chat changed by something other than a new entry."""

    chat: str
    unread: int
    exact: bool


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification in an inbox of the user. As an event each comes once, if the user was
    connected when it was made; `Inbox.notifications` has those that came before."""

    inbox: str
    id: str
    category: str | None
    sender: str | None
    received_at: datetime
    message: dict[str, Any]
    """As the tenant posted it: title, body, perhaps a link, and what else the inbox allows."""
    read_at: datetime | None = None
    host_system_id: str | None = None

    @property
    def title(self) -> str:
        """Its first line."""
        return str(self.message.get("title", ""))

    @property
    def body(self) -> str:
        """What it says."""
        return str(self.message.get("body", ""))

    @property
    def cta_uri(self) -> str | None:
        """Where a tap on it leads, if anywhere."""
        link = self.message.get("cta_uri")
        return None if link is None else str(link)


class NotificationRetracted(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant took a notification back: show it no longer."""

    inbox: str
    id: str


class InboxUnreadChanged(msgspec.Struct, frozen=True, kw_only=True):
    """How much of an inbox is unread changed by something other than a new notification."""

    inbox: str
    total: int
    categories: dict[str, int]


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """There is a connection, and all that was missed has been handed out before this event."""

    user: str
    device: str


class Disconnected(msgspec.Struct, frozen=True, kw_only=True):
    """There is no connection. `retry_in` is None if the client does not come back by itself."""

    code: int | None
    reason: str
    retry_in: float | None


class SendFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the outbox will not be sent any more, and nobody waits for its `send`."""

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
    | MemberAdded
    | MemberRemoved
    | RoleChanged
    | Renamed
    | ChatDeleted
    | ChatCreated
    | OtherEntry
    | ChatResynced
    | ChatGone
    | ReceiptMoved
    | Typing
    | Presence
    | UnreadChanged
    | Notification
    | NotificationRetracted
    | InboxUnreadChanged
    | Connected
    | Disconnected
    | SendFailed
)
