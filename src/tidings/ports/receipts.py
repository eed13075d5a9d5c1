# SPDX-License-Identifier: Apache-2.0
"""Port for receipts: how far each user has received and read each chat, moving forward only."""

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
