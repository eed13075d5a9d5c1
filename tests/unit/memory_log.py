# SPDX-License-Identifier: Apache-2.0
"""The log of one group in memory, which gets into trouble whenever a test says so."""

from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Person, SendKey
from tidings.model.ids import ChatId, user_key
from tidings.model.refusals import StoreUnavailable
from tidings.ports.log import Failed, Kept, KeyTaken, Log, Outcome, Run, Sent, SlotTaken

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

    run_entries_max = 100
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
        if taken := tuple(index for index, name in enumerate(names) if name in self._claims):
            return KeyTaken(taken)
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

    async def tail(self, chat: ChatId, after: int) -> list[Entry]:
        self._raise_trouble("tail")
        return self.entries[after:]

    async def find_sent(self, chat: ChatId, key: SendKey, now: int) -> Sent | None:
        self._raise_trouble("find_sent")
        entry = self._claims.get(key.client_message_id)
        return None if entry is None else Sent(digest=key.digest, entry=entry)

    async def message(self, *_: Any) -> None:
        raise NotImplementedError

    async def page(self, *_: Any, **__: Any) -> None:
        raise AssertionError("an appender reads no pages")

    async def reactions(self, *_: Any) -> None:
        raise AssertionError("an appender reads no reactions")

    def _trouble(self, call: str) -> Any:
        return self.troubles[call].pop(0) if self.troubles[call] else None

    def _raise_trouble(self, call: str) -> None:
        if (trouble := self._trouble(call)) is not None:
            raise trouble


_conforms: type[Log] = MemoryLog
