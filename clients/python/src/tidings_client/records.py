# SPDX-License-Identifier: Apache-2.0
"""What the REST API answers with, as far as this client asks."""

from datetime import datetime

import msgspec

from tidings_client.events import WhyGone


class LastMessage(msgspec.Struct, frozen=True):
    """The last message of a chat, in short."""

    sequence: int
    sender_id: str
    preview: str | None
    created_at: datetime


class Chat(msgspec.Struct, frozen=True):
    """One chat, as the user sees it."""

    chat_id: str
    type: str
    name: str | None
    members: list[str]
    """Others, at most ten; `Api.members` has all."""
    member_count: int
    role: str
    last_activity_at: datetime
    last_message: LastMessage | None
    unread: int
    unread_exact: bool
    muted_until: datetime | None


class ChatPage(msgspec.Struct, frozen=True):
    """Part of the chat list, and where it goes on."""

    data: list[Chat]
    next_cursor: str | None


class Member(msgspec.Struct, frozen=True):
    """One member of a chat."""

    user_id: str
    role: str
    joined_at: datetime


class Invite(msgspec.Struct, frozen=True):
    """Somebody asks a user into a group."""

    chat_id: str
    name: str
    user_id: str
    invited_by: str
    role: str
    invited_at: datetime
    expires_at: datetime


class Left(msgspec.Struct, frozen=True):
    """Whether a chat was left; `code` says why not."""

    chat_id: str
    left: bool
    code: str | None
    retryable: bool


class JobProgress(msgspec.Struct, frozen=True):
    """How many entries of a chat's log are empty, of how many."""

    done: int
    of: int


class Job(msgspec.Struct, frozen=True):
    """The deletion of a chat, which goes on after its answer.

    `phase` is `started`, when nothing is taken in any more; then `members_removed`, when nobody
    reads the chat; `keys_removed`; and `done`.
    """

    job: str
    kind: str
    chat_id: str
    phase: str
    progress: JobProgress
    created_at: datetime
    updated_at: datetime


class Receipt(msgspec.Struct, frozen=True):
    """How far one member is."""

    user_id: str
    delivered: int
    read: int


class Reaction(msgspec.Struct, frozen=True):
    """One reaction of one member."""

    emoji: str
    user_id: str
    created_at: datetime


class ReactionCount(msgspec.Struct, frozen=True):
    """How many reacted with an emoji, and whether the user is one of them."""

    emoji: str
    count: int
    mine: bool


class MessageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is now."""

    chat_id: str
    sequence: int
    message_id: str
    sender_id: str
    client_message_id: str
    content_type: str
    created_at: datetime
    status: str
    """`sent`, `delivered` or `read`, by all other members."""
    content: str | None = None
    expires_at: datetime | None = None
    edited_at: datetime | None = None
    redacted: bool = False
    expired: bool = False
    erased: bool = False
    reactions: list[ReactionCount] = []

    @property
    def gone(self) -> WhyGone | None:
        """Why there is no content any more."""
        if self.redacted:
            return "redacted"
        if self.expired:
            return "expired"
        return "erased" if self.erased else None
