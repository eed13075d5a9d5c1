# SPDX-License-Identifier: Apache-2.0
"""The appender: proposals of one chat become entries, in order of arrival.

Each chat has a lane. A lane sends one run at a time to the log: a batch of messages, or a single
change of the chat. What a proposal is checked against is the committed state, plus the messages
of its own run; answers and events leave only after the commit. So nothing derived from an
uncommitted change is ever seen.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from tidings.actions.tasks import Tasks
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Key
from tidings.model.ids import ChatId
from tidings.model.refusals import (
    ChatBusy,
    ChatNotFound,
    Refusal,
    SendConflict,
    StoreUnavailable,
)
from tidings.ports.bus import Appended, Bus
from tidings.ports.log import Declined, Failed, Kept, KeyTaken, Log, Outcome, Run, SlotTaken
from tidings.ports.world import Chance, Clock


class Proposal(Protocol):
    """Something to append, and who waits for the answer. Exactly one of the answers is given."""

    key: Key | None
    """For a message: what makes it idempotent. None for a change of the chat."""
    is_claimed: bool
    """The key is claimed, and a search up to the head has found no entry for it."""
    attempts: int

    @property
    def is_ready(self) -> bool:
        """Whether `decide` may be called."""
        ...

    async def prepare(self) -> None:
        """Become ready. May raise a Refusal."""
        ...

    def decide(self, state: ChatState, now: int) -> list[Entry]:
        """The entries to append to a chat in this state; none if there is nothing to change.

        Raises:
            Refusal: It may not, or cannot, be done.
        """
        ...

    def kept(self, entries: list[Entry]) -> None:
        """Answer: it is durable."""
        ...

    def replayed(self, entry: Entry) -> None:
        """Answer: it was sent before; this is the message as it is now."""
        ...

    def declined(self, declined: Declined) -> None:
        """Answer: the store found that it cannot be done."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """Answer: no."""
        ...


class _Lane:
    """One chat: its committed state, and what waits to be appended."""

    __slots__ = ("chat_id", "is_busy", "state", "waiting")

    def __init__(self, chat_id: ChatId) -> None:
        self.chat_id = chat_id
        self.state: ChatState | None = None
        self.waiting: deque[Proposal] = deque()
        self.is_busy = False


_Step = tuple[Proposal, list[Entry]]


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
        self._lanes: OrderedDict[ChatId, _Lane] = OrderedDict()
        self._members_cached = 0
        self._mark = chance.token(8).hex()
        self._runs = 0
        self._tasks = Tasks("appender")

    def propose(self, chat: ChatId, proposal: Proposal) -> None:
        """Append this after all that was proposed for the chat before. Never waits."""
        lane = self._lanes.get(chat)
        if lane is None:
            lane = self._lanes[chat] = _Lane(chat)
            self._shrink()
        else:
            self._lanes.move_to_end(chat)
        if len(lane.waiting) >= limits.LANE_PROPOSALS_MAX:
            proposal.refused(ChatBusy())
            return
        lane.waiting.append(proposal)
        if not lane.is_busy:
            # Not at once: what else this turn of the loop brings for the chat joins the run.
            lane.is_busy = True
            asyncio.get_running_loop().call_soon(self._next, lane)

    def state_nowait(self, chat: ChatId) -> ChatState | None:
        """A chat's state if it is cached: for writers and delivery, it admits no reader."""
        lane = self._lanes.get(chat)
        return lane.state if lane is not None else None

    async def state(self, chat: ChatId) -> ChatState | None:
        """A chat's state, cached or read; None if there is no such chat. It admits no reader."""
        return self.state_nowait(chat) or await self._log.state(chat)

    async def close(self) -> None:
        """Stop the background work; what still waits gets no answer."""
        await self._tasks.close()

    def _shrink(self) -> None:
        """Forget the least recently used idle chats beyond the bounds of the cache."""
        while (
            len(self._lanes) > limits.CACHED_CHATS_MAX
            or self._members_cached > limits.CACHED_MEMBERS_MAX
        ):
            lane = next((lane for lane in self._lanes.values() if not lane.is_busy), None)
            if lane is None:
                return
            self._forget(lane)

    def _forget(self, lane: _Lane) -> None:
        self._keep_state(lane, None)
        del self._lanes[lane.chat_id]

    def _keep_state(self, lane: _Lane, state: ChatState | None) -> None:
        before = len(lane.state.members) if lane.state else 0
        lane.state = state
        self._members_cached += (len(state.members) if state else 0) - before

    # One turn of a lane: load if cold, take a run, send it to the log.

    def _next(self, lane: _Lane) -> None:
        if not lane.waiting:
            lane.is_busy = False
        elif lane.state is None:
            self._tasks.start(self._load(lane))
        elif not lane.waiting[0].is_ready:
            self._tasks.start(self._prepare(lane, lane.waiting.popleft()))
        else:
            self._send_run(lane, lane.state)

    async def _load(self, lane: _Lane) -> None:
        try:
            state = await self._log.state(lane.chat_id)
        except Refusal as refusal:
            self._refuse_all(lane, refusal)
            return
        if state is None:
            self._refuse_all(lane, ChatNotFound())
            return
        self._keep_state(lane, state)
        self._next(lane)

    def _refuse_all(self, lane: _Lane, refusal: Refusal) -> None:
        waiting, lane.waiting = lane.waiting, deque()
        self._forget(lane)
        for proposal in waiting:
            proposal.refused(refusal)

    async def _prepare(self, lane: _Lane, proposal: Proposal) -> None:
        try:
            await proposal.prepare()
            lane.waiting.appendleft(proposal)
        except Refusal as refusal:
            proposal.refused(refusal)
        self._next(lane)

    def _send_run(self, lane: _Lane, state: ChatState) -> None:
        claimed = state.copy()
        steps = self._take_steps(lane, claimed)
        if not steps:
            self._next(lane)
            return
        self._log.append(
            Run(
                chat_id=lane.chat_id,
                entries=[entry for _, entries in steps for entry in entries],
                keys=[
                    None if proposal.is_claimed else proposal.key
                    for proposal, entries in steps
                    for _ in entries
                ],
                settle=lambda outcome: self._settled(lane, claimed, steps, outcome),
            )
        )

    def _take_steps(self, lane: _Lane, claimed: ChatState) -> list[_Step]:
        """The next run: as many messages as wait in a row, or one change."""
        now = self._clock.now()
        self._runs += 1
        mark = f"{self._mark}{self._runs:x}"
        steps: list[_Step] = []
        keys: set[tuple[str, str]] = set()
        waiting = lane.waiting
        while waiting and len(steps) < limits.RUN_ENTRIES_MAX:
            proposal = waiting[0]
            key = proposal.key
            if steps and (key is None or not proposal.is_ready):
                break
            if key is not None and (name := (key.sender, key.client_message_id)) in keys:
                break  # a repeat within the run: the next one will find the first
            waiting.popleft()
            entries = self._decide(lane, proposal, claimed, now)
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

    def _decide(self, lane: _Lane, proposal: Proposal, state: ChatState, now: int) -> list[Entry]:
        try:
            entries = proposal.decide(state, now)
        except Refusal as refusal:
            if proposal.key is None:
                proposal.refused(refusal)
            else:
                self._tasks.start(self._refuse_unless_sent(lane.chat_id, proposal, refusal))
            return []
        if not entries:
            proposal.kept([])
        return entries

    # What came of a run.

    def _settled(
        self, lane: _Lane, claimed: ChatState, steps: list[_Step], outcome: Outcome
    ) -> None:
        match outcome:
            case Kept():
                self._keep_state(lane, claimed)
                for proposal, entries in steps:
                    proposal.kept(entries)
                    for entry in entries:
                        self._bus.publish(Appended(entry, claimed))
                self._next(lane)
            case KeyTaken(indexes):
                self._tasks.start(self._answer_repeats(lane, steps, set(indexes)))
            case SlotTaken():
                self._tasks.start(self._catch_up(lane, steps))
            case Declined():
                assert len(steps) == 1, "a change goes alone"
                steps[0][0].declined(outcome)
                self._next(lane)
            case Failed():
                for proposal, _ in steps:
                    proposal.refused(StoreUnavailable())
                self._next(lane)

    async def _answer_repeats(self, lane: _Lane, steps: list[_Step], taken: set[int]) -> None:
        """Answer those whose message is in the log already; append the others again.

        The lane stands still meanwhile: between the search and the slot right after it nothing
        of this process may come, or two repeats could both find nothing and both be appended.
        """
        again = []
        for index, (proposal, _) in enumerate(steps):
            if index not in taken or not await self._answer_if_sent(lane.chat_id, proposal):
                again.append(proposal)
        lane.waiting.extendleft(reversed(again))
        self._next(lane)

    async def _answer_if_sent(self, chat: ChatId, proposal: Proposal) -> bool:
        assert proposal.key is not None
        try:
            sent = await self._log.find_sent(chat, proposal.key, self._clock.now())
        except Refusal as refusal:
            proposal.refused(refusal)
            return True
        if sent is None:
            return False  # it expired a moment ago: claim it afresh
        if sent.digest != proposal.key.digest:
            proposal.refused(SendConflict())
            return True
        if sent.entry is not None:
            proposal.replayed(sent.entry)
            return True
        proposal.is_claimed = True
        return False

    async def _refuse_unless_sent(self, chat: ChatId, proposal: Proposal, refusal: Refusal) -> None:
        """The last word to a sender who was removed: a repeat of an own send is still answered."""
        assert proposal.key is not None
        try:
            sent = await self._log.find_sent(chat, proposal.key, self._clock.now())
        except Refusal as trouble:
            proposal.refused(trouble)
            return
        if sent and sent.entry is not None and sent.digest == proposal.key.digest:
            proposal.replayed(sent.entry)
        else:
            proposal.refused(refusal)

    async def _catch_up(self, lane: _Lane, steps: list[_Step]) -> None:
        """Another writer was first: take in what it wrote, then try again after it."""
        assert lane.state is not None
        state = lane.state.copy()
        try:
            while missed := await self._log.tail(lane.chat_id, state.head):
                for entry in missed:
                    state.fold(entry)
        except Refusal as refusal:
            for proposal, _ in steps:
                proposal.refused(refusal)
            self._next(lane)
            return
        self._keep_state(lane, state)
        again = [proposal for proposal, _ in steps if not self._gave_up(proposal)]
        lane.waiting.extendleft(reversed(again))
        if again:
            await self._backoff(again[0].attempts)
        self._next(lane)

    def _gave_up(self, proposal: Proposal) -> bool:
        # The winner may have been a repeat of this very send: claiming the key anew will tell.
        proposal.is_claimed = False
        proposal.attempts += 1
        if proposal.attempts < limits.SLOT_ATTEMPTS_MAX:
            return False
        proposal.refused(ChatBusy())
        return True
