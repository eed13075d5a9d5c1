# SPDX-License-Identifier: Apache-2.0
"""Ports for chats, with their members, receipts, invitations and deletion."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.chats import (
    Chat,
    ChatHead,
    ChatRow,
    Move,
    OwnSends,
    Receipt,
    ReceiptWithTimes,
    TenantChat,
    UnreadFound,
)
from tidings.model.entries import Deletion, Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Asked, Invite, Member
from tidings.ports.people import Listed


class Receipts(Protocol):
    """Stores the receipts of members. A receipt exists exactly as long as the membership."""

    async def move(self, moves: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
        """Move receipts forward, never beyond the head; durable when it returns.

        Returns the receipts that moved, with their new values. A move is skipped if the user is not
        a member, or if the receipt has already reached the sequence of the move.

        If the user marked the chat as unread, this is undone when the read mark moves, and when the
        user sends a message. If a move has a time, the time is stored with the receipt.

        Raises:
            StoreUnavailable: The outcome is unknown; safe to repeat.
        """
        ...

    async def advance(self, move: Move) -> tuple[Receipt, Head] | None:
        """Move one receipt, durably, and return it with the head; return None if the user is not a
        member.

        Raises:
            ReceiptBeyondHead: A strong read shows that the log does not have this sequence yet.
            StoreUnavailable: The outcome is unknown; safe to repeat.
        """
        ...

    async def of_chat(self, chat: ChatId, reader: UserKey) -> list[Receipt] | None:
        """Return the receipts of all members; None if the reader is not a member."""
        ...

    async def find(self, user: UserKey, chat: ChatId, joined: int) -> ReceiptWithTimes | None:
        """Return a member's receipt; None if the user is no longer a member.

        The caller knows that the member joined with the entry at sequence `joined`.
        """
        ...

    async def with_times(self, chat: ChatId, reader: UserKey) -> list[ReceiptWithTimes] | None:
        """Return the receipts of all members with their times, as `of_chat` does."""
        ...

    async def unread(self, user: UserKey, chat: ChatId, now: int) -> UnreadFound | None:
        """Return the unread messages of a chat; None if the user is not a member."""
        ...

    async def count(self, chats: Sequence[ChatHead], now: int) -> list[UnreadFound]:
        """Count the unread messages of a user's chats in their logs, up to the given heads."""
        ...

    async def mark_unread(self, user: UserKey, chat: ChatId, first: int | None) -> Receipt | None:
        """Mark the chat as unread from the sequence `first` on; None removes this mark.

        Durable when it returns. Returns None if the user is not a member.

        Raises:
            Invalid: `check_unread_from` refuses the sequence.
        """
        ...

    async def hide(self, user: UserKey, chat: ChatId, *, is_hidden: bool) -> Receipt | None:
        """Hide the chat until its next message, or show it again; return None for a non-member.

        Durable when it returns.
        """
        ...


class RequestKey(msgspec.Struct, frozen=True):
    """Idempotency key of a request to create a chat."""

    user: UserKey
    key: str
    digest: bytes
    expires_at: int


class Created(msgspec.Struct, frozen=True):
    """The chat that exists now, and whether this call created it."""

    chat_id: ChatId
    is_new: bool


