# SPDX-License-Identifier: Apache-2.0
"""The records in lists of tenants and users, and the pages of these lists."""

from typing import Any, Generic, Literal, TypeVar

import msgspec

from tidings_client.events import Attachment

T = TypeVar("T")


class ListPage(msgspec.Struct, Generic[T], frozen=True):
    """A page of a list. The last page has no `next_cursor`; any page may be short or empty."""

    data: list[T]
    next_cursor: str | None = None


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a tenant; None means unlimited."""

    users: int | None = None
    chats_per_day: int | None = None
    messages_per_day: int | None = None
    attachment_bytes_per_day: int | None = None


class ListedTenant(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant, as the operator sees it; a suspended one has no access."""

    tenant: str
    name: str | None = None
    created_at: str
    suspended_at: str | None = None
    quotas: Quotas


class ListedKey(msgspec.Struct, frozen=True):
    """A tenant key, without the key itself; a revoked one is not valid."""

    key_id: str
    created_at: str
    revoked_at: str | None = None


class ListedUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user, as the tenant sees them."""

    user_id: str
    display_name: str | None = None
    phone_number: str | None = None
    created_at: str
    updated_at: str
    deactivated: bool = False
    banned_until: str | None = None
    """Until this time, the user can read, but not write."""
    avatar_url: str | None = None
    metadata: dict[str, Any] = {}
    email: str | None = None
    phone_verified: bool = False
    """Whether the user proved the number with a login code."""
    last_seen_at: str | None = None


class ListedConnection(msgspec.Struct, frozen=True, kw_only=True):
    """An open connection of a user, as the tenant sees it."""

    connection_id: str
    process: str
    """The process that has the socket."""
    device: str
    address: str | None = None
    client: str | None = None
    """Name and version of the program, as the client states them."""
    since: str
    away: bool
    catch_up: Literal["all", "heads"]
    chats: int
    behind: int
    """Of how many chats the connection lacks entries."""
    window: int
    unacknowledged: int
    """Entries sent without an acknowledgement; at most `window`."""
    pending_bytes: int
    last_received_at: str | None = None
    last_used_at: str


class ConnectionList(msgspec.Struct, frozen=True):
    """The connections of a user; without `complete`, a process did not answer."""

    data: list[ListedConnection]
    complete: bool


class ListedChat(msgspec.Struct, frozen=True, kw_only=True):
    """A chat, as the tenant sees it: without content."""

    chat_id: str
    type: Literal["direct", "group"]
    name: str | None = None
    created_at: str
    created_by: str
    member_count: int


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a chat, which only the tenant changes."""

    chat_id: str
    frozen: bool
    slow_mode_seconds: int
    """Seconds that a member waits between two messages; 0 if the chat is not in slow mode."""


ReportReason = Literal["spam", "abuse", "illegal", "other"]
ReportState = Literal["open", "resolved", "dismissed"]
ReportAction = Literal["redact", "remove", "ban"]


class ReportedCase(msgspec.Struct, frozen=True, kw_only=True):
    """What a user reported, as the tenant sees it."""

    report_id: str
    state: str
    reason: str
    comment: str | None = None
    reporter_id: str
    user_id: str
    """The reported user, or the sender of the message."""
    chat_id: str | None = None
    sequence: int | None = None
    content: str | None = None
    """The content of the message when it was reported."""
    erased: bool = False
    sealed: bool = False
    """Whether the report has a content, files or a comment that are not shown."""
    attachments: tuple[Attachment, ...] = ()
    """The files of the message when it was reported; `ModerationApi.reported_file` reads them."""
    created_at: str
    expires_at: str
    note: str | None = None
    action: str | None = None
    updated_at: str | None = None


class ListedInbox(msgspec.Struct, frozen=True, kw_only=True):
    """An inbox. Users see it without the last three fields."""

    inbox: str
    title: str
    description: str = ""
    schema_version: str = "1.0"
    categories: list[str] | None = None
    late_joiners: bool | None = None
    keep_days: int | None = None
    message_schema: dict[str, Any] | None = None


class PostedNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification, as the tenant that posted it sees it; a retracted one has no text."""

    id: str
    audience: Literal["users", "everyone"]
    recipients: int
    label: str | None = None
    category: str | None = None
    sender: str | None = None
    host_system_id: str | None = None
    posted_at: str
    expires_at: str
    redacted: bool
    message: dict[str, Any] | None = None


class ListedDevice(msgspec.Struct, frozen=True):
    """A device on which the user is logged in, with the ids of its sessions, or which is registered
    for push, with the provider."""

    device: str
    created_at: str
    last_used_at: str
    sessions: list[str]
    current: bool
    push: str | None = None


def part_of(limit: int, cursor: str | None) -> dict[str, str]:
    """Return the query of a request for a page."""
    return {"limit": str(limit)} | ({} if cursor is None else {"cursor": cursor})
