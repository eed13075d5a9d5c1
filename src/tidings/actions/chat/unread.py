# SPDX-License-Identifier: Apache-2.0
"""Count unread messages, in one chat and over all; mark chats as read or unread; hide chats.

The store finds the messages after the read mark. This module then subtracts the erased messages,
because only the data keys show which these are, and the messages of blocked users.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
from tidings.actions.content.vault import Vault
from tidings.actions.identity.blocks import BlockLists
from tidings.actions.inbox.counting import CountUnread
from tidings.actions.inbox.settings import ListInboxes
from tidings.model import limits
from tidings.model.blocks import BlockList
from tidings.model.chats import (
    NOTHING_UNREAD,
    ChatHead,
    ChatRow,
    Move,
    Receipt,
    Unread,
    UnreadByKey,
    UnreadFound,
)
from tidings.model.entries import Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound, InboxNotFound, StoreUnavailable
from tidings.model.unread_counts import unread_without_a_look
from tidings.model.unread_totals import UnreadTotal, total_of
from tidings.ports.bus import Bus, ChatChanged, ReceiptMoved
from tidings.ports.chats import Chats, Receipts
from tidings.ports.world import Clock

KEY_LOADS_MAX: Final = 50
"""Number of data keys that one count loads to find erased messages. If it needs more keys, the
count is an upper bound."""
TOTAL_CHATS_MAX: Final = 50
TOTAL_ENTRIES_MAX: Final = 200
"""A user's total counts `TOTAL_CHATS_MAX` unread chats in the log, each up to `TOTAL_ENTRIES_MAX`
entries after the read mark. For the other chats, an upper bound is added to the total."""
TOTAL_INBOX_MAX: Final = 100
"""Maximum that one inbox adds to a user's total."""


class UnreadCounter(msgspec.Struct, frozen=True):
    """Count the unread messages of a user in a chat."""

    receipts: Receipts
    vault: Vault
    clock: Clock
    blocks: BlockLists

    async def __call__(self, user: UserKey, chat: ChatId) -> Unread | None:
        """Return the unread count; None if the user is not a member."""
        counted = await self.up_to(user, chat)
        return None if counted is None else counted[0]

    async def up_to(self, user: UserKey, chat: ChatId) -> tuple[Unread, int] | None:
        """Return the unread count, and the sequence of the last entry that was considered."""
        found = await self.receipts.unread(user, chat, self.clock.now())
        return None if found is None else (await self.visible(user, chat, found), found.up_to)

    async def after(self, chat: ChatId, head: Head, receipt: Receipt) -> Unread:
        """Return the unread count for a head and a receipt that were just read."""
        unread = unread_without_a_look(head, receipt)
        if unread is None:
            found = await self.receipts.count([ChatHead(chat, head, receipt, 0)], self.clock.now())
            return await self.visible(receipt.user, chat, found[0])
        return await self.visible(receipt.user, chat, UnreadFound(unread))

    async def visible(self, user: UserKey, chat: ChatId, found: UnreadFound) -> Unread:
        """Return the unread count without messages that are erased, or from users whom the user
        blocks."""
        blocks = await self.blocks.of(user)
        if chat in blocks.silent_chats and not found.unread.exact:
            return NOTHING_UNREAD
        return _visible(found, await _invisible(self.vault, found.by_key, blocks.blocked))


async def subtract_invisible(vault: Vault, rows: Sequence[ChatRow], blocks: BlockList) -> None:
    """Subtract erased messages, and those of blocked users, from the unread counts of a chat
    list."""
    keys = dict.fromkeys(key for row in rows for key in row.unread_by_key)
    invisible = await _invisible(vault, keys, blocks.blocked)
    silent = blocks.silent_chats
    for row in rows:
        found = UnreadFound(row.unread, row.unread_by_key, row.mentions_by_key)
        is_silent = row.chat_id in silent and not row.unread.exact
        row.unread = NOTHING_UNREAD if is_silent else _visible(found, invisible)


async def _invisible(
    vault: Vault, keys: Iterable[tuple[UserKey, int]], blocked: Collection[UserKey]
) -> dict[tuple[UserKey, int], bool]:
    """Return for each data key whether its messages are hidden; keys that cannot be loaded now are
    left out."""
    of_others = [key for key in keys if key[0] not in blocked]
    erased = await vault.erased(of_others, KEY_LOADS_MAX)
    return {**{key: True for key in keys if key[0] in blocked}, **erased}


def _visible(found: UnreadFound, invisible: Mapping[tuple[UserKey, int], bool]) -> Unread:
    """Return the unread count without invisible messages; an upper bound if some data keys were
    not loaded."""
    count = found.unread.count - _of_invisible(found.by_key, invisible)
    mentions = found.unread.mentions - _of_invisible(found.mentions_by_key, invisible)
    is_known = all(key in invisible or key[1] == 0 for key in found.by_key)
    return Unread(count, found.unread.exact and is_known, mentions)


def _of_invisible(by_key: UnreadByKey, invisible: Mapping[tuple[UserKey, int], bool]) -> int:
    return sum(n for key, n in by_key.items() if invisible.get(key))