class Chats(Protocol):
    """Stores chats and memberships."""

    async def create(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created:
        """Create a chat with its first entries.

        If the chat needs several transactions and the call fails between them, a repeat with the
        same idempotency key continues. Until the key expires, a repeat returns the chat of the
        first call. Each pair of users has one direct chat: if it exists already, it is returned.

        Raises:
            RequestConflict: The idempotency key was used with another digest.
            LimitReached: One of the users has reached the limit of chats.
            StoreUnavailable: The outcome is unknown; repeat with the same key.
        """
        ...

    async def find(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created | None:
        """Return the existing chat that `create` would return; None if it would create a chat.

        Raises:
            RequestConflict: The idempotency key was used with another digest.
            StoreUnavailable: The store does not answer; safe to repeat.
        """
        ...

    async def listing(
        self, user: UserKey, *, below: tuple[int, ChatId] | None, limit: int, now: int
    ) -> list[ChatRow]:
        """Return a user's chats, latest activity first, from below a position or from the start."""
        ...

    async def row(self, user: UserKey, chat: ChatId, now: int) -> ChatRow | None:
        """Return one chat as the user's chat list shows it; None if the user is not a member."""
        ...

    async def members(self, chat: ChatId, reader: UserKey) -> dict[UserKey, Member] | None:
        """Return all members in the order of joining; None if the reader is not a member."""
        ...

    async def mute(
        self, chat: ChatId, user: UserKey, until: int | None, *, except_mentions: bool = False
    ) -> bool:
        """Mute push notices from the chat for a user until a time, or unmute it if `until` is None.

        With `except_mentions`, messages that mention the user are still pushed.

        Durable when it returns. Returns False if the user is not a member.
        """
        ...

    async def list_heads(self, user: UserKey, *, from_log: bool = False) -> list[ChatHead]:
        """Return a user's chats with heads and receipts, latest first, from a strong read.

        The heads come from the head copies, if the engine has some. With `from_log`, they come from
        the logs, which costs more.
        """
        ...

    def saw(self, chat: ChatId, head: Head) -> None:
        """Cache the head of a log that another process has reported; it may be outdated."""
        ...

    async def look(self, chat: ChatId, sequence: int) -> None:
        """Make sure that the next chat list shows the entries of this chat up to this sequence.

        The entries may be from another process. Membership is not checked here, because the list
        checks it.
        """
        ...

    async def ids(self, user: UserKey) -> list[ChatId]:
        """Return the ids of a user's chats, in any order, from a strong read."""
        ...

    async def of_tenant(self, tenant: str, *, below: str | None, limit: int) -> Listed[TenantChat]:
        """Return a tenant's chats by id, newest first, without deleted ones, from a strong read.

        The list starts below the id `below`, or at the top if it is None.
        """
        ...

    async def of_user(self, user: UserKey, *, below: str | None, limit: int) -> Listed[TenantChat]:
        """Return the chats of one user, as `of_tenant` does."""
        ...

    async def direct(self, user: UserKey, other: UserKey) -> ChatId | None:
        """Return the direct chat of two users, from a strong read; None if there is none."""
        ...

    async def acquainted(self, user: UserKey, others: Sequence[UserKey]) -> set[UserKey]:
        """Return the users among `others` who created a direct chat with the user or wrote in it.

        A user who wrote within the last seconds may be missing.
        """
        ...

    async def heads(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        """Return for each chat a sequence that its log has reached; unknown chats are omitted.

        The sequence is either the head or the sequence of the last delivered entry, from a strong
        read. It is never lower than a head that this process has seen before. Membership is not
        checked, because the caller uses the result only to decide which logs to read.
        """
        ...


class InviteStore(Protocol):
    """Stores invitations, at most one for each user and chat. Writes are durable when they
    return."""

    async def put(self, invite: Invite, now: int) -> Asked:
        """Store an invitation, unless the function `asking` refuses it.

        It replaces a pending invitation of the same user into the same chat. Two invitations that
        are stored at the same moment may both succeed, although the limit allows only one more.
        """
        ...

    async def get(self, user: UserKey, chat: ChatId, now: int) -> Invite | None:
        """Return the pending invitation into this chat, from a strong read."""
        ...

    async def pending(self, user: UserKey, now: int) -> list[Invite]:
        """Return pending invitations that have not expired, newest first, from a strong read."""
        ...

    async def decline(self, user: UserKey, chat: ChatId, now: int) -> None:
        """Mark the pending invitation into this chat as declined, if there is one.

        The declined invitation stays stored for some days.
        """
        ...

    async def remove(self, user: UserKey, chat: ChatId) -> None:
        """Remove the invitation, if there is one."""
        ...


class Deletions(Protocol):
    """Stores and performs the jobs that delete chats. Calls are durable when they return."""

    async def get(self, chat: ChatId) -> Deletion | None:
        """Return the deletion job of a chat, if the chat is deleted, from a strong read."""
        ...

    async def unfinished(self, *, before: int, limit: int) -> list[ChatId]:
        """Return some chats whose deletion began at or before `before` and is not finished."""
        ...

    async def lease(self, chat: ChatId, holder: str, now: int) -> Deletion | None:
        """Acquire the lease on deleting a chat, and return its deletion job; return None if another
        holder has the lease.

        Two holders at once would do no harm, but the work would be done and paid for twice.
        """
        ...

    async def step(self, deletion: Deletion, holder: str, now: int) -> Deletion | None:
        """Do the next bounded part of the deletion, and return the progress.

        A repeated step changes nothing, so a process may die at any moment. Returns None if another
        holder has the lease by now.
        """
        ...
