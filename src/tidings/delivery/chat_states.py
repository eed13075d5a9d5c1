# SPDX-License-Identifier: Apache-2.0
"""Folding logs: a worker knows each chat as of a head, and hands out only what that head reached.

So a removed member is never handed a later entry, in whatever order events come: the state that
says who is handed an entry has taken in every entry before it.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import msgspec

from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.ports.delivery import DeliveryStore
from tidings.ports.log import Log

RUN_ENTRIES_MAX: Final = 256
"""So many entries of a chat are handed out at once. Whoever misses earlier ones reads the log."""
READ_ENTRIES: Final = 100


class NotInLog(Exception):
    """An event tells of an entry that the log does not hold."""


class DeliveryRun(msgspec.Struct, kw_only=True):
    """Consecutive entries of one chat, and a state whose head has reached them."""

    entries: list[Entry]
    state: ChatState


class DeliveryState(msgspec.Struct, eq=False):
    """One chat: what is known of it, and which part of it this process has handed out."""

    state: ChatState
    start: int
    dispatched: int
    """All from `start` up to here; before the first run that is nothing."""


class DeliveryStates:
    """The chats that are being delivered, least recently used out.

    Calls about one chat are made one after the other.
    """

    def __init__(self, log: Log, deliveries: DeliveryStore) -> None:
        self._log = log
        self._deliveries = deliveries
        self._by_chat: OrderedDict[ChatId, DeliveryState] = OrderedDict()
        self._members = 0
        self.cold_loads = 0
        self.log_reads = 0

    async def run(
        self, chat: ChatId, first: int, goal: int, held: Mapping[int, Entry], *, is_old: bool
    ) -> DeliveryRun | None:
        """What to hand out next, now that events tell of entries from `first` to `goal`.

        `held` are entries as the events brought them, young ones only: they are used where nothing
        can have happened to them since that is not in the run itself. If `is_old`, much may have
        happened since the events: the members are those of the log's very end. None if all of it
        was handed out before.

        Raises:
            NotInLog: The log does not reach that far.
            StoreUnavailable: It cannot be read now.
        """
        delivery = self._taken_out(chat)
        if delivery is None or goal - delivery.dispatched > RUN_ENTRIES_MAX:
            # Left alone for so long, it is as good as new: others delivered it meanwhile.
            start = max(first, goal - RUN_ENTRIES_MAX + 1)
            delivery = DeliveryState(await self._cold(chat), start, start - 1)
        elif is_old and (goal > delivery.dispatched or first < delivery.start):
            await self._catch_up(delivery.state)
        if first < delivery.start:
            # The events of two writers may come in the wrong order.
            goal = min(goal, delivery.start - 1)
            entries = await self._read(chat, first - 1, goal)
        elif goal > delivery.dispatched:
            entries = _fresh(delivery, goal, held) or await self._read(
                chat, delivery.dispatched, goal
            )
        else:
            entries = []
        for entry in entries:
            if entry.sequence > delivery.state.head:
                delivery.state.fold(entry)
        self._keep(chat, delivery)
        return DeliveryRun(entries=entries, state=delivery.state.copy()) if entries else None

    def mark_dispatched(self, run: DeliveryRun) -> None:
        """The run was handed out: a repeat of it need not be."""
        delivery = self._by_chat.get(run.state.chat_id)
        if delivery is None:
            return
        first, last = run.entries[0].sequence, run.entries[-1].sequence
        if first == delivery.dispatched + 1:
            delivery.dispatched = last
        elif last == delivery.start - 1:
            delivery.start = first

    def known(self, chat: ChatId) -> ChatState | None:
        """A chat's state, if it is known."""
        delivery = self._by_chat.get(chat)
        return delivery.state if delivery is not None else None

    def forget(self, chat: ChatId) -> None:
        """Take nothing as handed out any more: something went wrong after it was."""
        self._taken_out(chat)

    async def state(self, chat: ChatId) -> ChatState | None:
        """A chat's state for something without a sequence: as known, or read."""
        return self.known(chat) or await self._log.state(chat)

    async def _cold(self, chat: ChatId) -> ChatState:
        self.cold_loads += 1
        state = await self._log.state(chat)
        if state is None:
            raise NotInLog(f"there is no chat {chat}")
        return state

    async def _catch_up(self, state: ChatState) -> None:
        is_at_end = False
        while not is_at_end:
            missed = await self._log.tail(state.chat_id, state.head)
            for entry in missed:
                state.fold(entry)
            is_at_end = len(missed) < limits.TAIL_ENTRIES_MAX

    async def _read(self, chat: ChatId, after: int, goal: int) -> list[Entry]:
        self.log_reads += 1
        entries: list[Entry] = []
        while after < goal:
            limit = min(READ_ENTRIES, goal - after)
            found = await self._deliveries.entries(chat, after=after, limit=limit)
            if not found:
                raise NotInLog(f"the log of {chat} has nothing after {after}, let alone {goal}")
            entries += found
            after = found[-1].sequence
        return entries

    def _taken_out(self, chat: ChatId) -> DeliveryState | None:
        """Taken out of the cache: if something goes wrong half-way, it does not come back."""
        delivery = self._by_chat.pop(chat, None)
        if delivery is not None:
            self._members -= len(delivery.state.members)
        return delivery

    def _keep(self, chat: ChatId, delivery: DeliveryState) -> None:
        self._by_chat[chat] = delivery
        self._members += len(delivery.state.members)
        while (
            len(self._by_chat) > limits.CACHED_CHATS_MAX
            or self._members > limits.CACHED_MEMBERS_MAX
        ) and len(self._by_chat) > 1:
            self._taken_out(next(iter(self._by_chat)))


def _fresh(delivery: DeliveryState, goal: int, held: Mapping[int, Entry]) -> list[Entry] | None:
    """The run from the events alone; None if the log has to be read.

    If the state stands right before the run or right at its end, no entry outside of the run came
    after it that could have changed one inside, as far as anyone here can know. Inside, an edit
    has to be read to be shown, and so has a message that was redacted in the meantime.
    """
    if delivery.state.head not in (delivery.dispatched, goal):
        return None
    run = range(delivery.dispatched + 1, goal + 1)
    entries = [held[sequence] for sequence in run if sequence in held]
    if len(entries) != len(run):
        return None
    for entry in entries:
        is_touched = entry.kind == "redacted" and entry.target is not None and entry.target in run
        if entry.kind == "edited" or is_touched:
            return None
    return entries
