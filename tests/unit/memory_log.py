# SPDX-License-Identifier: Apache-2.0
"""The log of one group in memory, which gets into trouble when a test says so, and its writer."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from tests.support.clock import ManualClock
from tidings.actions.chat.appender import Appender
from tidings.assembly.system import SystemChance
from tidings.buses.in_process import InProcessBus
from tidings.logs.requests import Requests
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Kind, Person, SendKey
from tidings.model.ids import ChatId, user_key
from tidings.model.refusals import ChatNotFound, Refusal, StoreUnavailable
from tidings.ports.bus import Event
from tidings.ports.log import Declined, Failed, Kept, KeyTaken, Log, Outcome, Run, Sent, SlotTaken
from tidings.tracing.spans import Span

CHAT: Final = ChatId("01HZZZZZZZZZZZZZZZZZZZZZZZ")
OWNER: Final = user_key("acme", "ann")


class Trouble(Enum):
    """What may happen to a call."""

    NONE = "none"
    REFUSED = "refused"
    BUG = "bug"

    def of(self, call: str) -> Exception | Outcome | None:
        """Return the trouble as it comes with this call."""
        if self is Trouble.NONE:
            return None
        if call == "append":
            return Failed() if self is Trouble.REFUSED else SlotTaken()
        return ZeroDivisionError() if self is Trouble.BUG else StoreUnavailable()


class MemoryLog:
    """The entries of a group, whose first entry creates it."""

    takes_after = False
    waiting_max = 100

    def __init__(self) -> None:
        self.troubles: dict[str, list[Exception | Outcome | None]] = defaultdict(list)
        """What the next calls of a name meet, in this order; None is a call that succeeds."""
        self.bugs: list[type[Exception]] = []
        """What `make_run` raised, which a store survives."""
        state = self.fresh_state()
        created = Entry(
            chat_id=CHAT, kind="created", sender=OWNER, people=(Person(OWNER, "owner"),)
        )
        state.stamp(created, 1, "first")
        self.entries = [created]
        self._claims: dict[str, Entry] = {}

    def fresh_state(self) -> ChatState:
        """Return the group before its first entry."""
        return ChatState(chat_id=CHAT, tenant="acme", type="group", name="Team", members={})

    def may_append(self, kind: Kind, *, has_options: bool = False) -> bool:
        return True

    def has_room(self, run: Sequence[Entry], _entry: Entry) -> bool:
        return len(run) < 100

    def append_later(self, make_run: Callable[[], Run | None]) -> None:
        try:
            run = make_run()
        except Exception as bug:
            self.bugs.append(type(bug))
            return
        if run is not None:
            self.append(run)

    def append(self, run: Run) -> None:
        run.settle(self._outcome(run))

    def _outcome(self, run: Run) -> Outcome:
        trouble: Outcome | None = self._trouble("append")
        if trouble is not None:
            return trouble
        if run.entries[0].sequence != len(self.entries) + 1:
            return SlotTaken()
        names = [key.client_message_id if key else None for key in run.keys]
        taken = {index for index, name in enumerate(names) if name in self._claims}
        if self.takes_after:
            taken |= {index for index, key in enumerate(run.keys) if key and key.after is not None}
        if taken:
            return KeyTaken(tuple(taken))
        self.entries += run.entries
        self._claims |= {
            name: entry for name, entry in zip(names, run.entries, strict=True) if name
        }
        return Kept()

    async def state(self, chat: ChatId) -> ChatState | None:
        self._raise_trouble("state")
        state = self.fresh_state()
        for entry in self.entries:
            state.fold(entry)
        return state

    async def others_append(self, entries: Sequence[Entry], at: int) -> None:
        """Have another process append entries at this time."""
        state = await self.state(CHAT)
        assert state is not None
        for entry in entries:
            state.stamp(entry, at, "other")
            state.fold(entry)
        self.entries += entries

    async def tail(self, chat: ChatId, after: int) -> list[Entry]:
        self._raise_trouble("tail")
        return self.entries[after:]

    async def find_sent(self, chat: ChatId, key: SendKey, now: int) -> Sent | None:
        self._raise_trouble("find_sent")
        name = key.client_message_id
        if self.takes_after and key.after is not None:
            found = (one for one in self.entries[key.after :] if one.client_message_id == name)
            return Sent(digest=key.digest, entry=next(found, None))
        entry = self._claims.get(name)
        return None if entry is None else Sent(digest=key.digest, entry=entry)

    async def entry(self, chat: ChatId, sequence: int) -> Entry | None:
        self._raise_trouble("entry")
        return self.entries[sequence - 1] if 0 < sequence <= len(self.entries) else None

    async def replies(self, *_: Any, **__: Any) -> None:
        raise AssertionError("an appender reads no replies")

    async def mentions(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("an appender reads no mentions")

    async def pins(self, *_: Any) -> Any:
        raise AssertionError("an appender reads no pins")

    async def message(self, *_: Any) -> None:
        raise AssertionError("an appender reads no single message")

    async def page(self, *_: Any, **__: Any) -> None:
        raise AssertionError("an appender reads no pages")

    async def settled_messages(self, *_: Any) -> list[Entry]:
        raise AssertionError("an appender reads no settled messages")

    async def reactions(self, *_: Any) -> None:
        raise AssertionError("an appender reads no reactions")

    def _trouble(self, call: str) -> Any:
        return self.troubles[call].pop(0) if self.troubles[call] else None

    def _raise_trouble(self, call: str) -> None:
        if (trouble := self._trouble(call)) is not None:
            raise trouble


_conforms: type[Log] = MemoryLog


DOWN = StoreUnavailable("the test says so")


class Send:
    """A message that keeps a list of its answers."""

    def __init__(self, cmid: str, *, is_member: bool = True, after: int | None = None) -> None:
        self.key: SendKey | None = SendKey(OWNER, cmid, b"digest", limits.DAY_MS, after)
        self.is_claimed = False
        self.goes_alone = False
        self.attempts = 0
        self.was_looked_into = False
        self.requests: Requests = ()
        self.span: Span | None = None
        self.is_ready = True
        self.answers: list[object] = []
        self.answered = asyncio.Event()
        self._is_member = is_member

    async def prepare(self) -> None:
        self.is_ready = True

    def decide(self, state: ChatState, now: int) -> list[Entry]:
        if not self._is_member:
            raise ChatNotFound
        assert self.key is not None
        cmid = self.key.client_message_id
        return [Entry(chat_id=state.chat_id, kind="message", sender=OWNER, client_message_id=cmid)]

    def kept(self, entries: list[Entry]) -> None:
        self._answer(entries[0].sequence)

    def replayed(self, entry: Entry) -> None:
        self._answer(("again", entry.sequence))

    def declined(self, declined: Declined) -> None:
        self._answer(declined)

    def refused(self, refusal: Refusal) -> None:
        self._answer(refusal)

    def _answer(self, answer: object) -> None:
        self.answers.append(answer)
        self.answered.set()


class Writer:
    """An appender on a log in memory."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.events: list[Event] = []
        bus = InProcessBus()
        bus.subscribe(self.events.append)
        self.appender = Appender(self.log, bus, ManualClock(), SystemChance(), self._no_pause)

    async def _no_pause(self, _: int) -> None:
        await asyncio.sleep(0)

    async def send(self, *sends: Send) -> list[object]:
        """Propose them in one turn of the loop; returns each one's only answer."""
        for send in sends:
            self.appender.propose(CHAT, send)
        for send in sends:
            await send.answered.wait()
        await asyncio.sleep(0)
        assert [len(send.answers) for send in sends] == [1] * len(sends)
        return [send.answers[0] for send in sends]
