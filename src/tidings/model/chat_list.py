# SPDX-License-Identifier: Apache-2.0
"""The chat list: a user's chats, as one user sees them."""

import msgspec

from tidings.model.chats import ChatType
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipts import Receipt, Unread
from tidings.model.roles import Role


class ChatRow(msgspec.Struct, kw_only=True):
    """One chat in one user's list."""

    chat_id: ChatId
    type: ChatType
    name: str | None
    others: tuple[UserKey, ...]
    """The other members, longest-standing first, at most ten."""
    member_count: int
    role: Role
    muted_until: int | None
    head: Head
    receipt: Receipt
    last: Entry | None
    """The last message, whatever has become of its content; None if there never was one."""
    unread: Unread


class Held(msgspec.Struct, frozen=True):
    """A chat a user is in, and where its log ends: what a device compares with what it has."""

    chat_id: ChatId
    head: Head
    receipt: Receipt
    member_count: int
