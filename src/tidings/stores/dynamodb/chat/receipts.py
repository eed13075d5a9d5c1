# SPDX-License-Identifier: Apache-2.0
"""Receipts on DynamoDB, and the functions that count unread messages.

The marks for received and read are stored separately, and each mark only increases. When a receipt
is loaded, everything that was read is also treated as received. A move is a conditional update, and
its condition makes a repeat harmless.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tidings.model.chats import (
    ChatHead,
    Move,
    OwnSends,
    OwnSpan,
    Receipt,
    ReceiptWithTimes,
    UnreadFound,
)
from tidings.model.entries import Entry, Head, head_of
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ReceiptBeyondHead
from tidings.model.unread_counts import check_unread_from
from tidings.ports.chats import Receipts
from tidings.stores.dynamodb.chat.head_copies import preview_change
from tidings.stores.dynamodb.chat.heads import (
    IS_LATER,
    IS_UNTOUCHED,
    SET_HEAD,
    Heads,
)
from tidings.stores.dynamodb.chat.items import (
    last_message_of,
    receipt_key,
    to_receipt,
    to_receipt_with_times,
)
from tidings.stores.dynamodb.chat.pages import (
    entries_at,
    head_of_chat,
    items_at,
    members_of,
    membership_row,
)
from tidings.stores.dynamodb.chat.receipt_times import (
    MARKED_UNREAD,
    MarksUpdate,
    NotedTimes,
    ReceiptTimes,
)
from tidings.stores.dynamodb.chat.shown_pages import receipts_of
from tidings.stores.dynamodb.chat.unread import count_unread, unread_of
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.patterns import (
    MAKE_OWN,
    MARK_CHAT,
    MOVE_RECEIPT,
    READ_ENTRIES,
    READ_RECEIPT,
    SHOW_RECEIPTS,
)

_Numbers = dict[tuple[ChatId, int], int]
"""Maps the chat and sequence of an existing entry to the number of messages up to this entry."""

_RECEIVED: Final = "attribute_exists(#user_id) AND #delivered < :delivered AND #read < :delivered"
_READ: Final = "attribute_exists(#user_id) AND #read < :read"
_OWN: Final = f"{_READ} AND #read_number BETWEEN :from_number AND :read_number"
_OWN_WITH_HEAD: Final = f"{_OWN} AND attribute_exists(#peer) AND {IS_LATER} AND {IS_UNTOUCHED}"
_SET_RECEIVED: Final = "SET #delivered = :delivered"
_SET_READ: Final = "#read = :read, #read_number = :read_number"
_IS_MEMBER: Final = "attribute_exists(#user_id)"
TIMES_ATTEMPTS_MAX: Final = 3
"""Maximum number of attempts to replace a list of times that other processes change at the same
time. The last attempt appends to the list instead."""


class DynamoReceipts:
    """Stores how far each user has received and read each chat."""

    def __init__(self, dynamo: Dynamo, heads: Heads) -> None:
        self._dynamo = dynamo
        self._heads = heads
        self._times = ReceiptTimes()

    async def move(self, moves: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
        narrowed = await gather_bounded(partial(self._narrowed, move) for move in moves)
        moves = [move for move in narrowed if move is not None]
        numbers = await self._numbers(moves)
        by_row: dict[tuple[UserKey, ChatId], list[Move | OwnSends]] = {}
        for move in moves:
            by_row.setdefault((move.user, move.chat), []).append(move)
        results = await gather_bounded(
            partial(self._move_in_turn, in_turn, numbers) for in_turn in by_row.values()
        )
        return [
            (chat, receipt)
            for (_, chat), receipt in zip(by_row, results, strict=True)
            if receipt is not None
        ]

    async def _move_in_turn(
        self, moves: Sequence[Move | OwnSends], numbers: _Numbers
    ) -> Receipt | None:
        """Apply moves of one receipt in order; return the receipt if a move advanced it."""
        moved = None
        async with self._dynamo.background:
            for move in moves:
                moved = await self._apply(move, numbers) or moved
        return moved

    async def advance(self, move: Move) -> tuple[Receipt, Head] | None:
        far = max(move.delivered, move.read)
        # Another process may have appended entries that this one has not seen, and the unread count
        # in the answer includes every entry that was acknowledged before.
        head = await head_of_chat(self._dynamo, move.chat)
        self._heads.saw(move.chat, head)
        if far > head.sequence and await self._receipt(move.user, move.chat) is not None:
            raise ReceiptBeyondHead(f"the log ends at {head.sequence}")
        moved = await self._apply(move, await self._numbers([move]))
        current = moved or await self._receipt(move.user, move.chat)
        return None if current is None else (current, head)

    async def of_chat(self, chat: ChatId, reader: UserKey) -> list[Receipt] | None:
        receipts = await receipts_of(self._dynamo, chat, await members_of(self._dynamo, chat))
        return receipts if await membership_row(self._dynamo, chat, reader) else None

    async def find(self, user: UserKey, chat: ChatId, joined: int) -> ReceiptWithTimes | None:
        item = await self._dynamo.get(READ_RECEIPT, receipt_key(user, chat))
        return to_receipt_with_times(item, joined) if item else None

    async def with_times(self, chat: ChatId, reader: UserKey) -> list[ReceiptWithTimes] | None:
        members = await members_of(self._dynamo, chat)
        keys = [receipt_key(user, chat) for user in members]
        items = await self._dynamo.batch_get(SHOW_RECEIPTS, keys)
        by_user = {item["user_id"]: item for item in items}
        if not await membership_row(self._dynamo, chat, reader):
            return None
        return [
            to_receipt_with_times(by_user[user], member.joined)
            for user, member in members.items()
            if user in by_user
        ]

    async def unread(self, user: UserKey, chat: ChatId, now: int) -> UnreadFound | None:
        receipt = await self._receipt(user, chat)
        if receipt is None:
            return None
        head = await head_of_chat(self._dynamo, chat)
        return await unread_of(self._dynamo, chat, head, receipt, now)

    async def count(self, chats: Sequence[ChatHead], now: int) -> list[UnreadFound]:
        return await gather_bounded(
            partial(
                count_unread,
                self._dynamo,
                chat.chat_id,
                chat.receipt,
                now,
                up_to=chat.head.sequence,
            )
            for chat in chats
        )

    async def mark_unread(self, user: UserKey, chat: ChatId, first: int | None) -> Receipt | None:
        if first is None:
            return await self._mark(user, chat, f"REMOVE {MARKED_UNREAD}")
        member = await membership_row(self._dynamo, chat, user)
        if member is None:
            return None
        head = await head_of_chat(self._dynamo, chat)
        check_unread_from(first, head.sequence, member["joined"])
        entry = (await entries_at(self._dynamo, READ_ENTRIES, [(chat, first)]))[chat, first]
        values = {":first": first, ":number": entry.number - (entry.kind == "message")}
        update = "SET #unread_from = :first, #unread_number = :number"
        return await self._mark(user, chat, update, values)

    async def hide(self, user: UserKey, chat: ChatId, *, is_hidden: bool) -> Receipt | None:
        if not is_hidden:
            return await self._mark(user, chat, "REMOVE #hidden_number")
        head = await head_of_chat(self._dynamo, chat)
        return await self._mark(
            user, chat, "SET #hidden_number = :number", {":number": head.number}
        )

    async def _mark(
        self, user: UserKey, chat: ChatId, update: str, values: Item | None = None
    ) -> Receipt | None:
        key = receipt_key(user, chat)
        try:
            item = await self._dynamo.update(MARK_CHAT, key, update, _IS_MEMBER, values)
        except ConditionFailed:
            return None
        return to_receipt(item)

    async def _receipt(self, user: UserKey, chat: ChatId) -> Receipt | None:
        item = await self._dynamo.get(READ_RECEIPT, receipt_key(user, chat))
        return to_receipt(item) if item else None

    async def _numbers(self, moves: Sequence[Move | OwnSends]) -> _Numbers:
        """Return, for each entry that the moves refer to, how many messages the log has up to it.

        This number is the entry's `number`. Entries that do not exist are left out. An entry below
        the last head that this process saw exists, because logs have no gaps. If a move marks it
        only as received, its number is not needed, so it is not read, and its number is 0.
        """
        numbers: _Numbers = {}
        wanted: dict[tuple[ChatId, int], None] = {}
        for move in moves:
            head = self._heads.known(move.chat)
            for sequence in _sequences_of(move):
                if sequence == head.sequence:
                    numbers[move.chat, sequence] = head.number
                elif sequence < head.sequence and sequence == _only_received(move):
                    numbers[move.chat, sequence] = 0  # its number is not needed
                else:
                    wanted[move.chat, sequence] = None
        for place, item in (await items_at(self._dynamo, READ_ENTRIES, wanted)).items():
            numbers[place] = item["number"]
        return numbers

    async def _narrowed(self, move: Move | OwnSends) -> Move | OwnSends | None:
        """Return the move that can be applied; None if there is none.

        Only one span of a user's own sends can be applied: the one that contains the stored read
        mark. If there are several spans, or if the mark is probably in none, the receipt is read to
        find it, because a read costs less than a failed write. Any other move is returned as it is.
        """
        if isinstance(move, Move) or (len(move.spans) == 1 and not move.is_behind):
            return move
        async with self._dynamo.background:
            item = await self._dynamo.get(READ_RECEIPT, receipt_key(move.user, move.chat))
            span = None if item is None else move.span_of(item["read_number"])
            if span is None and item is not None:
                await self._wrote(item)
        return None if span is None else OwnSends(move.user, move.chat, (span,), move.last)

    async def _apply(self, move: Move | OwnSends, numbers: _Numbers) -> Receipt | None:
        """Apply one move; return the receipt if the move advanced it."""
        sequences = _sequences_of(move)
        if not sequences or any((move.chat, sequence) not in numbers for sequence in sequences):
            return None
        key = receipt_key(move.user, move.chat)
        if isinstance(move, Move):
            return await self._move_marks(key, move, numbers)
        (span,) = move.spans
        if numbers[move.chat, span.to_sequence] != span.to_number:
            return None
        return await self._move_own(key, span, move.last)

    async def _move_own(self, key: Item, span: OwnSpan, last: Entry | None) -> Receipt | None:
        """Move the read mark of a user who has sent messages.

        In a direct chat, the same update writes the head copy into the user's row.
        """
        own = MarksUpdate(
            f"SET {_SET_READ}, #own = :own",
            _OWN,
            _read_values(span.to_sequence, span.to_number) | {":own": True},
            others={":from_number": span.from_number},
        )
        if last is None or last.sequence != span.to_sequence:
            return await self._update(key, own)
        preview, removes, values = preview_change(last_message_of(last))
        with_head = MarksUpdate(
            f"{own.update}, {SET_HEAD}{preview}",
            _OWN_WITH_HEAD,
            own.new | self._heads.values(head_of(last)) | values,
            others=own.others,
            removes=removes,
        )
        return await self._update(key, with_head, instead=own)

    async def _wrote(self, item: Item) -> None:
        """Record in the receipt that the user wrote in the chat, although the read mark does not
        move."""
        if item.get("own") and "unread_from" not in item:
            return
        key = receipt_key(item["user_id"], item["chat_id"])
        update = f"SET #own = :own REMOVE {MARKED_UNREAD}"
        with suppress(ConditionFailed):
            await self._dynamo.update(MAKE_OWN, key, update, _IS_MEMBER, {":own": True})

    async def _move_marks(self, key: Item, move: Move, numbers: _Numbers) -> Receipt | None:
        """Move one mark or both.

        One update moves both marks, on condition that both advance. If the condition fails, each
        mark gets its own update.
        """
        received = MarksUpdate(_SET_RECEIVED, _RECEIVED, {":delivered": move.delivered}, move.at)
        if not move.read:
            return await self._update(key, received)
        values = _read_values(move.read, numbers[move.chat, move.read])
        read = MarksUpdate(f"SET {_SET_READ}", _READ, values, move.at)
        if move.delivered <= move.read:  # reading is also receiving
            return await self._update(key, read)
        both = MarksUpdate(
            f"{_SET_RECEIVED}, {_SET_READ}",
            f"{_RECEIVED} AND {_READ}",
            received.new | read.new,
            move.at,
        )
        if moved := await self._update(key, both):
            return moved
        first = await self._update(key, read)
        second = await self._update(key, received)
        return second or first

    async def _update(
        self, key: Item, change: MarksUpdate, instead: MarksUpdate | None = None
    ) -> Receipt | None:
        """Update a receipt and return it; return None if the condition fails.

        If the condition fails in a repeated request, but the stored item has the new values, the
        first request has written them, and the receipt is returned. If the condition fails because
        the row must not get a head copy, the change `instead` is made.
        """
        for attempt in range(1, TIMES_ATTEMPTS_MAX + 1):
            is_last = attempt == TIMES_ATTEMPTS_MAX
            times = self._times.note(key, change.moves, change.at, appends=is_last)
            update, condition, values = change.expressions(times)
            try:
                item = await self._dynamo.update(MOVE_RECEIPT, key, update, condition, values)
            except ConditionFailed as failed:
                item = failed.item or {}
                if not (failed.is_repeat and change.is_in(item)):
                    if item:
                        self._times.saw(item)
                    if times.condition and item and change.advances(item):
                        continue  # only the list of times has changed
                    if instead is not None and self._gets_no_copy(item, change.new[":sequence"]):
                        return await self._update(key, instead)
                    if item and ":own" in change.new:
                        await self._wrote(item)
                    return None
            await self._thin(key, self._times.saw(item))
            return to_receipt(item)
        raise AssertionError("the last attempt has no condition on the times")

    def _gets_no_copy(self, item: Item, sequence: int) -> bool:
        """Return True if the receipt row must not get a copy of the message at this sequence.

        This is so in a group, if the row already has the head copy of this entry or a later one,
        and if the message was edited or redacted meanwhile.
        """
        return bool(item) and (
            "peer" not in item
            or self._heads.reached_in(item) >= sequence
            or item.get("touched", 0) >= sequence
        )

    async def _thin(self, key: Item, thinning: NotedTimes | None) -> None:
        if thinning is not None:
            with suppress(ConditionFailed):  # the receipt has moved, and a later move thins it
                await self._dynamo.update(
                    MOVE_RECEIPT, key, thinning.update, thinning.condition, thinning.values
                )


def _sequences_of(move: Move | OwnSends) -> list[int]:
    """Return the sequences that the move refers to. The move is valid only if the log has entries
    at all of them."""
    if isinstance(move, OwnSends):
        return [span.to_sequence for span in move.spans]
    if move.delivered <= move.read:
        return [move.read] if move.read > 0 else []
    return [move.delivered, move.read] if move.read > 0 else [move.delivered]


def _only_received(move: Move | OwnSends) -> int:
    """Return the sequence that the move marks as received but not as read, or 0."""
    return move.delivered if isinstance(move, Move) and move.delivered > move.read else 0


def _read_values(sequence: int, number: int) -> Item:
    return {":read": sequence, ":read_number": number}


_conforms: type[Receipts] = DynamoReceipts
