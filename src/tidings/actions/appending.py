# SPDX-License-Identifier: Apache-2.0
"""The appender: proposals of one chat become entries, in order of arrival.

Each chat has a lane. A lane sends one run at a time to the log: a batch of messages, or a single
change of the chat. What a proposal is checked against is the committed state, plus the messages
of its own run; answers and events leave only after the commit. So nothing derived from an
uncommitted change is ever seen.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from tidings.actions.lanes import Lane, Lanes
from tidings.actions.proposals import Proposal
from tidings.actions.repeats import Repeats, doubt_claims
from tidings.actions.slices import Slices
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.model.refusals import (
    ChatBusy,
    ChatNotFound,
    Refusal,
    StoreUnavailable,
)
from tidings.ports.bus import Appended, Bus
from tidings.ports.log import Declined, Failed, Kept, KeyTaken, Log, Outcome, Run, SlotTaken
from tidings.ports.requesters import (
    Requester,
    current_requester,
    set_requester,
    user_requester,
)
from tidings.ports.world import Chance, Clock
from tidings.tasks import Tasks

log = logging.getLogger("tidings.appender")

_Step = tuple[Proposal, list[Entry]]
_Outgoing = tuple[Proposal, list[Entry], ChatState]


class Appender:
    """Appends to all chats. One per process is enough; more than one are still correct."""

    def __init__(
        self,
        log: Log,
        bus: Bus,
        clock: Clock,
        chance: Chance,
        backoff: Callable[[int], Awaitable[None]],
    ) -> None:
        """`backoff` waits before the n-th new attempt at a slot, with jitter."""
        self._log = log
        self._bus = bus
        self._clock = clock
        self._backoff = backoff
        self._lanes = Lanes()
        self._repeats = Repeats(log, clock)
        self._mark = chance.token(8).hex()
        self._runs = 0
        self._tasks = Tasks("appender")
        self._outgoing = Slices()

    def propose(self, chat: ChatId, proposal: Proposal) -> None:
        """Append this after all that was proposed for the chat before. Never waits."""
        lane = self._lanes.get(chat)
        if len(lane.waiting) >= self._log.waiting_max:
            proposal.refused(ChatBusy())
            return
        lane.waiting.append(proposal)
        if not lane.is_busy:
            # Not at once: what else this turn of the loop brings for the chat joins the run.
            lane.is_busy = True
            self._soon(lane)

    def state_nowait(self, chat: ChatId) -> ChatState | None:
        """A chat's state if it is cached: for writers and delivery, it admits no reader."""
        return self._lanes.state(chat)

    async def state(self, chat: ChatId) -> ChatState | None:
        """A chat's state, cached or read; None if there is no such chat. It admits no reader."""
        return self.state_nowait(chat) or await self._log.state(chat)

    async def close(self) -> None:
        """Stop the background work; what still waits gets no answer."""
        await self._tasks.close()

    # One turn of a lane: load if cold, take a run, send it to the log.

    def _soon(self, lane: Lane) -> None:
        asyncio.get_running_loop().call_soon(self._next, lane)

    def _next(self, lane: Lane) -> None:
        if not lane.waiting:
            lane.is_busy = False
        elif lane.state is None:
            self._start(lane, partial(self._load, lane))
        elif not lane.waiting[0].is_ready:
            self._start(lane, partial(self._prepare, lane, lane.waiting.popleft()))
        else:
            self._log.append_later(partial(self._make_run, lane))

    def _start(self, lane: Lane, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Go on with the lane after some reading, which must never leave it standing still."""
        self._tasks.start(self._or_let_go(lane, work, _requester(lane)))

    async def _or_let_go(
        self, lane: Lane, work: Callable[[], Coroutine[Any, Any, None]], who: Requester
    ) -> None:
        set_requester(who)
        try:
            await work()
        except Exception:
            self._refuse_all(lane, StoreUnavailable())
            raise

    async def _load(self, lane: Lane) -> None:
        try:
            state = await self._log.state(lane.chat_id)
        except Refusal as refusal:
            self._refuse_all(lane, refusal)
            return
        if state is None:
            self._refuse_all(lane, ChatNotFound())
            return
        self._lanes.keep_state(lane, state)
        self._next(lane)

    def _refuse_all(self, lane: Lane, refusal: Refusal) -> None:
        waiting, lane.waiting = lane.waiting, deque()
        self._lanes.forget(lane)
        for proposal in waiting:
            proposal.refused(refusal)

    async def _prepare(self, lane: Lane, proposal: Proposal) -> None:
        try:
            await proposal.prepare()
            lane.waiting.appendleft(proposal)
        except Refusal as refusal:
            proposal.refused(refusal)
        self._next(lane)

    def _make_run(self, lane: Lane) -> Run | None:
        """What waits in the lane now; None if the lane has to do something else first."""
        assert lane.state is not None
        claimed = lane.state.copy()
        try:
            steps = self._take_steps(lane, claimed)
        except Exception:
            self._refuse_all(lane, StoreUnavailable())
            raise
        if not steps:
            if lane.is_doubtful:
                self._start(lane, partial(self._look_into, lane))
            else:
                self._soon(lane)
            return None
        return Run(
            chat_id=lane.chat_id,
            entries=[entry for _, entries in steps for entry in entries],
            keys=[
                None if proposal.is_claimed else proposal.key
                for proposal, entries in steps
                for _ in entries
            ],
            settle=lambda outcome: self._settled(lane, claimed, steps, outcome),
            may_write=lambda: all(proposal.is_ready for proposal, _ in steps),
        )

    def _take_steps(self, lane: Lane, claimed: ChatState) -> list[_Step]:
        """The next run: as many messages as wait in a row, or one change."""
        now = self._clock.now()
        self._runs += 1
        mark = f"{self._mark}{self._runs:x}"
        steps: list[_Step] = []
        keys: set[tuple[str, str]] = set()
        waiting = lane.waiting
        while waiting and len(steps) < self._log.run_entries_max:
            proposal = waiting[0]
            key = proposal.key
            if not proposal.is_ready or (steps and key is None):
                break
            if key is not None and (name := (key.sender, key.client_message_id)) in keys:
                break  # a repeat within the run: the next one will find the first
            entries = self._decide(lane, proposal, claimed, now)
            if lane.is_doubtful:
                break
            waiting.popleft()
            if not entries:
                continue
            for entry in entries:
                claimed.stamp(entry, now, mark)
                claimed.fold(entry)
            steps.append((proposal, entries))
            if key is None:
                break
            keys.add(name)
        return steps

    def _decide(self, lane: Lane, proposal: Proposal, state: ChatState, now: int) -> list[Entry]:
        """The entries to append; none if the proposal was answered, or the lane is in doubt."""
        refusal = None
        try:
            if state.is_deleted:
                raise ChatNotFound
            entries = proposal.decide(state, now)
        except Refusal as raised:
            refusal, entries = raised, []
        lane.is_doubtful = not entries and not proposal.was_looked_into
        if entries or lane.is_doubtful:
            return entries
        if refusal is None:
            proposal.kept([])
        elif proposal.key is None:
            proposal.refused(refusal)
        else:
            self._tasks.start(self._repeats.refuse_unless_sent(lane.chat_id, proposal, refusal))
        return []

    async def _look_into(self, lane: Lane) -> None:
        """Another process may have appended what makes the proposal possible after all."""
        proposal = lane.waiting[0]
        try:
            await self._read_on(lane)
        except Refusal as refusal:
            lane.waiting.popleft()
            proposal.refused(refusal)
        proposal.was_looked_into = True
        self._next(lane)

    # What came of a run.

    def _settled(
        self, lane: Lane, claimed: ChatState, steps: list[_Step], outcome: Outcome
    ) -> None:
        match outcome:
            case Kept():
                self._lanes.keep_state(lane, claimed)
                for proposal, entries in steps:
                    self._outgoing.do(self._tell, (proposal, entries, claimed))
                self._next(lane)
            case KeyTaken(indexes):
                self._start(lane, partial(self._answer_repeats, lane, steps, set(indexes)))
            case SlotTaken():
                self._start(lane, partial(self._catch_up, lane, steps, outcome))
            case Declined():
                assert len(steps) == 1, "a change goes alone"
                steps[0][0].declined(outcome)
                self._next(lane)
            case Failed():
                for proposal, _ in steps:
                    proposal.refused(StoreUnavailable())
                self._next(lane)

    def _tell(self, outgoing: _Outgoing) -> None:
        """To the proposer what came of it, then to everyone what happened."""
        proposal, entries, state = outgoing
        try:
            proposal.kept(entries)
        except Exception:
            # It is durable, whatever became of telling so: the others go on.
            log.exception("answering failed", extra={"action": "answer_failed"})
        for entry in entries:
            self._bus.publish(Appended(entry, state))

    async def _answer_repeats(self, lane: Lane, steps: list[_Step], taken: set[int]) -> None:
        """Answer those whose message is in the log already; append the others again.

        The lane stands still meanwhile: between the search and the slot right after it nothing
        of this process may come, or two repeats could both find nothing and both be appended.
        """
        again = []
        for index, (proposal, _) in enumerate(steps):
            if index not in taken or not await self._repeats.answer_if_sent(lane.chat_id, proposal):
                again.append(proposal)
        lane.waiting.extendleft(reversed(again))
        self._next(lane)

    async def _catch_up(self, lane: Lane, steps: list[_Step], lost: SlotTaken) -> None:
        """Another writer was first: take in what it wrote, then try again after it."""
        again = [proposal for proposal, _ in steps if not _gave_up(proposal)]
        for proposal in again:
            proposal.is_claimed = proposal.is_claimed or lost.keys_are_claimed
        lane.waiting.extendleft(reversed(again))
        if again:
            # Before the reading, not after it: who has just read is rarely late again.
            await self._backoff(again[0].attempts)
        try:
            await self._read_on(lane)
        except Refusal as refusal:
            for _ in again:
                lane.waiting.popleft().refused(refusal)
        self._next(lane)

    async def _read_on(self, lane: Lane) -> None:
        """Bring the lane's state up to the end of the log."""
        assert lane.state is not None
        state = lane.state.copy()
        is_at_end = False
        while not is_at_end:
            missed = await self._log.tail(lane.chat_id, state.head)
            for entry in missed:
                state.fold(entry)
            doubt_claims(lane.waiting, missed)
            is_at_end = len(missed) < limits.TAIL_ENTRIES_MAX
        self._lanes.keep_state(lane, state)


def _requester(lane: Lane) -> Requester:
    """On whose behalf the lane reads: the first that waits, or who asks for a change."""
    key = lane.waiting[0].key if lane.waiting else None
    return current_requester() if key is None else user_requester(key.sender)


def _gave_up(proposal: Proposal) -> bool:
    proposal.attempts += 1
    if proposal.attempts < limits.SLOT_ATTEMPTS_MAX:
        return False
    proposal.refused(ChatBusy())
    return True
