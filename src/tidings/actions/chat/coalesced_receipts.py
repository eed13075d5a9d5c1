# SPDX-License-Identifier: Apache-2.0
"""Write the receipts that sockets and own messages move, several moves at a time."""

import asyncio
import heapq
from contextlib import suppress
from typing import Final

from tidings.model import limits
from tidings.model.chats import Move, OwnSends, OwnSpan
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Appended, Bus, ChatChanged, ReceiptMoved
from tidings.ports.chats import Receipts
from tidings.tasks import Tasks

OWN_SPANS_MAX: Final = 16
"""Maximum number of spans that wait for the next write, per user and chat. A span is a group of
consecutive messages by the same user."""
BEHIND_MAX: Final = 50_000
RETRIED_MAX: Final = 50_000
"""Maximum number of moves that wait when a failed write adds its moves again."""

READ_WAIT_SECONDS: Final = 1.0
"""Maximum time for which a read waits until the moves of its user are written."""

_Key = tuple[UserKey, ChatId]


class CoalescedReceipts:
    """Writes receipts from sockets, at most once a second per user and chat.

    The first move is written at once; later moves wait and are combined. If the store is
    unavailable, the moves are written again later. A crash loses at most the moves of the last
    second, or of the time since the store was available. Clients send these receipts again when
    they reconnect.
    """

    def __init__(self, receipts: Receipts, bus: Bus, *, is_alone: bool = True) -> None:
        """Set up the writer of receipts. With `is_alone=False`, other processes move the same
        receipts."""
        self._receipts = receipts
        self._bus = bus
        self._is_alone = is_alone
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks("receipts")
        self._moves: dict[_Key, Move] = {}
        self._own: dict[_Key, list[OwnSpan]] = {}
        self._last: dict[_Key, Entry] = {}
        """The last message of each user in `_own`, if it was the head of a direct chat."""
        self._behind: set[_Key] = set()
        """Users who sent a message while older messages were unread. Their own messages must not
        advance their read mark. With several processes, a user may be in this set although another
        process has moved the mark."""
        self._unwritten: dict[UserKey, dict[ChatId, None]] = {}
        """The chats in which a move of each user waits or is being written."""
        self._written_at: dict[_Key, float] = {}
        self._under_way: dict[_Key, asyncio.Future[bool]] = {}
        """For each receipt whose move is being written now, a future that tells afterwards whether
        it is written."""
        self._due: list[tuple[float, _Key]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._is_closed = False
        self._forgotten_at = 0.0
        bus.subscribe(self._note_own, Appended)
        bus.subscribe(self._on_moved, ReceiptMoved)
        bus.subscribe(self._on_changed, ChatChanged)

    def note(self, move: Move, interval_ms: int = limits.RECEIPT_FRAME_MS) -> None:
        """Move a receipt in the background.

        There is at most one write per interval for each user and chat.
        """
        key = (move.user, move.chat)
        if move.read:
            self._behind.discard(key)
        earlier = self._moves.get(key)
        if earlier is not None:
            move = Move(
                move.user,
                move.chat,
                max(move.delivered, earlier.delivered),
                max(move.read, earlier.read),
                max(move.at, earlier.at),
            )
        self._moves[key] = move
        if earlier is None and key not in self._own:
            self._schedule(key, interval_ms)

    def _on_moved(self, event: ReceiptMoved) -> None:
        if event.by_reading:
            self._behind.discard((event.receipt.user, event.chat))

    def _on_changed(self, event: ChatChanged) -> None:
        # The user may have marked the chat as unread, and the user's next message ends this mark.
        self._behind.discard((event.user, event.chat))

    def _note_own(self, event: Appended) -> None:
        """Mark a message as read by its sender, unless older messages are still unread."""
        entry, state = event.entry, event.state
        if entry.kind != "message":
            return
        key = (entry.sender, entry.chat_id)
        if key in self._behind and self._is_alone:
            return
        spans = self._own.get(key)
        if spans is None:
            if key not in self._moves:
                interval = (
                    limits.RECEIPT_FRAME_MS if state.is_small else limits.LARGE_CHAT_RECEIPT_MS
                )
                self._schedule(key, interval)
            spans = self._own[key] = []
        _add_span(spans, entry.number - 1, entry.number, entry.sequence)
        if state.type == "direct" and state.head == entry.sequence:
            # Within a pack, this sequence is not a head, because the other messages may not be
            # delivered.
            self._last[key] = entry

    def _schedule(self, key: _Key, interval_ms: int) -> None:
        self._unwritten.setdefault(key[0], {})[key[1]] = None
        if self._is_closed:
            return  # `close` writes what is left
        now = self._loop.time()
        due = now
        if (written_at := self._written_at.get(key)) is not None:
            # Vary the interval, so that receipts that began together are not all due together.
            spread = 1 + hash(key) % 256 / 1_024
            due = max(now, written_at + spread * interval_ms / 1_000)
        heapq.heappush(self._due, (due, key))
        self._wake_at_next()

    def _wake_at_next(self) -> None:
        """Set the timer to the time of the next write."""
        due = self._due[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer, self._timer_due = self._loop.call_at(due, self._flush), due

    def _flush(self) -> None:
        self._timer = None
        now = self._loop.time()
        moves: list[Move | OwnSends] = []
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            self._written_at[key] = now
            moves += self._taken(key)
        if self._due:
            self._wake_at_next()
        if moves:
            _ = self._start_write(moves)
        self._forget_old(now)

    def _forget_old(self, now: float) -> None:
        """Remove the times of writes that are too long ago to delay another write."""
        longest = limits.LARGE_CHAT_RECEIPT_MS / 1_000
        if now - self._forgotten_at > longest:
            self._forgotten_at = now
            self._written_at = {k: t for k, t in self._written_at.items() if now - t < longest}

    def _start_write(self, moves: list[Move | OwnSends]) -> asyncio.Future[bool]:
        """Write moves in the background, so that no caller who gives up takes them along.

        The future tells whether they are written.
        """
        done: asyncio.Future[bool] = self._loop.create_future()
        for move in moves:
            self._under_way[move.user, move.chat] = done
        self._tasks.start(self._write(moves, done))
        return done

    async def _write(self, moves: list[Move | OwnSends], done: asyncio.Future[bool]) -> None:
        is_written = False
        try:
            moved = await self._receipts.move(moves)
            is_written = True
        except StoreUnavailable:
            self._retry(moves)
            return
        finally:
            done.set_result(is_written)
            self._forget_written(moves, done)
        readers = {(move.user, move.chat) for move in moves if isinstance(move, Move) and move.read}
        self._note_behind(moves, readers | {(receipt.user, chat) for chat, receipt in moved})
        for chat, receipt in moved:
            by_reading = (receipt.user, chat) in readers
            self._bus.publish(ReceiptMoved(chat, receipt, by_reading=by_reading))

    def _forget_written(self, moves: list[Move | OwnSends], done: asyncio.Future[bool]) -> None:
        for user, chat in {(move.user, move.chat) for move in moves}:
            key = (user, chat)
            if self._under_way.get(key) is not done:
                continue  # a later move of this receipt is being written
            del self._under_way[key]
            if key not in self._moves and key not in self._own:
                chats = self._unwritten.get(user, {})
                chats.pop(chat, None)
                if not chats:
                    self._unwritten.pop(user, None)

    def _retry(self, moves: list[Move | OwnSends]) -> None:
        """Add moves that could not be written to those that wait, up to a bound."""
        now = self._loop.time()
        for move in moves:
            key = (move.user, move.chat)
            if len(self._moves) + len(self._own) >= RETRIED_MAX:
                return
            self._written_at[key] = now  # the attempt may have taken longer than the interval
            if isinstance(move, Move):
                self.note(move)
            else:
                self._note_own_again(key, move)

    def _note_own_again(self, key: _Key, sends: OwnSends) -> None:
        later = self._own.get(key)
        if later is None and key not in self._moves:
            self._schedule(key, limits.RECEIPT_FRAME_MS)
        spans = self._own[key] = list(sends.spans)
        for span in later or ():
            _add_span(spans, span.from_number, span.to_number, span.to_sequence)
        if later is None and sends.last is not None:
            self._last[key] = sends.last

    def _note_behind(self, moves: list[Move | OwnSends], moved: set[_Key]) -> None:
        self._behind -= moved
        if len(self._behind) > BEHIND_MAX:
            self._behind.clear()  # the next write of each user adds the entry again
        for move in moves:
            key = (move.user, move.chat)
            # A move that arrived meanwhile may advance the mark up to the user's next message.
            if isinstance(move, OwnSends) and key not in moved and key not in self._moves:
                self._behind.add(key)

    async def settle(self, user: UserKey, chat: ChatId | None = None) -> bool:
        """Write the user's waiting moves in this chat, or in all chats; wait for moves that are
        already being written.

        After this, the user reads what the user has done over sockets of this process. Returns
        False if the store is unavailable, so that the moves are written later.
        """
        chats = list(self._unwritten.get(user, ())) if chat is None else [chat]
        for one in chats:
            if (under_way := self._under_way.get((user, one))) is not None:
                await asyncio.shield(under_way)
        moves: list[Move | OwnSends] = []
        for one in chats:
            if taken := self._taken((user, one)):
                self._written_at[user, one] = self._loop.time()
                moves += taken
        return await asyncio.shield(self._start_write(moves)) if moves else True

    async def settle_soon(self, user: UserKey, chat: ChatId | None = None) -> None:
        """Settle before a read, but do not wait for long: while the store is busy with receipts of
        other users, the read is answered without these moves."""
        if user in self._unwritten:
            with suppress(TimeoutError):
                async with asyncio.timeout(READ_WAIT_SECONDS):
                    await self.settle(user, chat)

    def _taken(self, key: _Key) -> list[Move | OwnSends]:
        """Remove the waiting moves of one user in one chat, and return them in order."""
        moves: list[Move | OwnSends] = []
        if spans := self._own.pop(key, None):
            moves.append(self._own_sends(key, spans))
        if (move := self._moves.pop(key, None)) is not None:
            moves.append(move)
        return moves

    def _own_sends(self, key: _Key, spans: list[OwnSpan]) -> OwnSends:
        is_behind = key in self._behind
        return OwnSends(*key, tuple(spans), self._last.pop(key, None), is_behind=is_behind)

    async def close(self) -> None:
        """Write all moves that are still waiting."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.finish()
        waiting: list[Move | OwnSends] = list(self._moves.values())
        waiting.extend(self._own_sends(key, spans) for key, spans in self._own.items())
        if waiting:
            await self._start_write(waiting)
            await self._tasks.finish()


def _add_span(spans: list[OwnSpan], first: int, last: int, sequence: int) -> None:
    """Add the messages after number `first`, up to number `last` at this sequence. If they follow
    the last span directly, they become part of it."""
    if spans and spans[-1].to_number == first:
        first = spans.pop().from_number
    elif len(spans) == OWN_SPANS_MAX:
        # Drop a middle span: the read mark is in the first span if the user reads nothing, and in
        # one of the last spans otherwise.
        del spans[1]
    spans.append(OwnSpan(first, last, sequence))
