# SPDX-License-Identifier: Apache-2.0
"""Blocks: what changes in the view of a user who blocks another, and what the other does not see.

A block changes what is shown, never what is stored. The blocker gets the other's entries without
content. The other can still send everything, but gets no receipts of the blocker in their direct
chat. Neither of the two sees when the other is online.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Final

import msgspec

from tidings.model.chats import ChatRow, Receipt, ReceiptWithTimes
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One user blocks another."""

    user: UserKey
    blocked: UserKey
    created_at: int
    chat_id: ChatId | None = None
    """The direct chat of the two users; None if there is none yet."""
    delivered: int = 0
    """The blocker's receipt in this chat when the block began. The other sees no later receipt."""
    read: int = 0


class BlockList(msgspec.Struct, frozen=True):
    """The blocks of a user, in both directions."""

    blocked: Mapping[UserKey, Block] = {}
    """The users whom this user blocks."""
    blocked_by: Mapping[UserKey, Block] = {}
    """Users who block this user: all of them, or some if `has_more`."""
    has_more: bool = False
    """Whether more users may block this user than were read."""

    @property
    def silent_chats(self) -> Set[ChatId]:
        """The direct chats with users whom this user blocks. Only messages that the tenant posts
        there are unread, so the number of all messages would be a useless upper bound."""
        return {block.chat_id for block in self.blocked.values() if block.chat_id is not None}

    def separates(self, other: UserKey) -> bool:
        """Return True if one of the two users blocks the other. Neither then learns whether, or
        when, the other is online."""
        return other in self.blocked or other in self.blocked_by

    def hears(self, other: UserKey, *, is_direct: bool) -> bool:
        """Return True if another member may learn that this user is typing."""
        return other not in self.blocked_by and not (is_direct and other in self.blocked)


BLOCKS_MAX: Final = 1_000
"""Number of users whom one user can block."""
READ_MAX: Final = 2_000
"""Number of blocks of one user that are read together. Any number of users can block a user."""


def peers(receipts: Sequence[Receipt]) -> list[UserKey]:
    """Return the users of a direct chat; none for larger chats, where all receipts are shown."""
    return [receipt.user for receipt in receipts] if len(receipts) <= 2 else []


def hide_content(entries: Iterable[Entry], blocked: Collection[UserKey]) -> None:
    """Remove the content of entries from blocked users, and mark these entries as blocked."""
    for entry in entries:
        if entry.sender in blocked:
            entry.blocked, entry.content, entry.attachments = True, None, ()
            if entry.shown is not None:
                entry.shown.content = None


def show_as_blocked(rows: Iterable[ChatRow], blocked: Collection[UserKey]) -> None:
    """Remove previews of messages from blocked users. A hidden direct chat with a blocked user
    stays hidden as long as that user sent its last message."""
    for row in rows:
        if row.last is None or row.last.sender not in blocked:
            continue
        row.last.content = None
        row.stays_hidden = row.type == "direct" and row.receipt.hidden_number >= 0


def masked(receipt: Receipt, chat: ChatId, found: BlockList) -> Receipt:
    """Return a receipt of a chat as a user with these blocks sees it."""
    block = found.blocked_by.get(receipt.user)
    if block is None or block.chat_id != chat:
        return receipt
    return msgspec.structs.replace(
        receipt,
        delivered=min(receipt.delivered, block.delivered),
        read=min(receipt.read, block.read),
    )


def masked_with_times(
    receipt: ReceiptWithTimes, chat: ChatId, found: BlockList
) -> ReceiptWithTimes:
    """Return a receipt and its times as a user with these blocks sees them."""
    shown = masked(receipt.receipt, chat, found)
    if shown is receipt.receipt:
        return receipt
    return msgspec.structs.replace(
        receipt,
        receipt=shown,
        delivered_times=[one for one in receipt.delivered_times if one[0] <= shown.delivered],
        read_times=[one for one in receipt.read_times if one[0] <= shown.read],
    )
