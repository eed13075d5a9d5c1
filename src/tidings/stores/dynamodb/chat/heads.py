# SPDX-License-Identifier: Apache-2.0
"""Writes and reads head copies: the head and the last message of a log, in other items.

A group has its copy in the chat's item, which is read for every chat list anyway. A direct chat has
a copy in the receipt row of each of its two users, so that one query of a user's rows reads the
heads of all their direct chats.

A copy is written after the entry, at most once per second for each chat, and only moves forward. It
may be behind the log, but never ahead of it. Answers are correct nevertheless:

- A process caches the last head that it appended or read from the log, for up to
  `KNOWN_HEADS_MAX` chats. It uses the cached head if the stored copy is older.
- If there is no copy, for instance because the chat is new, the log itself is read.
- A process that dies loses the copies of its last second. If there is only one process, it
  therefore reads the log of each chat whose head it has not cached, for instance after a restart.
  If there are many processes, the relay compares the stream of the log's table with the copies, and
  delivers the entries that the copies do not include.

In a direct chat, a send moves the read mark of its sender. The same update usually also writes the
copy in the sender's row. A delivery worker writes this copy only if the row does not have it yet.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Final

from tidings.caches import LruCache
from tidings.model.entries import Entry, Head, head_of
from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.model.refusals import StoreUnavailable
from tidings.ports.delivery import BeforeHeadCopy
from tidings.stores.dynamodb.chat.head_copies import ChatPair, HeadCopy, copy_of, preview_change
from tidings.stores.dynamodb.chat.head_patterns import (
    ADVANCE_DIRECT_HEAD,
    ADVANCE_HEAD,
    CHECK_DIRECT_HEADS,
    TOUCH_DIRECT_PREVIEW,
    TOUCH_PREVIEW,
)
from tidings.stores.dynamodb.chat.items import (
    PREVIEW,
    head_values,
    receipt_key,
    room_in,
    to_head,
    to_last_message,
)
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.patterns import (
    READ_CHAT,
    READ_RECEIPT,
    Pattern,
)
from tidings.tasks import Tasks

WRITE_SECONDS_MIN: Final = 1.0
KNOWN_HEADS_MAX: Final = 20_000
LAG_SECONDS_MAX: Final = 10.0
"""Time after which all replicas of a table are assumed to have a write."""
TOUCHED_MAX: Final = 10_000

SET_HEAD: Final = (
    "#sequence = :sequence, #number = :number, #last_message = :last_message,"
    " #active_at = :active_at, #epoch = :epoch"
)
IS_LATER: Final = "(attribute_not_exists(#epoch) OR #epoch <> :epoch OR #sequence < :sequence)"
EPOCH_CHARS: Final = 8
IS_UNTOUCHED: Final = "(attribute_not_exists(#touched) OR #touched < :last_message)"
_IS_LAST: Final = (
    "(attribute_not_exists(#last_message) OR (#epoch = :epoch AND #last_message = :last_message))"
)
_IS_KEPT: Final = "attribute_not_exists(#deleted_at)"
"""Condition that a chat is not deleted. A deleted chat has an item but no content."""
_TOUCH: Final = f"SET #touched = :target REMOVE #{PREVIEW}"
_MAY_SHOW: Final = (
    "(attribute_not_exists(#epoch) OR #epoch <> :epoch OR #last_message <= :target)"
    " AND (attribute_not_exists(#touched) OR #touched < :target)"
)


class Heads:
    """Writes head copies, and caches the heads that this process has seen."""

    def __init__(self, dynamo: Dynamo, epoch: str, *, writes: bool) -> None:
        """Set up the writer; if `writes` is false, delivery workers write the head copies instead.

        Head copies of another epoch are ignored: after a restore they may be ahead of the log.
        """
        self._dynamo = dynamo
        self._epoch = epoch[:EPOCH_CHARS]
        self._writes = writes
        self._known: LruCache[ChatId, Head] = LruCache(KNOWN_HEADS_MAX, name="heads")
        self._pairs: LruCache[ChatId, ChatPair] = LruCache(KNOWN_HEADS_MAX)
        self._touched: LruCache[ChatId, float] = LruCache(TOUCHED_MAX)
        """When this process last removed the copy of each group."""
        self._pending: dict[ChatId, HeadCopy] = {}
        self._in_flight: set[ChatId] = set()
        self._waiting: dict[ChatId, list[asyncio.Future[None]]] = {}
        self._before: BeforeHeadCopy | None = None
        self._tasks = Tasks("heads")
        self._closing = asyncio.Event()

    # The cache.

    def known(self, chat: ChatId) -> Head:
        """Return the last head that this process saw; the log may be longer by now."""
        return self._known.peek(chat) or Head()

    def saw(self, chat: ChatId, head: Head) -> None:
        """Cache this head, unless a later one is cached."""
        known = self._known.get(chat) or Head()
        if head.sequence > known.sequence:
            self._known.put(chat, head)

    def must_look(self, chat: ChatId) -> bool:
        """Return True if the head copy may be outdated, because this process has cached no head."""
        return self._writes and self._known.peek(chat) is None

    def saw_chat(self, item: Item) -> ChatPair:
        """Cache the facts about a chat from its item."""
        users = tuple(item["first_members"]) if item["type"] == "direct" else ()
        pair = ChatPair(users, item["creator"], item["created_at"], room_in(item))
        self._pairs.put(ChatId(item["chat_id"]), pair)
        return pair

    async def pair(self, chat: ChatId) -> ChatPair | None:
        """Return the facts about a chat that hardly change; None if there is no such chat."""
        known = self._pairs.get(chat)
        if known is not None:
            return known
        item = await self._dynamo.get(READ_CHAT, {"chat_id": chat})
        return None if item is None else self.saw_chat(item)

    # Writing.

    def before_writing(self, call: BeforeHeadCopy) -> None:
        """Call this function before each head copy is written; if it fails, the copy waits."""
        self._before = call

    def appended(self, entry: Entry) -> None:
        """Record the head after an append by this process."""
        self.saw(entry.chat_id, head_of(entry))
        if self._writes:
            self.advance(entry.chat_id, copy_of(entry))

    def looked(self, chat: ChatId, head: Head) -> None:
        """Record a head that was just read from the log.

        If this process writes head copies, it also corrects an outdated one.
        """
        self.saw(chat, head)
        if self._writes:
            self.advance(chat, HeadCopy(head))

    def advance(self, chat: ChatId, new: HeadCopy) -> None:
        """Write a head copy in the background, now or one second after the previous write."""
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
        """Wait until the stored head copy includes every head that was passed to `advance`.

        Raises:
            StoreUnavailable: The store is closing, and the head copy could not be written.
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
        """Write a head copy unless a later one is stored; return False if the store fails."""
        try:
            async with self._dynamo.background:
                pair = await self.pair(chat)
                if pair is not None and self._before is not None:
                    await self._before(tenant_of(pair.creator), chat, copy.head.sequence)
                if pair is not None and not pair.users:
                    await self._put(ADVANCE_HEAD, {"chat_id": chat}, copy.within(pair.room), {})
                elif pair is not None:
                    # The other user's row comes first, because the sender's own mark may move
                    # meanwhile.
                    for user in sorted(pair.users, key=copy.is_sent_by):
                        await self._write_row(chat, user, pair, copy)
        except StoreUnavailable:
            return False
        return True

    async def fill(self, chat: ChatId, pair: ChatPair, head: Head) -> None:
        """Write the head copies of a chat that needs no delivery, for instance after an import.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        if not pair.users:
            await self._put(ADVANCE_HEAD, {"chat_id": chat}, HeadCopy(head), {})
        for user in pair.users:
            await self._write_row(chat, user, pair, HeadCopy(head))

    async def _write_row(self, chat: ChatId, user: UserKey, pair: ChatPair, copy: HeadCopy) -> None:
        key = receipt_key(user, chat)
        if copy.is_sent_by(user):
            if self._writes:
                return  # written with the user's own mark; until then this process knows the head
            row = await self._dynamo.get(READ_RECEIPT, key)
            if row is None or ("peer" in row and self.reached_in(row) >= copy.head.sequence):
                return
        await self._put(ADVANCE_DIRECT_HEAD, key, copy, pair.facts(user))

    async def _put(self, pattern: Pattern, key: Item, copy: HeadCopy, facts: Item) -> None:
        """Write a head copy into an item, unless the item has a later copy or does not exist.

        The write also removes the item's copied message, if that is no longer the chat's last
        message. A message that was edited or redacted is not copied.
        """
        condition = f"attribute_exists(#{next(iter(key))}) AND {IS_LATER}"
        update = ", ".join([f"SET {SET_HEAD}", *(f"#{name} = :{name}" for name in facts)])
        values = {**self.values(copy.head), **{f":{name}": facts[name] for name in facts}}
        if copy.last is None:
            # The stored message may still be the last one.
            shown, with_it, more = update, f"{condition} AND {_IS_LAST}", values
        else:
            preview, removes, new = preview_change(copy.last)
            shown = f"{update}{preview} REMOVE {removes}" if removes else f"{update}{preview}"
            with_it = f"{condition} AND {IS_UNTOUCHED} AND {_IS_KEPT}"
            more = {**values, **new}
        if not await self._try(pattern, key, shown, with_it, more):
            await self._try(pattern, key, f"{update} REMOVE #{PREVIEW}", condition, values)

    async def _try(
        self, pattern: Pattern, key: Item, update: str, condition: str, values: Item
    ) -> bool:
        """Write a head copy into an item, if the condition holds.

        Return True if the item now has this head or a later one, or no longer exists. Return False
        if the condition failed for another reason, such as a changed last message.
        """
        try:
            await self._dynamo.update(pattern, key, update, condition, values)
        except ConditionFailed as failed:
            stored = failed.item
            return stored is None or self.reached_in(stored) >= values[":sequence"]
        return True

    # Reading.

    def values(self, head: Head) -> Item:
        """Return the values for the update expression `SET_HEAD`, which writes a head."""
        return {**head_values(head), ":epoch": self._epoch}

    def head_in(self, item: Item) -> Head | None:
        """Return the copied head in an item; None if the item has none."""
        return to_head(item) if item.get("epoch") == self._epoch else None

    def reached_in(self, item: Item) -> int:
        """Return the sequence of the copied head in an item; 0 if the item has none."""
        head = self.head_in(item)
        return 0 if head is None else head.sequence

    def last_in(self, item: Item) -> Entry | None:
        """Return the last message if an item contains a valid copy of it; otherwise None."""
        return to_last_message(item) if item.get("epoch") == self._epoch else None

    async def stored(self, chats: Sequence[ChatId], pattern: Pattern) -> dict[ChatId, list[int]]:
        """Return the sequence in each stored head copy of these chats: one for a group, two for a
        direct chat.

        A row or item without a head copy counts as 0. Chats without members are left out.
        """
        known = {chat: self._pairs.peek(chat) for chat in chats}
        users = {chat: pair.users for chat, pair in known.items() if pair and pair.users}
        found: dict[ChatId, list[int]] = {}
        keys = [{"chat_id": chat} for chat in known if chat not in users]
        for item in await self._dynamo.batch_get(pattern, keys):
            chat = ChatId(item["chat_id"])
            users[chat] = self.saw_chat(item).users
            if item["first_members"] and not users[chat]:
                found[chat] = [self.reached_in(item)]
        rows = [receipt_key(user, chat) for chat, pair in users.items() for user in pair]
        for row in await self._dynamo.batch_get(CHECK_DIRECT_HEADS, rows):
            found.setdefault(ChatId(row["chat_id"]), []).append(self.reached_in(row))
        return found

    async def touch(self, chat: ChatId, target: int) -> None:
        """Remove the copies of a message that will be edited or redacted, the `target`.

        A late worker then cannot write such a copy again. Call this before the message is changed.
        If the change fails, chat lists read the message from the log.
        """
        pair = await self.pair(chat)
        if pair is None:
            return
        if not pair.users:
            self._touched.put(chat, monotonic())
            await self._touch(TOUCH_PREVIEW, {"chat_id": chat}, target)
        rows = [receipt_key(user, chat) for user in pair.users]
        await gather_bounded(
            partial(self._touch, TOUCH_DIRECT_PREVIEW, key, target) for key in rows
        )

    def may_lag(self, chat: ChatId) -> bool:
        """Return True if a relaxed read may still show a copy that this process has removed."""
        touched_at = self._touched.peek(chat)
        return touched_at is not None and monotonic() - touched_at < LAG_SECONDS_MAX

    async def _touch(self, pattern: Pattern, key: Item, target: int) -> None:
        condition = f"attribute_exists(#{next(iter(key))}) AND {_MAY_SHOW}"
        with suppress(ConditionFailed):  # the item has a later message, or the chat is gone
            values = {":target": target, ":epoch": self._epoch}
            await self._dynamo.update(pattern, key, _TOUCH, condition, values)

    async def close(self) -> None:
        """Write the pending head copies. If one cannot be written, a later append corrects it."""
        self._closing.set()
        await self._tasks.finish()
