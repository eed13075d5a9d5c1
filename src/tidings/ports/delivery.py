# SPDX-License-Identifier: Apache-2.0
"""What delivery asks of the store: entries as they are now, head copies, who wants no push."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey


class DeliveryStore(Protocol):
    """For those who deliver: nothing here asks who reads. What is handed out is judged by members.

    Every call raises StoreUnavailable if the store does not answer.
    """

    async def entries(self, chat: ChatId, *, after: int, limit: int) -> list[Entry]:
        """The next entries after a sequence, as they are now, read strongly.

        `edited` entries come with their target as `shown`.
        """
        ...

    async def advance(self, chat: ChatId, head: Head, member_count: int | None) -> None:
        """Have the head copy say: delivered up to here. Durable when it returns.

        Forwards only. A chat's copy is written at most once a second: a call within that second
        waits for its end. The member count is given where the entries up to the head changed it.
        """
        ...

    async def reached(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        """How far the stored head copies reach, read strongly; chats without one are left out."""
        ...

    async def mutes(self, chat: ChatId) -> Mapping[UserKey, int]:
        """Until when members want no push from the chat; those who do want it are left out."""
        ...


class EntryWritten(msgspec.Struct, frozen=True):
    """An entry stands at this place."""

    chat: ChatId
    sequence: int
    at: int
    """When, by the store's clock, about."""


class ContentExpired(msgspec.Struct, frozen=True):
    """The content that a message at this place had for a while is deleted."""

    chat: ChatId
    sequence: int


Change = EntryWritten | ContentExpired


class Changes(Protocol):
    """Every change of the last day, at least once after a start, in any order."""

    async def poll(self) -> Sequence[Change]:
        """Some changes not told yet; none if there are no more at the moment.

        Raises:
            StoreUnavailable: Try again later; nothing is passed over.
        """
        ...
