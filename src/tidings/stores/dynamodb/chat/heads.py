# SPDX-License-Identifier: Apache-2.0
"""Head copies, one item per chat, so that few requests read many heads; and the delivery store.

A copy is written after the entry, at most once per second for each chat, and only moves forward. It
may be behind the log, but never ahead of it. Answers are correct nevertheless:

- A process caches the last head that it appended or read from the log, for up to
  `KNOWN_HEADS_MAX` chats. It uses the cached head if the stored copy is older.
- If a chat has no copy, for instance because it is new, the log itself is read.
- A process that dies loses the copies of its last second. If there is only one process, it
  therefore reads the log of each chat whose head it has not cached, for instance after a restart.
  If there are many processes, the relay compares the stream of the log's table with the copies, and
  delivers the entries that the copies do not include.

A copy also contains the member count, as of the last entry that changed the count.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tidings.caches import LruCache
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.delivery import DeliveryStore
from tidings.stores.dynamodb.chat.items import head_values, to_head
from tidings.stores.dynamodb.chat.pages import entries_at, items_after, to_entries
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.patterns import (
    ADVANCE_HEAD,
    CHECK_HEADS,
    LIST_MUTES,
    READ_ENTRIES,
    READ_HEADS,
    SHOW_HEADS,
)
from tidings.tasks import Tasks

WRITE_SECONDS_MIN: Final = 1.0
KNOWN_HEADS_MAX: Final = 20_000

_WRITE_HEAD: Final = (
    "SET #sequence = :sequence, #number = :number, #last_message = :last_message,"
    " #active_at = :active_at"
)
_WRITE_COUNT: Final = "SET #member_count = :member_count, #counted = :counted"
_WRITE_BOTH: Final = f"{_WRITE_HEAD}, {_WRITE_COUNT[4:]}"
_IS_LATER: Final = "(attribute_not_exists(#sequence) OR #sequence < :sequence)"
_COUNTS_LATER: Final = "(attribute_not_exists(#counted) OR #counted < :counted)"


class MemberCount(msgspec.Struct, frozen=True, order=True):
    """Number of members after the entry with the sequence `counted`."""

    counted: int
    members: int


class HeadCopy(msgspec.Struct, frozen=True):
    """The head of a log and, if it is known, the member count."""

    head: Head
    count: MemberCount | None = None

    def merged(self, other: "HeadCopy") -> "HeadCopy":
        """Return a copy with the later head and the later count of the two copies."""
        counts = [copy.count for copy in (self, other) if copy.count is not None]
        head = max(self.head, other.head, key=lambda head: head.sequence)
        return HeadCopy(head, max(counts, default=None))


class Heads:
    """Writer and reader of head copies."""

    def __init__(self, dynamo: Dynamo, *, writes: bool) -> None:
        """If `writes` is true, this process updates the copies; otherwise delivery workers do."""
        self._dynamo = dynamo
        self._writes = writes
        self._known: LruCache[ChatId, Head] = LruCache(KNOWN_HEADS_MAX)
        self._pending: dict[ChatId, HeadCopy] = {}
        self._in_flight: set[ChatId] = set()
        self._waiting: dict[ChatId, list[asyncio.Future[None]]] = {}
        self._tasks = Tasks("heads")
        self._closing = asyncio.Event()

    def known(self, chat: ChatId) -> Head:
        """Return the last head that this process saw; the log may be longer by now."""
        return self._known.peek(chat) or Head()

    def appended(self, chat: ChatId, head: Head, member_count: int | None = None) -> None:
        """Record the head after an append by this process; the count is None if unchanged."""
        self.saw(chat, head)
        if self._writes:
            self.advance(chat, head, member_count)

    def must_look(self, chat: ChatId) -> bool:
        """Return whether the copy may be old because a process died before it wrote a new one."""
        return self._writes and self._known.peek(chat) is None

    def looked(self, chat: ChatId, copy: HeadCopy) -> None:
        """Record a head and count that were just read from the log and the chat's item.

        If this process writes copies, it also corrects an outdated copy.
        """
        self.saw(chat, copy.head)
        if self._writes:
            self._keep(chat, copy)

    def saw(self, chat: ChatId, head: Head) -> None:
        """Cache this head, unless a later one is cached."""
        known = self._known.get(chat) or Head()
        if head.sequence > known.sequence:
            self._known.put(chat, head)

    def advance(self, chat: ChatId, head: Head, member_count: int | None = None) -> None:
        """Write the copy in the background, now or one second after the previous write."""
        count = None if member_count is None else MemberCount(head.sequence, member_count)
        self._keep(chat, HeadCopy(head, count))

    def _keep(self, chat: ChatId, new: HeadCopy) -> None:
        earlier = self._pending.get(chat)
        self._pending[chat] = earlier.merged(new) if earlier else new
        if chat not in self._in_flight:
            self._in_flight.add(chat)
            self._tasks.start(self._write_until_done(chat))

    async def _write_until_done(self, chat: ChatId) -> None:
        try:
            while chat in self._pending:
                copy = self._pending[chat]
                is_written = await self._write(chat, copy)
                if is_written and self._pending[chat] is copy:
                    del self._pending[chat]
                    self._resolve_waiting(chat, None)
                if not is_written and self._closing.is_set():
                    return
                await self._pause()
        finally:
            self._in_flight.discard(chat)
            self._resolve_waiting(chat, StoreUnavailable())

    def _resolve_waiting(self, chat: ChatId, refusal: StoreUnavailable | None) -> None:
        for waiting in self._waiting.pop(chat, ()):
            if waiting.done():
                continue
            if refusal is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(refusal)

    async def settled(self, chat: ChatId) -> None:
        """Wait until the stored copy includes every head that was passed to `advance`.

        Raises:
            StoreUnavailable: The store is closing, and the copy could not be written.
        """
        if chat in self._pending:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(chat, []).append(waiting)
            await waiting

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(WRITE_SECONDS_MIN):
                await self._closing.wait()
        except TimeoutError:
            return

    async def _write(self, chat: ChatId, copy: HeadCopy) -> bool:
        """Write the parts that are newer than those stored; return False if the store fails."""
        try:
            async with self._dynamo.background:
                await self._write_parts(chat, copy)
        except StoreUnavailable:
            return False
        return True

    async def _write_parts(self, chat: ChatId, copy: HeadCopy) -> None:
        head, count = head_values(copy.head), copy.count
        if count is None:
            await self._update(chat, _WRITE_HEAD, _IS_LATER, head)
            return
        counted = {":counted": count.counted, ":member_count": count.members}
        both = {**head, **counted}
        if not await self._update(chat, _WRITE_BOTH, f"{_IS_LATER} AND {_COUNTS_LATER}", both):
            await self._update(chat, _WRITE_HEAD, _IS_LATER, head)
            await self._update(chat, _WRITE_COUNT, _COUNTS_LATER, counted)

    async def _update(self, chat: ChatId, update: str, condition: str, values: Item) -> bool:
        try:
            await self._dynamo.update(ADVANCE_HEAD, {"chat_id": chat}, update, condition, values)
        except ConditionFailed:
            return False
        return True

    async def read(self, chats: Sequence[ChatId], *, strong: bool) -> dict[ChatId, HeadCopy]:
        """Return the copies of these chats; chats without a copy are left out."""
        pattern = READ_HEADS if strong else SHOW_HEADS
        items = await self._dynamo.batch_get(pattern, [{"chat_id": chat} for chat in chats])
        stored = {ChatId(item["chat_id"]): _to_copy(item) for item in items}
        copies = {}
        for chat in chats:
            both = (stored.get(chat), self._pending.get(chat))
            found = [copy for copy in both if copy is not None]
            if found:
                copies[chat] = found[0].merged(found[-1]).merged(HeadCopy(self.known(chat)))
        return copies

    async def close(self) -> None:
        """Write the pending copies; later appends correct those that cannot be written now."""
        self._closing.set()
        await self._tasks.finish()


def _to_copy(item: Item) -> HeadCopy:
    is_counted = "counted" in item
    count = MemberCount(item["counted"], item["member_count"]) if is_counted else None
    return HeadCopy(to_head(item), count)


class DynamoDeliveryStore:
    """The entries, head copies and mutes that delivery reads and writes."""

    def __init__(self, dynamo: Dynamo, heads: Heads) -> None:
        self._dynamo = dynamo
        self._heads = heads

    async def entries(self, chat: ChatId, *, after: int, limit: int) -> list[Entry]:
        items = await items_after(self._dynamo, chat, after, limit)
        entries = await to_entries(self._dynamo, items)
        edited = [(chat, edit.target) for edit in entries if edit.kind == "edited" and edit.target]
        targets = await entries_at(self._dynamo, READ_ENTRIES, edited)
        for entry in entries:
            if entry.kind == "edited" and entry.target is not None:
                entry.shown = targets.get((chat, entry.target))
        return entries

    async def advance(self, chat: ChatId, head: Head, member_count: int | None) -> None:
        self._heads.advance(chat, head, member_count)
        await self._heads.settled(chat)

    async def reached(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        # Only stored copies are used: entries up to a cached head were perhaps never delivered.
        keys = [{"chat_id": chat} for chat in dict.fromkeys(chats)]
        items = await self._dynamo.batch_get(CHECK_HEADS, keys)
        return {ChatId(item["chat_id"]): item.get("sequence", 0) for item in items}

    async def mutes(self, chat: ChatId) -> Mapping[UserKey, int]:
        rows = await self._dynamo.query(
            LIST_MUTES, "#chat_id = :chat", {":chat": chat}, only="attribute_exists(#muted_until)"
        )
        return {UserKey(row["user_id"]): row["muted_until"] for row in rows}


_conforms: type[DeliveryStore] = DynamoDeliveryStore
