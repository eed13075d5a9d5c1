# SPDX-License-Identifier: Apache-2.0
"""Receipts: how far each user is in each chat. They only ever move forward."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidings.model.entries import Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipts import Receipt, Unread


class Move(msgspec.Struct, frozen=True):
    """A user has received or read a chat up to here."""

    user: UserKey
    chat: ChatId
    delivered: int = 0
    read: int = 0


class OwnSpan(msgspec.Struct, frozen=True):
    """A user wrote all messages after one number up to another, nobody else one in between."""

    from_number: int
    to_number: int
    to_sequence: int


class OwnSends(msgspec.Struct, frozen=True):
    """What a user wrote of late, in spans that messages of others part, the earliest first.

    It moves the read mark to the end of the span it stands in, if it stands in one: if nothing was
    unread before the first message of it. Whether it moves or not, the chat is the user's own from
    then on.
    """

    user: UserKey
    chat: ChatId
    spans: tuple[OwnSpan, ...]

    def span_of(self, read_number: int) -> OwnSpan | None:
        """The span in which a read mark stands."""
        for span in self.spans:
            if span.from_number <= read_number <= span.to_number:
                return span
        return None


class Receipts(Protocol):
    """The receipt rows. A row exists just as long as its membership."""

    async def move(self, moves: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
        """Move receipts, durably: forwards only, never beyond the head, only where a row exists.

        Returns those that are further than before, as they stand now. The others are passed over.

        Raises:
            StoreUnavailable: Unknown outcome; safe to repeat.
        """
        ...

    async def advance(self, move: Move) -> tuple[Receipt, Head] | None:
        """Move one receipt and answer, durably, with where it stands; None if not a member.

        Raises:
            ReceiptBeyondHead: The log, read strongly, does not reach that far.
            StoreUnavailable: Unknown outcome; safe to repeat.
        """
        ...

    async def of_chat(self, chat: ChatId, reader: UserKey) -> list[Receipt] | None:
        """The receipts of all members; None unless the reader is one."""
        ...

    async def unread(self, user: UserKey, chat: ChatId, now: int) -> Unread | None:
        """What the user has not read; None if not a member."""
        ...
