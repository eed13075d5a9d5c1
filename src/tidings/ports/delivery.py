# SPDX-License-Identifier: Apache-2.0
"""Ports that delivery reads: entries, head copies and mutes of the store, and its change stream."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey


class DeliveryStore(Protocol):
    """Store calls for delivery. They check no reader: delivery itself sends to members only.

    Every call raises StoreUnavailable if the store does not answer.
    """

    async def entries(self, chat: ChatId, *, after: int, limit: int) -> list[Entry]:
        """Return the next entries after a sequence in their current state, read strongly.

        `edited` entries come with their target as `shown`.
        """
        ...

    async def advance(self, chat: ChatId, head: Head, member_count: int | None) -> None:
        """Store in the head copy that entries up to `head` are delivered; durable on return.

        The copy only moves forward. It is written at most once a second per chat: a call within
        that second waits for its end. `member_count` is given if the entries changed it.
        """
        ...

    async def reached(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        """Return the sequences of the stored head copies, read strongly; others are omitted."""
        ...

    async def mutes(self, chat: ChatId) -> Mapping[UserKey, int]:
        """Return until when each member has muted the chat; members who did not are omitted."""
        ...


class EntryWritten(msgspec.Struct, frozen=True):
    """An entry was stored at this sequence."""

    chat: ChatId
    sequence: int
    at: int
    """Approximate time of the write by the store's clock."""


class ContentExpired(msgspec.Struct, frozen=True):
    """The expired content of the message at this sequence was deleted."""

    chat: ChatId
    sequence: int


Change = EntryWritten | ContentExpired


class Changes(Protocol):
    """All changes of the last day, each at least once after a start, in any order."""

    async def poll(self) -> Sequence[Change]:
        """Return some changes not returned yet; an empty list if there are no more now.

        Raises:
            StoreUnavailable: Try again later; nothing is skipped.
        """
        ...
