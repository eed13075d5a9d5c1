# SPDX-License-Identifier: Apache-2.0
"""Reads entries that other processes appended to a chat, for a queue that appends to it too."""

from collections.abc import Callable
from itertools import takewhile

from tidings.actions.chat.chat_queue import ChatQueue, ChatQueues, doubt_claims
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.ports.bus import Bus, Learnt
from tidings.ports.log import Log
from tidings.ports.world import Clock


class OtherWriters:
    """Brings queues up to date with the entries of other processes."""

    def __init__(
        self,
        log: Log,
        bus: Bus,
        clock: Clock,
        chat_queues: ChatQueues,
        remember: Callable[[ChatQueue, list[Entry]], None],
    ) -> None:
        """Create the reader; `remember` is called with all entries that were read."""
        self._log = log
        self._bus = bus
        self._clock = clock
        self._chat_queues = chat_queues
        self._remember = remember

    async def read_on(self, chat_queue: ChatQueue) -> None:
        """Read the entries after the queue's state from the log, and bring the state up to date.

        Raises:
            Refusal: The log cannot be read now.
        """
        assert chat_queue.state is not None
        state = chat_queue.state.copy()
        is_at_end = False
        while not is_at_end:
            missed, before = await self._log.tail(chat_queue.chat_id, state.head), state.copy()
            for entry in missed:
                state.fold(entry)
            doubt_claims(chat_queue.waiting, missed)
            self._remember(chat_queue, missed)
            self._publish(before, missed)
            is_at_end = len(missed) < limits.TAIL_ENTRIES_MAX
        self._chat_queues.keep_state(chat_queue, state)

    def _publish(self, state: ChatState, missed: list[Entry]) -> None:
        """Publish the recent messages at the start of the missed entries.

        The connections of this process then need not wait until a worker delivers these messages.
        Publishing ends at the first entry that is not a message. Messages older than
        `LEARNT_MS_MAX` are left out, because workers have long delivered them.
        """
        since = self._clock.now() - limits.LEARNT_MS_MAX
        messages = takewhile(lambda entry: entry.kind == "message", missed)
        if learnt := [message for message in messages if message.created_at > since]:
            self._bus.publish(Learnt(learnt, state))
