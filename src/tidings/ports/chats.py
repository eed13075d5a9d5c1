# SPDX-License-Identifier: Apache-2.0
"""Ports for chats: creation, the chat list, members, invitations, deletion, receipts."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.chats import Chat, ChatHead, ChatRow, Receipt, Unread
from tidings.model.entries import Deletion, Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Asked, Invite, Member


class Move(msgspec.Struct, frozen=True):
    """A user has received or read a chat up to here."""

    user: UserKey
    chat: ChatId
    delivered: int = 0
    read: int = 0


class OwnSpan(msgspec.Struct, frozen=True):
    """A span of consecutive messages by one user: after `from_number`, up to `to_number`."""

    from_number: int
    to_number: int
    to_sequence: int


class OwnSends(msgspec.Struct, frozen=True):
    """A user's recent messages, in spans separated by messages of others, earliest first.

    The read mark moves to the end of the span it is in, which means that nothing before the span's
    first message was unread; outside all spans it does not move. In either case the chat becomes
    the user's own.
    """

    user: UserKey
    chat: ChatId
    spans: tuple[OwnSpan, ...]

    def span_of(self, read_number: int) -> OwnSpan | None:
        """Return the span that contains a read mark."""
        for span in self.spans:
            if span.from_number <= read_number <= span.to_number:
                return span
        return None


class Receipts(Protocol):
    """Receipt rows, which exist exactly as long as their membership."""

    async def move(self, moves: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
        """Move receipts, durably: forwards only, never beyond the head, only where a row exists.

        Returns the receipts that moved, with their new values. All others are skipped.

        Raises:
            StoreUnavailable: Unknown outcome; safe to repeat.
        """
        ...

    async def advance(self, move: Move) -> tuple[Receipt, Head] | None:
        """Move one receipt, durably, and return it with the head; None if not a member.

        Raises:
            ReceiptBeyondHead: The log, read strongly, does not reach that far.
            StoreUnavailable: Unknown outcome; safe to repeat.
        """
        ...

    async def of_chat(self, chat: ChatId, reader: UserKey) -> list[Receipt] | None:
        """Return the receipts of all members; None unless the reader is a member."""
        ...

    async def unread(self, user: UserKey, chat: ChatId, now: int) -> Unread | None:
        """Return what the user has not read; None if not a member."""
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
    """Chats and memberships."""

    async def create(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created:
        """Create a chat with its first entries, at once or resumable under the request key.

        Each pair of users has one direct chat: if it exists, it is returned. A repeat with the same
        request key, until that expires, returns the chat of the first call.

        Raises:
            RequestConflict: The key was used with another digest.
            LimitReached: One of the users has reached the limit of chats.
            StoreUnavailable: Unknown outcome; repeat with the same key.
        """
        ...

    async def find(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created | None:
        """Return what `create` would return without creating; None if it would create the chat.

        Raises:
            RequestConflict: The key was used with another digest.
            StoreUnavailable: Repeat.
        """
        ...

    async def listing(
        self, user: UserKey, *, below: tuple[int, ChatId] | None, limit: int, now: int
    ) -> list[ChatRow]:
        """Return a user's chats, latest activity first, starting below (active_at, chat_id)."""
        ...

    async def row(self, user: UserKey, chat: ChatId, now: int) -> ChatRow | None:
        """Return one chat as the user's chat list shows it; None if not a member."""
        ...

    async def members(self, chat: ChatId, reader: UserKey) -> dict[UserKey, Member] | None:
        """Return all members, earliest joined first; None unless the reader is a member."""
        ...

    async def mute(self, chat: ChatId, user: UserKey, until: int | None) -> bool:
        """Store until when the user wants no push from the chat, durably; False if not a member."""
        ...

    async def list_heads(self, user: UserKey) -> list[ChatHead]:
        """Return a user's chats with heads and receipts, latest activity first; read strongly."""
        ...

    async def ids(self, user: UserKey) -> list[ChatId]:
        """Return the ids of a user's chats, in any order; read strongly."""
        ...

    async def acquainted(self, user: UserKey, others: Sequence[UserKey]) -> set[UserKey]:
        """Return the users among `others` who created or wrote in a direct chat with the user.

        A user who wrote within the last seconds may be missing.
        """
        ...

    async def heads(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        """Return how far these logs reach or were delivered; chats that do not exist are omitted.

        Read strongly, and never behind what this process has seen. No membership is checked: the
        caller only finds out which logs to read.
        """
        ...


class InviteStore(Protocol):
    """Invitations, at most one for each user and chat. Every write is durable when it returns."""

    async def put(self, invite: Invite, now: int) -> Asked:
        """Store an invitation, replacing a pending one into the same chat, unless it is refused.

        `asking` decides. Two invitations at the same moment may both take the last place.
        """
        ...

    async def get(self, user: UserKey, chat: ChatId, now: int) -> Invite | None:
        """Return the pending invitation into this chat; read strongly."""
        ...

    async def pending(self, user: UserKey, now: int) -> list[Invite]:
        """Return the pending invitations that have not expired, newest first; read strongly."""
        ...

    async def decline(self, user: UserKey, chat: ChatId, now: int) -> None:
        """Decline the pending invitation into this chat, and store that for some days.

        Does nothing if no invitation is pending.
        """
        ...

    async def remove(self, user: UserKey, chat: ChatId) -> None:
        """Remove the invitation, if there is one."""
        ...


class Deletions(Protocol):
    """Deletion jobs of chats, finished or not. Calls are durable when they return."""

    async def get(self, chat: ChatId) -> Deletion | None:
        """Return the deletion job of a chat, if the chat is deleted; read strongly."""
        ...

    async def unfinished(self, *, before: int, limit: int) -> list[ChatId]:
        """Return some chats whose deletion began no later than `before` and is not done."""
        ...

    async def lease(self, chat: ChatId, holder: str, now: int) -> Deletion | None:
        """Take the lease on deleting a chat; None if another holder has it.

        Two holders at once do no harm, but the work would be done, and paid for, twice.
        """
        ...

    async def step(self, deletion: Deletion, holder: str, now: int) -> Deletion | None:
        """Do the next bounded part of the work, and return the progress.

        The same step again changes nothing, so that a process may die anywhere. None if another
        holder has the lease by now.
        """
        ...
