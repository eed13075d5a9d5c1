# SPDX-License-Identifier: Apache-2.0
"""Reads entries that other processes appended to a chat, and takes turns with them to append."""

import asyncio
from collections.abc import Callable
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Final

from tidings.actions.chat.chat_queue import ChatQueue, ChatQueues, doubt_claims
from tidings.actions.chat.turns import RIVALS_MS, WriterTurn
from tidings.model import limits
from tidings.model.chat_settings import SLOW_MODE_ENTRIES_MAX
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.ports.bus import Bus, Learnt
from tidings.ports.log import Log
from tidings.ports.world import Clock

WAIT_SECONDS_MAX: Final = 2.0
"""Time after which a process tries to append even if it is not its turn."""


class OtherWriters:
    """Brings queues up to date with the entries of other processes, and waits for their turns."""

    def __init__(
        self,
        log: Log,
        bus: Bus,
        clock: Clock,
        chat_queues: ChatQueues,
        remember: Callable[[ChatQueue, list[Entry]], None],
        own: str,
    ) -> None:
        """Create the reader; `remember` is called with all entries that were read.

        `own` is the name of this process, with which the writer's marks of its entries begin.
        """
        self._log = log
        self._bus = bus
        self._clock = clock
        self._chat_queues = chat_queues
        self._remember = remember
        self._own = own

    def note_own(self, chat_queue: ChatQueue, first: Entry, size: int) -> None:
        """Note a run of this process: its first entry, and its number of entries."""
        if chat_queue.turn is not None:
            chat_queue.turn.note(self._own, first.created_at, size)

    def is_turn_over(self, chat_queue: ChatQueue) -> bool:
        """Return True if this process must call `give_way` before it appends more to the chat,
        because other processes append to it too."""
        turn = chat_queue.turn
        if turn is None or not turn.is_over(self._own):
            return False
        if self._clock.now() >= turn.rivals_until:
            turn = chat_queue.turn = None
        return turn is not None

    async def give_way(self, chat_queue: ChatQueue) -> None:
        """Pause, so that other processes can append, then read their entries.

        Raises:
            Refusal: The log cannot be read now.
        """
        assert chat_queue.turn is not None
        await asyncio.sleep(chat_queue.turn.pause_seconds(self._own))
        await self.read_on(chat_queue)

    async def read_on(self, chat_queue: ChatQueue) -> None:
        """Read the entries after the queue's state from the log, and bring the state up to date.

        While other processes have their turns, wait and read again.

        Raises:
            Refusal: The log cannot be read now.
        """
        now = asyncio.get_running_loop().time
        end = now() + WAIT_SECONDS_MAX
        while await self._read(chat_queue):
            assert chat_queue.turn is not None
            seconds = chat_queue.turn.wait_seconds(self._own)
            if not seconds or now() + seconds > end:
                return
            await asyncio.sleep(seconds)

    async def _read(self, chat_queue: ChatQueue) -> bool:
        """Read all entries after the queue's state; return True if there were any."""
        assert chat_queue.state is not None
        state, head = chat_queue.state.copy(), chat_queue.state.head
        is_at_end = False
        while not is_at_end:
            missed = await self._missed(chat_queue, state)
            for entry in missed:
                state.fold(entry)
            is_at_end = len(missed) < limits.TAIL_ENTRIES_MAX
        self._chat_queues.keep_state(chat_queue, state)
        return state.head > head

    async def _missed(self, chat_queue: ChatQueue, state: ChatState) -> list[Entry]:
        """Return the next entries after the state's head; also cache them, publish them, and note
        whose turn it was."""
        now = asyncio.get_running_loop().time
        began = now()
        missed = await self._log.tail(chat_queue.chat_id, state.head)
        took = now() - began
        doubt_claims(chat_queue.waiting, missed)
        self._remember(chat_queue, missed)
        self._publish(state.copy(), missed)
        if missed:
            self._note_others(chat_queue, missed, took)
        return missed

    def _note_others(self, chat_queue: ChatQueue, missed: list[Entry], took: float) -> None:
        """Note the runs of other processes that one request has read, within `took` seconds."""
        turn = chat_queue.turn = chat_queue.turn or WriterTurn()
        turn.rivals_until = self._clock.now() + RIVALS_MS
        turn.request_took(took)
        for mark, entries in groupby(missed, attrgetter("mark")):
            run = list(entries)
            turn.note(mark, run[0].created_at, len(run))

    def _publish(self, state: ChatState, missed: list[Entry]) -> None:
        """Publish messages of other processes, so that this process need not wait for a worker.

        `missed` are the entries after the chat's `state`. Only the messages before the first other
        entry are published. Messages older than `LEARNT_MS_MAX` are left out, because workers have
        long delivered them.
        """
        since = self._clock.now() - limits.LEARNT_MS_MAX
        messages = takewhile(lambda entry: entry.kind == "message", missed)
        if learnt := [message for message in messages if message.created_at > since]:
            self._bus.publish(Learnt(learnt, state))


async def load_state(log: Log, chat: ChatId, now: int) -> ChatState | None:
    """Return a chat's state for a writer; None if there is no such chat."""
    state = await log.state(chat)
    if state is not None and state.settings.slow_mode_seconds:
        await _recall_senders(log, state, now)
    return state


async def _recall_senders(log: Log, state: ChatState, now: int) -> None:
    """Find out from the end of the log which members have to wait in slow mode.

    At most `SLOW_MODE_ENTRIES_MAX` entries are read. If admins have written more than that
    within the time, members may get a message more.
    """
    since = now - state.settings.slow_mode_seconds * limits.SECOND_MS
    last = max(0, state.head - SLOW_MODE_ENTRIES_MAX)
    recent: list[Entry] = []
    until = state.head
    while until > last:
        after = max(last, until - limits.TAIL_ENTRIES_MAX)
        found = await log.tail(state.chat_id, after)
        recent = [entry for entry in found if entry.sequence <= until] + recent
        until = after
        if recent and (recent[0].created_at <= since or recent[0].kind == "settings"):
            break
    for entry in recent:
        if entry.kind == "settings":
            state.sent_at = {}
        elif entry.kind == "message" and entry.created_at > since and entry.posted_by is None:
            state.sent_at = {**state.sent_at, entry.sender: entry.created_at}
