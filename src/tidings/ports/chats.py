# SPDX-License-Identifier: Apache-2.0
"""Chats as their members see them: making one, the chat list, members, mute."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.chats import Chat, ChatRow, HeldChat
from tidings.model.deletions import Deletion
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.invites import Asked, Invite
from tidings.model.roles import Member


class RequestKey(msgspec.Struct, frozen=True):
    """What makes a request to create a chat idempotent."""

    user: UserKey
    key: str
    digest: bytes
    expires_at: int


class Created(msgspec.Struct, frozen=True):
    """Which chat there is now, and whether this call made it."""

    chat_id: ChatId
    is_new: bool


class Chats(Protocol):
    """Chats and memberships."""

    async def create(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created:
        """Make a chat with its first entries, in one piece or resumable under the request key.

        A direct chat is claimed by its pair: if the two have one, that one is the answer. The
        same request key again, until it expires, answers with the chat of the first time.

        Raises:
            RequestConflict: The key was used with another digest.
            LimitReached: One of the people is in as many chats as one may be.
            StoreUnavailable: Unknown outcome; repeat with the same key.
        """
        ...

    async def find(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created | None:
        """What `create` would answer if it would make nothing; None if it would make the chat.

        Raises:
            RequestConflict: The key was used with another digest.
            StoreUnavailable: Repeat.
        """
        ...

    async def listing(
        self, user: UserKey, *, below: tuple[int, ChatId] | None, limit: int, now: int
    ) -> list[ChatRow]:
        """A user's chats, latest activity first, from below (active_at, chat_id) on."""
        ...

    async def row(self, user: UserKey, chat: ChatId, now: int) -> ChatRow | None:
        """One chat as it stands in the user's list; None if the user is not in it."""
        ...

    async def members(self, chat: ChatId, reader: UserKey) -> dict[UserKey, Member] | None:
        """All members, longest-standing first; None unless the reader is one."""
        ...

    async def mute(self, chat: ChatId, user: UserKey, until: int | None) -> bool:
        """Keep until when the user wants no push from the chat; False if not a member. Durable."""
        ...

    async def held(self, user: UserKey) -> list[HeldChat]:
        """All chats of a user with heads and receipts, latest activity first; read strongly."""
        ...

    async def ids(self, user: UserKey) -> list[ChatId]:
        """The chats a user is in, in any order; read strongly."""
        ...

    async def acquainted(self, user: UserKey, others: Sequence[UserKey]) -> set[UserKey]:
        """Of these, those who made or have written in a direct chat with the user.

        As of a moment ago: somebody who wrote within the last seconds may be missing.
        """
        ...

    async def heads(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        """How far these logs reach, or were delivered; chats that do not exist are left out.

        Read strongly, and no less than this process has seen. It asks nobody who reads: it is for
        finding out where to look.
        """
        ...


class InviteStore(Protocol):
    """At most one for each user and chat. Every write is durable when it returns."""

    async def put(self, invite: Invite, now: int) -> Asked:
        """Keep it, in place of one into the same chat that waits, unless it is refused.

        `asking` says what comes of it. Two at the same moment may both find the last place.
        """
        ...

    async def get(self, user: UserKey, chat: ChatId, now: int) -> Invite | None:
        """The one into this chat that waits; read strongly."""
        ...

    async def pending(self, user: UserKey, now: int) -> list[Invite]:
        """Those that wait and have not expired, newest first; read strongly."""
        ...

    async def decline(self, user: UserKey, chat: ChatId, now: int) -> None:
        """Let the one into this chat wait no longer, but keep for some days that it was declined.

        Nothing happens if none waits.
        """
        ...

    async def remove(self, user: UserKey, chat: ChatId) -> None:
        """Keep it no longer, if it is there."""
        ...


class Deletions(Protocol):
    """Chats that are being deleted, or were. Durable when a call returns."""

    async def get(self, chat: ChatId) -> Deletion | None:
        """The job of this chat, if it is deleted; read strongly."""
        ...

    async def unfinished(self, *, before: int, limit: int) -> list[ChatId]:
        """Some of the chats whose deletion began no later than `before` and is not done."""
        ...

    async def lease(self, chat: ChatId, holder: str, now: int) -> Deletion | None:
        """Be the only one to work on it for a while; None if somebody else is.

        Two who work on the same chat do no harm. They would do everything twice, and pay for it.
        """
        ...

    async def step(self, deletion: Deletion, holder: str, now: int) -> Deletion | None:
        """Do the next part of the work, a bounded one, and return how far it is then.

        The same step again changes nothing, so that a process may die anywhere. None: somebody
        else holds the lease by now.
        """
        ...
