# SPDX-License-Identifier: Apache-2.0
"""The records that the REST API returns to this client."""

from datetime import datetime
from typing import Any

import msgspec

from tidings_client.events import Attachment, WhyGone


class LastMessage(msgspec.Struct, frozen=True):
    """A summary of the last message of a chat."""

    sequence: int
    sender_id: str
    preview: str | None
    """The beginning of the text; empty if the message has only files."""
    created_at: datetime
    gone: WhyGone | None = None
    """The reason why there is no preview; None if there is one."""


class ShownUser(msgspec.Struct, frozen=True):
    """A user as chats show them. The values are at most a minute old."""

    user_id: str
    display_name: str | None
    avatar_url: str | None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A user of the same tenant."""

    user_id: str
    display_name: str | None
    avatar_url: str | None = None
    metadata: dict[str, Any] = {}
    phone_number: str | None
    """None in the profiles of other users."""
    last_seen_at: datetime | None = None
    """The last minute in which the user was online; None if this is unknown or hidden."""
    created_at: datetime
    updated_at: datetime
    show_last_seen: bool | None = None
    """None in the profiles of other users."""


class ProfileChange(msgspec.Struct, frozen=True, kw_only=True):
    """New values of the user's own profile. Absent fields do not change; None removes a value.

    While `show_last_seen` is false, nobody sees when the user is or was online, and the user does
    not see this of others.
    """

    display_name: str | msgspec.UnsetType = msgspec.UNSET
    avatar_url: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    show_last_seen: bool | msgspec.UnsetType = msgspec.UNSET


class Chat(msgspec.Struct, frozen=True):
    """A chat, as the user sees it."""

    chat_id: str
    type: str
    name: str | None
    members: list[str]
    """Up to ten of the other members; `Api.members` returns all."""
    member_count: int
    role: str
    last_activity_at: datetime
    last_message: LastMessage | None
    unread: int
    unread_exact: bool
    muted_until: datetime | None
    created_at: datetime | None = None
    created_by: str | None = None
    updated_at: datetime | None = None
    """Time of the last change of the name, the members or the settings."""
    message_count: int = 0
    """Number of all messages, including those whose content is gone."""
    others: list[ShownUser] = []
    """The first of `members` with name and avatar: three in the chat list, ten in a single chat."""
    deleted_user: bool = False
    """Whether the other user of a direct chat is deleted; nothing can be sent then."""
    marked_unread: bool = False
    hidden: bool = False
    """Whether the user hid the chat, and no message came since. `Api.chats` returns such chats,
    too."""
    unread_mentions: int = 0
    """Number of unread messages that mention the user or everyone."""
    mute_except_mentions: bool = False
    """Whether messages that mention the user are pushed although the chat is muted."""
    frozen: bool = False
    """Whether the tenant froze the chat; nothing can be sent then."""
    slow_mode_seconds: int = 0
    """Seconds that a member waits between two messages; 0 if the chat is not in slow mode."""


class BlockedUser(msgspec.Struct, frozen=True):
    """A user whom the user blocks."""

    user_id: str
    created_at: datetime


class ChatPage(msgspec.Struct, frozen=True):
    """A page of the chat list, and the cursor of the next page."""

    data: list[Chat]
    next_cursor: str | None


class Member(msgspec.Struct, frozen=True):
    """A member of a chat."""

    user_id: str
    role: str
    joined_at: datetime
    display_name: str | None = None
    avatar_url: str | None = None
    delivered: int = 0
    read: int = 0
    """`delivered` and `read` are the sequences up to which the member has received and read."""
    read_at: datetime | None = None


class Invite(msgspec.Struct, frozen=True):
    """An invitation of a user into a group."""

    chat_id: str
    name: str
    user_id: str
    invited_by: str
    role: str
    invited_at: datetime
    expires_at: datetime


class Left(msgspec.Struct, frozen=True):
    """Whether the user has left a chat; if not, `code` gives the reason."""

    chat_id: str
    left: bool
    code: str | None
    retryable: bool


class JobProgress(msgspec.Struct, frozen=True):
    """Progress of a deletion: the content of `done` of the chat's `of` entries is deleted."""

    done: int
    of: int


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Work that continues after the request is answered, such as the deletion of a chat.

    Its `state` is `running`, and then `done`. If the job deletes a user, `receipt` is a signed
    proof of the deletion: a JWS, which the keys at `/.well-known/receipt-keys.json` verify. If the
    job deletes a chat, its phases are `started`, `members_removed`, `keys_removed` and `done`. From
    `started` on, nobody can write to the chat. From `members_removed` on, nobody can read it.
    """

    job: str
    kind: str
    state: str
    phase: str
    counts: dict[str, int]
    chat_id: str | None = None
    user_id: str | None = None
    inbox: str | None = None
    progress: JobProgress | None = None
    receipt: str | None = None
    download: str | None = None
    expires_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


class Receipt(msgspec.Struct, frozen=True):
    """How far a member has received and read a chat, as sequences."""

    user_id: str
    delivered: int
    read: int


class Replies(msgspec.Struct, frozen=True):
    """A page of the messages that answer a message, and where the next page begins."""

    data: "list[MessageRecord]"
    next_after: int | None


class MentionPage(msgspec.Struct, frozen=True):
    """A page of the messages that mention the user, and the cursor of the next page."""

    data: "list[MessageRecord]"
    next_cursor: str | None


class SearchHit(msgspec.Struct, frozen=True):
    """A message that was found, and the parts of its content that were searched for.

    Each highlight is the beginning and the end of a slice of the content.
    """

    message: "MessageRecord"
    highlights: list[tuple[int, int]]


class SearchPage(msgspec.Struct, frozen=True):
    """A page of messages that were found, and the cursor with which the search continues.

    A page may be empty although the search is not complete. All messages after `searched_until`
    have been looked at.
    """

    data: list[SearchHit]
    next_cursor: str | None
    searched_until: datetime | None
    complete: bool


class MessageReceipt(msgspec.Struct, frozen=True):
    """Whether and when a member received and read a message.

    A time is None if the member has not done so, or if the time is no longer known.
    """

    user_id: str
    delivered: bool
    delivered_at: datetime | None
    read: bool
    read_at: datetime | None


class MessageReceipts(msgspec.Struct, frozen=True):
    """A page of the members who could have received a message, and how many of all these members
    have received and read it."""

    data: list[MessageReceipt]
    delivered: int
    read: int
    as_of: datetime
    next_cursor: str | None


class UnreadState(msgspec.Struct, frozen=True):
    """The number of unread messages of a chat, and whether the user marked it as unread."""

    marked_unread: bool
    unread: int
    unread_exact: bool


class UnreadTotal(msgspec.Struct, frozen=True):
    """Everything that the user has not read; an upper bound unless `exact`."""

    chats: int
    messages: int
    mentions: int
    inboxes: dict[str, int]
    total: int
    exact: bool


class Reaction(msgspec.Struct, frozen=True):
    """A reaction of a member to a message."""

    emoji: str
    user_id: str
    created_at: datetime


class ReactionCount(msgspec.Struct, frozen=True):
    """How many members reacted with an emoji, and whether the user is one of them."""

    emoji: str
    count: int
    mine: bool


class MessageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of a message."""

    chat_id: str
    sequence: int
    message_id: str
    sender_id: str
    client_message_id: str
    content_type: str
    created_at: datetime
    status: str | None = None
    """`sent`; `delivered` to all other members; or `read` by all of them. None in a list of
    mentions."""
    content: str | None = None
    expires_at: datetime | None = None
    edited_at: datetime | None = None
    redacted: bool = False
    expired: bool = False
    erased: bool = False
    blocked: bool = False
    """Whether the user blocks the sender; the message then has no content."""
    reactions: list[ReactionCount] = []
    reply_to: int | None = None
    """Sequence of the message that this one answers."""
    reply_count: int = 0
    """Number of messages that answer this one; it stops at 1,000."""
    mentions: list[str] = []
    """User ids of the members whom the message mentions, or `["*"]` for everyone."""
    silent: bool = False
    posted_by: str | None = None
    """`tenant` if not the sender posted the message, but the tenant in the sender's name."""
    attachments: list[Attachment] = []

    @property
    def gone(self) -> WhyGone | None:
        """Why the message has no content; None if it has content."""
        if self.redacted:
            return "redacted"
        if self.expired:
            return "expired"
        return "erased" if self.erased else None


class Pin(MessageRecord, frozen=True, kw_only=True):
    """A pinned message, with the user who pinned it and the time."""

    pinned_by: str
    pinned_at: datetime
