# SPDX-License-Identifier: Apache-2.0
"""The appender: turns the requests for each chat into entries, in order of arrival.

Each chat has a queue. A queue appends one run at a time to the log. A run is either a batch of
messages, or a single change of the chat or message with options. A request is checked against the
committed state plus the earlier messages of its own run. Answers and events are sent only after the
commit, so nobody ever sees a result of an uncommitted change.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, assert_never

from tidings.actions.chat.chat_queue import (
    AppendRequest,
    ChatQueue,
    ChatQueues,
    Repeats,
    gave_up,
    is_behind,
    needs_no_key,
    prepared,
    requester_of,
    requests_of,
)
from tidings.actions.chat.other_writers import OtherWriters, load_state
from tidings.actions.chat.turns import WRITER_CHARS
from tidings.logs.requests import for_requests, set_requests
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.model.refusals import ChatBusy, ChatNotFound, Refusal, StoreUnavailable
from tidings.ports.bus import Appended, Bus
from tidings.ports.log import Declined, Failed, Kept, KeyTaken, Log, Outcome, Run, SlotTaken
from tidings.ports.store import Requester, set_requester
from tidings.ports.world import Chance, Clock
from tidings.tasks import Tasks, TurnBudget

log = logging.getLogger("tidings.appender")

_ENTRIES: Final = declared.entries.counts

_Step = tuple[AppendRequest, list[Entry]]
_Outgoing = tuple[AppendRequest, list[Entry], ChatState]


class Appender:
    """Appends to the logs of all chats. A process needs only one appender, but several also
    work."""

    def __init__(
        self,
        log: Log,
        bus: Bus,
        clock: Clock,
        chance: Chance,
        back_off: Callable[[int], Awaitable[None]],
    ) -> None:
        """Create an appender; `back_off(n)` waits a random time before the n-th retry.

        A retry is needed when another process has appended an entry first.
        """
        self._log = log
        self._bus = bus
        self._clock = clock
        self._back_off = back_off
        self._chat_queues = ChatQueues()
        self._repeats = Repeats(log, clock)
        self._mark = chance.token(WRITER_CHARS // 2).hex()
        self._other_writers = OtherWriters(
            log, bus, clock, self._chat_queues, self._remember, self._mark
        )
        self._runs = 0
        self._tasks = Tasks("appender")
        self._outgoing = TurnBudget()

    def propose(self, chat: ChatId, request: AppendRequest) -> None:
        """Queue the request behind the earlier requests for the chat; return without waiting."""
        chat_queue = self._chat_queues.get(chat)
        if len(chat_queue.waiting) >= self._log.waiting_max:
            request.refused(ChatBusy())
            return
        chat_queue.waiting.append(request)
        if not chat_queue.is_busy:
            # Do not start at once: more requests in this turn of the event loop can join the run.
            chat_queue.is_busy = True
            self._soon(chat_queue)

    def state_nowait(self, chat: ChatId) -> ChatState | None:
        """Return a chat's state if it is cached, else None.

        The state may be outdated. Writers and delivery may use it, but never use it to decide who
        may read.
        """
        return self._chat_queues.state(chat)

    async def state(self, chat: ChatId) -> ChatState | None:
        """Return a chat's state, from the cache or the log; None if there is no such chat.

        A cached state may be outdated: never use it to decide who may read.
        """
        return self.state_nowait(chat) or await self._log.state(chat)

    async def close(self) -> None:
        """Stop the background work; requests that are still waiting get no answer."""
        await self._tasks.close()

    # One step of a queue: load the state if it is not cached, else prepare the first request if it
    # is not ready, else make a run and send it to the log.

    def _soon(self, chat_queue: ChatQueue) -> None:
        asyncio.get_running_loop().call_soon(self._next, chat_queue)

    def _next(self, chat_queue: ChatQueue) -> None:
        if not chat_queue.waiting:
            chat_queue.is_busy = False
        elif chat_queue.state is None:
            self._start(chat_queue, partial(self._load, chat_queue))
        elif not chat_queue.waiting[0].is_ready:
            self._start(chat_queue, partial(self._prepare, chat_queue))
        elif self._other_writers.is_turn_over(chat_queue):
            self._start(chat_queue, partial(self._give_way, chat_queue))
        else:
            self._log.append_later(partial(self._make_run, chat_queue))

    def _start(self, chat_queue: ChatQueue, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `work` for the queue in a task. If `work` fails, refuse all waiting requests."""
        self._tasks.start(self._run_or_refuse_all(chat_queue, work, requester_of(chat_queue)))

    async def _run_or_refuse_all(
        self, chat_queue: ChatQueue, work: Callable[[], Coroutine[Any, Any, None]], who: Requester
    ) -> None:
        set_requester(who)
        set_requests(requests_of(chat_queue.waiting))
        try:
            await work()
        except Exception:
            self._refuse_all(chat_queue, StoreUnavailable())
            raise

    async def _load(self, chat_queue: ChatQueue) -> None:
        try:
            state = await load_state(self._log, chat_queue.chat_id, self._clock.now())
        except Refusal as refusal:
            self._refuse_all(chat_queue, refusal)
            return
        if state is None:
            self._refuse_all(chat_queue, ChatNotFound())
            return
        self._chat_queues.keep_state(chat_queue, state)
        chat_queue.remembered_after = state.head
        self._next(chat_queue)

    def _refuse_all(self, chat_queue: ChatQueue, refusal: Refusal) -> None:
        waiting, chat_queue.waiting = chat_queue.waiting, deque()
        self._chat_queues.forget(chat_queue)
        for request in waiting:
            request.refused(refusal)

    async def _prepare(self, chat_queue: ChatQueue) -> None:
        """Prepare the first requests in parallel, because many may wait for their author's key."""
        first = islice(chat_queue.waiting, limits.PREPARED_AT_ONCE)
        requests = [request for request in first if not request.is_ready]
        async with asyncio.TaskGroup() as group:
            preparing = [group.create_task(prepared(request)) for request in requests]
        for request, done in zip(requests, preparing, strict=True):
            if (refusal := done.result()) is not None:
                chat_queue.waiting.remove(request)
                request.refused(refusal)
        self._next(chat_queue)

    async def _give_way(self, chat_queue: ChatQueue) -> None:
        with suppress(Refusal):  # the next write will show whether the store answers
            await self._other_writers.give_way(chat_queue)
        self._next(chat_queue)

    def _make_run(self, chat_queue: ChatQueue) -> Run | None:
        """Return a run made from the waiting requests.

        If there is nothing to append now, schedule the next step of the queue (read the log again,
        or look for requests again) and return None.
        """
        assert chat_queue.state is not None
        claimed = chat_queue.state.copy()
        try:
            steps = self._take_steps(chat_queue, claimed)
        except Exception:
            self._refuse_all(chat_queue, StoreUnavailable())
            raise
        if not steps:
            if chat_queue.is_doubtful:
                self._start(chat_queue, partial(self._recheck, chat_queue))
            else:
                self._soon(chat_queue)
            return None
        return Run(
            chat_id=chat_queue.chat_id,
            entries=[entry for _, entries in steps for entry in entries],
            keys=[
                None if request.is_claimed or entry.digest is not None else request.key
                for request, entries in steps
                for entry in entries
            ],
            settle=lambda outcome: self._settled(chat_queue, claimed, steps, outcome),
            requests=lambda: requests_of(request for request, _ in steps),
            may_write=lambda: all(request.is_ready for request, _ in steps),
        )

    def _take_steps(self, chat_queue: ChatQueue, claimed: ChatState) -> list[_Step]:
        """Remove the next run from the queue: several messages, or one request that goes alone.

        Each returned step is a request and its entries. `claimed` is the chat's state; the entries
        are applied to it.
        """
        now = self._clock.now()
        chat_queue.is_doubtful = False
        self._runs += 1
        mark = f"{self._mark}{self._runs:x}"
        steps: list[_Step] = []
        run: list[Entry] = []
        keys: set[tuple[str, str]] = set()
        waiting, takes_after = chat_queue.waiting, self._log.takes_after
        while waiting:
            request = waiting[0]
            key = request.key
            if not request.is_ready or (steps and (request.goes_alone or steps[0][0].goes_alone)):
                break
            if key is not None and (name := (key.sender, key.client_message_id)) in keys:
                break  # the next run finds the first message and answers this repeat of it
            if takes_after and self._answer_if_cached(chat_queue, request):
                continue
            entries = self._decide(chat_queue, request, claimed, now)
            if chat_queue.is_doubtful or (
                run and entries and not self._log.has_room(run, entries[0])
            ):
                break
            waiting.popleft()
            if not entries:
                continue
            for entry in entries:
                claimed.add(entry, now, mark)
            steps.append((request, entries))
            if key is None:
                break
            if takes_after and needs_no_key(chat_queue, request, entries[0].sequence):
                entries[0].digest = key.digest
            run += entries
            keys.add(name)
        return steps

    def _answer_if_cached(self, chat_queue: ChatQueue, request: AppendRequest) -> bool:
        """Answer a repeated send whose message is cached as sent, and remove it from the queue.

        `request` is the first request in the chat's queue. Return True if it was such a repeat,
        False if it still waits in the queue.
        """
        key = request.key
        if key is None or key.after is None:
            return False
        sequence = self._chat_queues.place_of(chat_queue, key)
        if sequence is None:
            return False
        chat_queue.waiting.popleft()
        self._tasks.start(self._repeats.answer_remembered(chat_queue.chat_id, request, sequence))
        return True

    def _decide(
        self, chat_queue: ChatQueue, request: AppendRequest, state: ChatState, now: int
    ) -> list[Entry]:
        """Return the entries to append, or an empty list.

        The list is empty if the request has been answered, or if the log must be read again before
        the request can be answered (`is_doubtful`).
        """
        if self._log.takes_after and is_behind(chat_queue, request):
            chat_queue.is_doubtful = True
            return []
        refusal = None
        try:
            if state.is_deleted:
                raise ChatNotFound
            entries = request.decide(state, now)
        except Refusal as raised:
            refusal, entries = raised, []
        chat_queue.is_doubtful = not entries and not request.was_looked_into
        if entries or chat_queue.is_doubtful:
            return entries
        if refusal is None:
            request.kept([])
        elif request.key is None:
            request.refused(refusal)
        else:
            self._tasks.start(self._repeats.refuse_unless_sent(chat_queue, request, refusal))
        return []

    async def _recheck(self, chat_queue: ChatQueue) -> None:
        """Read the entries that other processes appended, because they may make the first waiting
        request valid."""
        request = chat_queue.waiting[0]
        try:
            await self._other_writers.read_on(chat_queue)
        except Refusal as refusal:
            chat_queue.waiting.popleft()
            request.refused(refusal)
        request.was_looked_into = True
        self._next(chat_queue)

    # The outcome of a run.

    def _settled(
        self, chat_queue: ChatQueue, claimed: ChatState, steps: list[_Step], outcome: Outcome
    ) -> None:
        match outcome:
            case Kept():
                self._chat_queues.keep_state(chat_queue, claimed)
                self._other_writers.note_own(chat_queue, steps[0][1][0], len(steps))
                self._remember(chat_queue, [entry for _, entries in steps for entry in entries])
                outgoing = [(request, entries, claimed) for request, entries in steps]
                self._outgoing.do_each(self._answer_and_publish, outgoing)
                self._next(chat_queue)
            case KeyTaken():
                self._start(chat_queue, partial(self._answer_repeats, chat_queue, steps, outcome))
            case SlotTaken():
                self._start(chat_queue, partial(self._catch_up, chat_queue, steps, outcome))
            case Declined():
                assert len(steps) == 1, "what may be declined goes alone"
                steps[0][0].declined(outcome)
                self._next(chat_queue)
            case Failed():
                for request, _ in steps:
                    request.refused(StoreUnavailable())
                self._next(chat_queue)
            case _:
                assert_never(outcome)

    def _remember(self, chat_queue: ChatQueue, entries: list[Entry]) -> None:
        if self._log.takes_after:
            self._chat_queues.remember(chat_queue, entries)
        elif entries:
            # From some moment on, the log may accept messages without keys.
            chat_queue.remembered_after = entries[-1].sequence

    def _answer_and_publish(self, outgoing: _Outgoing) -> None:
        """Answer the requester first, then publish the entries."""
        request, entries, state = outgoing
        try:
            request.kept(entries)
        except Exception:
            # The entry is durable even if answering failed; the other requests continue.
            with for_requests(request.requests):
                log.exception("answering failed", extra={"action": "answer_failed"})
        for entry in entries:
            _ENTRIES[entry.kind] += 1
            self._bus.publish(Appended(entry, state, request.span))

    async def _answer_repeats(
        self, chat_queue: ChatQueue, steps: list[_Step], keys: KeyTaken
    ) -> None:
        """Answer the requests of a run whose messages are already in the log; queue the others
        again.

        The chat's queue is paused meanwhile. If it were not, this process could append a message
        after the search for it, and two repeats of one message could both be appended.
        """
        again = {index: request for index, (request, _) in enumerate(steps)}
        for index in keys.claimed:
            again[index].is_claimed = True
        try:
            for index in sorted(keys.indexes):
                if await self._repeats.answer_or_refuse(chat_queue, again[index]):
                    del again[index]
        finally:
            # Also after an unexpected error, which refuses all waiting requests.
            chat_queue.waiting.extendleft(reversed(again.values()))
        self._next(chat_queue)

    async def _catch_up(self, chat_queue: ChatQueue, steps: list[_Step], lost: SlotTaken) -> None:
        """Read the entries that another writer appended first, then try the requests again."""
        for request, entries in steps:
            if lost.keys_are_claimed and entries[0].digest is None:
                request.is_claimed = True
        again = [request for request, _ in steps if not gave_up(request)]
        chat_queue.waiting.extendleft(reversed(again))
        if again:
            # Wait before the read, not after it: a writer that has just read rarely loses again.
            await self._back_off(again[0].attempts)
        try:
            await self._other_writers.read_on(chat_queue)
        except Refusal as refusal:
            for _ in again:
                chat_queue.waiting.popleft().refused(refusal)
        self._next(chat_queue)
