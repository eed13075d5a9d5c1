# SPDX-License-Identifier: Apache-2.0
"""List who has received and read a message, and when.

In a large chat this reads the receipts of many members. All requests that a process gets for the
same chat within half a minute therefore share one read.
"""

import asyncio
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from tidings.actions.chat.message_changes import find_message
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.blocks import BlockLists
from tidings.caches import LruCache
from tidings.model import limits
from tidings.model.blocks import masked_with_times, peers
from tidings.model.chats import ReceiptWithTimes
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound
from tidings.ports.chats import Receipts
from tidings.ports.log import Log
from tidings.ports.world import Clock

LARGE_AGE_MS_MAX: Final = 30 * limits.SECOND_MS
"""Maximum age of cached receipts of a large chat, in milliseconds."""
LARGE_CHATS_MAX: Final = 32
"""Number of large chats whose receipts are cached; a thousand members need about a megabyte."""


class MessageReceipts(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the members to whom a message was sent, and how many of all such members have
    received and read it."""

    sent_at: int
    page: list[ReceiptWithTimes]
    cursor: str | None
    delivered: int
    read: int
    as_of: int


class _ReadReceipts(msgspec.Struct, frozen=True):
    at: int
    members: list[ReceiptWithTimes]


class ListMessageReceipts:
    """List who has received and read a message, in the order in which the members joined."""

    def __init__(
        self, log: Log, receipts: Receipts, cursors: Cursors, clock: Clock, blocks: BlockLists
    ) -> None:
        self._log = log
        self._receipts = receipts
        self._cursors = cursors
        self._clock = clock
        self._blocks = blocks
        self._large: LruCache[ChatId, _ReadReceipts] = LruCache(LARGE_CHATS_MAX, name="receipts")
        self._locks: WeakValueDictionary[ChatId, asyncio.Lock] = WeakValueDictionary()

    async def __call__(
        self, reader: UserKey, chat: ChatId, sequence: int, cursor: str | None, limit: int
    ) -> MessageReceipts:
        """Return a page of members, without the sender and members who joined after the message.

        Raises:
            ChatNotFound: The reader is not a member.
            MessageNotFound: There is no such message.
            CursorInvalid: The cursor is not for this list.
        """
        purpose = f"receipts\0{chat}\0{sequence}"
        after = self._cursors.position(purpose, reader, cursor)
        message = await find_message(self._log, reader, chat, sequence)
        known = await self._read_receipts(chat, reader)
        found = await self._blocks.of(reader, peers([one.receipt for one in known.members]))
        concerned = [
            masked_with_times(member, chat, found)
            for member in known.members
            if member.joined < sequence and member.receipt.user != message.sender
        ]
        rest = [member for member in concerned if after is None or _position(member) > after]
        end = _position(rest[limit - 1]) if len(rest) > limit else None
        return MessageReceipts(
            sent_at=message.created_at,
            page=rest[:limit],
            cursor=self._cursors.after(purpose, reader, end),
            delivered=sum(member.receipt.delivered >= sequence for member in concerned),
            read=sum(member.receipt.read >= sequence for member in concerned),
            as_of=known.at,
        )

    async def _read_receipts(self, chat: ChatId, reader: UserKey) -> _ReadReceipts:
        """Return the receipts of all members of a chat, from the cache if the chat is large.

        Raises:
            ChatNotFound: The reader is not a member.
        """
        async with self._locks.setdefault(chat, asyncio.Lock()):
            now = self._clock.now()
            known = self._large.get(chat)
            if known is not None and 0 <= now - known.at < LARGE_AGE_MS_MAX:
                return known
            members = await self._receipts.with_times(chat, reader)
            if members is None:
                raise ChatNotFound
            known = _ReadReceipts(now, members)
            if len(members) > limits.SMALL_CHAT_MEMBERS_MAX:
                self._large.put(chat, known)
            return known


def _position(member: ReceiptWithTimes) -> str:
    """Return the position of a member in the list, as text that sorts by the time of joining."""
    return f"{member.joined:016d}#{member.receipt.user}"