class MarkReceipt(msgspec.Struct, frozen=True):
    """Move a user's receipt forward, and return it with the unread count."""

    receipts: Receipts
    waiting: CoalescedReceipts
    count: UnreadCounter
    bus: Bus
    clock: Clock

    async def __call__(
        self, user: UserKey, chat: ChatId, delivered: int, read: int
    ) -> tuple[Receipt, Unread]:
        """Move the receipt; the move is durable when this returns.

        A mark of 0 leaves the stored mark unchanged. Marks that the user's other devices sent over
        sockets of this process are written first, so that the count includes them.

        Raises:
            ReceiptBeyondHead: A mark is beyond the head of the log.
            ChatNotFound: The user is not a member.
        """
        await self.waiting.settle(user, chat)
        moved = await self.receipts.advance(Move(user, chat, delivered, read, self.clock.now()))
        if moved is None:
            raise ChatNotFound
        receipt, head = moved
        unread = await self.count.after(chat, head, receipt)
        self.bus.publish(ReceiptMoved(chat, receipt, by_reading=read > 0))
        return receipt, unread


class MarkUnread(msgspec.Struct, frozen=True):
    """Mark a chat as unread for one user. The receipt does not move, and others see no change."""

    receipts: Receipts
    waiting: CoalescedReceipts
    count: UnreadCounter
    bus: Bus

    async def __call__(
        self, user: UserKey, chat: ChatId, first: int | None
    ) -> tuple[Receipt, Unread]:
        """Mark the chat as unread from the sequence `first` on; None removes this mark.

        Moves of the receipt that still wait are written first. A move that was written later would
        remove the mark.

        Raises:
            Invalid: Unread messages cannot be counted from this sequence.
            ChatNotFound: The user is not a member.
            StoreUnavailable: Such a move could not be written.
        """
        if not await self.waiting.settle(user, chat):
            raise StoreUnavailable
        receipt = await self.receipts.mark_unread(user, chat, first)
        unread = None if receipt is None else await self.count(user, chat)
        if receipt is None or unread is None:
            raise ChatNotFound
        self.bus.publish(ChatChanged(user, chat))
        return receipt, unread


class HideChat(msgspec.Struct, frozen=True):
    """Hide a chat for one user until its next message, or show it again."""

    receipts: Receipts
    bus: Bus

    async def __call__(self, user: UserKey, chat: ChatId, *, is_hidden: bool) -> None:
        if await self.receipts.hide(user, chat, is_hidden=is_hidden) is None:
            raise ChatNotFound
        self.bus.publish(ChatChanged(user, chat))


class CountTotal(msgspec.Struct, frozen=True):
    """Count everything that a user has not read, with a bounded amount of work."""

    chats: Chats
    waiting: CoalescedReceipts
    count: UnreadCounter
    list_inboxes: ListInboxes
    count_inbox: CountUnread
    clock: Clock

    async def __call__(self, user: UserKey) -> UnreadTotal:
        """Return the total over all chats and inboxes, after what the user has just read."""
        await self.waiting.settle_soon(user)
        return await self.stored(user)

    async def stored(self, user: UserKey) -> UnreadTotal:
        """Return the total as it is stored; receipts of the last second may be missing."""
        return total_of((await self.of_chats(user)).values(), await self.of_inboxes(user))

    async def of_chat(self, user: UserKey, chat: ChatId) -> tuple[Unread, int] | None:
        """Return the unread count of one chat, after what the user has just read or written, and
        the sequence of the last entry that was considered; None if the user is not a member.

        Raises:
            StoreUnavailable: What the user has just read or written could not be stored.
        """
        if not await self.waiting.settle(user, chat):
            raise StoreUnavailable
        return await self.count.up_to(user, chat)

    async def of_chats(self, user: UserKey) -> dict[ChatId, Unread]:
        """Return the unread count of each chat with unread messages."""
        return await self.of_heads(await self.chats.list_heads(user))

    async def of_heads(self, chats: Sequence[ChatHead]) -> dict[ChatId, Unread]:
        """Return the unread count of each chat that has unread messages.

        `chats` are the user's chats, latest activity first. The first ones are counted in the log,
        if few entries follow the read mark. For the others, the number of all messages after the
        read mark is used as an upper bound. Chats with blocked users come last, and nothing in them
        is unread if they are not counted in the log.
        """
        counts: dict[ChatId, Unread] = {}
        to_count: list[ChatHead] = []
        silent = (await self.count.blocks.of(chats[0].receipt.user)).silent_chats if chats else ()
        for chat in sorted(chats, key=lambda one: one.chat_id in silent):
            left = chat.head.number - chat.receipt.unread_after_number
            if left <= 0:
                continue
            is_silent = chat.chat_id in silent
            counts[chat.chat_id] = NOTHING_UNREAD if is_silent else Unread(left, exact=False)
            entries = chat.head.sequence - chat.receipt.unread_after
            is_looked_at = len(counts) <= TOTAL_CHATS_MAX
            if is_looked_at and entries <= TOTAL_ENTRIES_MAX:
                to_count.append(chat)
        found = await self.count.receipts.count(to_count, self.clock.now()) if to_count else []
        for chat, one in zip(to_count, found, strict=True):
            counts[chat.chat_id] = await self.count.visible(chat.receipt.user, chat.chat_id, one)
        return counts

    async def of_inboxes(self, user: UserKey) -> dict[str, Unread]:
        """Return the unread count of each inbox; counting stops at a hundred."""
        inboxes, _ = await self.list_inboxes.of_user(user, None, limits.PAGE_MAX)
        counts = {}
        for name, _ in inboxes:
            with suppress(InboxNotFound):  # the inbox was deleted after the list was read
                counts[name] = await self.of_inbox(user, name)
        return counts

    async def of_inbox(self, user: UserKey, inbox: str) -> Unread:
        """Return the unread count of one inbox."""
        return await self.count_inbox.up_to(user, inbox, TOTAL_INBOX_MAX)
