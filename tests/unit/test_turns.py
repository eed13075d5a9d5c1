# SPDX-License-Identifier: Apache-2.0
"""Processes that append to one busy chat take turns: none is starved, and few slots are lost.

Time is simulated: when all tasks wait, the clock of the event loop jumps to the next timer. The
outcome does not depend on the machine.
"""

import asyncio
import itertools
import random
import selectors
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import pytest

from tests.support.clock import NOW
from tests.unit.memory_log import CHAT, MemoryLog, Send
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.turns import RIVALS_MS, TURN_RUNS, WriterTurn
from tidings.buses.in_process import InProcessBus
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.ports.log import Kept, Outcome, Run

PACK: Final = 16
REQUEST_SECONDS: Final = 0.005


class _Jump(selectors.SelectSelector):
    """A selector that does not wait, but moves a clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        self.now += timeout or 0.0
        return found


class SimulatedTime(asyncio.SelectorEventLoop):
    """An event loop on which waiting takes no time."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now


def simulated(scene: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=SimulatedTime) as runner:
        runner.run(scene)


class LoopClock:
    """The time of the event loop, in milliseconds."""

    def now(self) -> int:
        return NOW + int(asyncio.get_running_loop().time() * 1_000)


class DistantLog:
    """A log that is a few milliseconds away, as one process sees it."""

    takes_after = False
    waiting_max = 4_096

    def __init__(self, log: MemoryLog, chance: random.Random) -> None:
        self.kept = self.lost = self.reads = 0
        self._log = log
        self._chance = chance
        self._writing: set[asyncio.Task[None]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def has_room(self, run: Sequence[Entry], _entry: Entry) -> bool:
        return len(run) < PACK

    def append_later(self, make_run: Callable[[], Run | None]) -> None:
        if (run := make_run()) is not None:
            task = asyncio.get_running_loop().create_task(self._write(run))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def _write(self, run: Run) -> None:
        settle = run.settle
        outcomes: list[Outcome] = []
        run.settle = outcomes.append
        await self._half_a_request()
        self._log.append(run)
        await self._half_a_request()
        won = isinstance(outcomes[0], Kept)
        self.kept, self.lost = self.kept + won, self.lost + (not won)
        settle(outcomes[0])

    async def tail(self, chat: ChatId, after: int) -> list[Entry]:
        self.reads += 1
        await self._half_a_request()
        found = await self._log.tail(chat, after)
        await self._half_a_request()
        return found

    async def state(self, chat: ChatId) -> ChatState | None:
        return await self._log.state(chat)

    async def _half_a_request(self) -> None:
        await asyncio.sleep(REQUEST_SECONDS / 2 * self._chance.lognormvariate(0, 0.3))


class _Names:
    """Names of processes that are the same in each run."""

    def __init__(self, chance: random.Random) -> None:
        self.token = chance.randbytes


class Process:
    """An appender with senders that each keep some messages unanswered."""

    def __init__(
        self, log: MemoryLog, chance: random.Random, names: "itertools.count[int]"
    ) -> None:
        self.log = DistantLog(log, chance)
        self.sent = self.refused = 0
        self.is_sending = True
        self._chance = chance
        self._names = names
        self.appender = Appender(
            self.log, InProcessBus(), LoopClock(), _Names(chance), self._back_off
        )

    async def _back_off(self, attempt: int) -> None:
        await asyncio.sleep(self._chance.uniform(0, 0.005 * 2 ** min(attempt, 3)))

    def counts(self) -> Counter[str]:
        return Counter(sent=self.sent, refused=self.refused, kept=self.log.kept, lost=self.log.lost)

    def send(self, unanswered: int) -> None:
        for _ in range(unanswered):
            self.appender.propose(CHAT, _Busy(f"m{next(self._names)}", self))

    def answered(self, answer: object) -> None:
        self.sent += isinstance(answer, int)
        self.refused += not isinstance(answer, int)
        if self.is_sending:
            asyncio.get_running_loop().call_soon(self.send, 1)


class _Busy(Send):
    """A message whose sender sends another one as soon as it is answered."""

    def __init__(self, cmid: str, process: Process) -> None:
        super().__init__(cmid)
        self._process = process

    def _answer(self, answer: object) -> None:
        super()._answer(answer)
        self._process.answered(answer)


def processes(number: int) -> list[Process]:
    log, chance, names = MemoryLog(), random.Random(number), itertools.count()
    return [Process(log, chance, names) for _ in range(number)]


@pytest.mark.parametrize("number", [2, 4])
def test_busy_processes_get_equal_shares_and_lose_few_slots(number: int) -> None:
    async def scene() -> None:
        busy = processes(number)
        for process in busy:
            process.send(160 // number)
        await asyncio.sleep(2)  # until each of them has won a slot, and the others know of it
        before = [process.counts() for process in busy]
        await asyncio.sleep(2)
        shares = [now - then for then, now in zip(before, map(Process.counts, busy), strict=True)]
        sent = [share["sent"] for share in shares]
        assert min(sent) > 0.8 * max(sent)
        assert sum(sent) > 0.5 * 2 / REQUEST_SECONDS * PACK, "most of what one process could write"
        total = sum(shares, Counter[str]())
        assert total["lost"] < 0.05 * total["kept"]
        assert total["refused"] == 0

    simulated(scene())


def test_a_process_that_stops_in_its_turn_holds_nobody_up() -> None:
    async def scene() -> None:
        one, other = processes(2)
        one.send(80)
        other.send(80)
        await asyncio.sleep(2)
        other.is_sending = False
        await other.appender.close()
        await asyncio.sleep(RIVALS_MS / 1_000)
        before = one.sent
        await asyncio.sleep(2)
        assert one.sent - before > 0.9 * 2 / REQUEST_SECONDS * PACK, "as if it were alone"

    simulated(scene())


def test_in_a_quiet_chat_a_lost_slot_costs_one_look_at_the_log() -> None:
    async def scene() -> None:
        one, other = processes(2)
        one.is_sending = other.is_sending = False
        for process in (one, other, one, other, one):
            process.send(1)
            await asyncio.sleep(0.1)
        assert one.sent + other.sent == 5
        assert (one.log.reads, other.log.reads) == (2, 1)
        assert (one.log.lost, other.log.lost) == (2, 1)

    simulated(scene())


def test_turns_follow_each_other_in_the_order_of_names() -> None:
    turn = WriterTurn()
    turn.request_took(1.0)
    a, b, c, d = (name * 16 for name in "abcd")
    for writer in (a, d, b, c):
        turn.note(writer, NOW, 1)
    assert [turn.wait_seconds(name) for name in (a, b, d)] == [0, 0, 0], "it wrote nothing more"
    for _ in range(TURN_RUNS):
        turn.note(b, NOW, 2)
    assert [turn.wait_seconds(name) for name in (c, d, a)] == [0, 0.2, 0.4]
    assert turn.is_over(b)
    assert not turn.is_over(c)
    assert turn.pause_seconds(b) == pytest.approx(0.8)
    assert not turn.is_over(b)
    turn.note(c, NOW, 2)
    assert turn.wait_seconds(d) == pytest.approx((TURN_RUNS - 1) * 0.1)
    turn.note(c, NOW + RIVALS_MS, 2)
    assert turn.pause_seconds(c) == pytest.approx(0.2), "the others have gone"
