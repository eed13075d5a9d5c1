# SPDX-License-Identifier: Apache-2.0
"""Chats as their members see them: making one, the chat list, members, mute."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.chat_list import ChatRow, Held
from tidings.model.chats import Chat
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
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

    async def held(self, user: UserKey) -> list[Held]:
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
