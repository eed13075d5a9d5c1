# SPDX-License-Identifier: Apache-2.0
"""The relay: sees to it that what is in the log is delivered, whatever became of its event.

It reads what the store itself tells was written, three seconds late, and compares it with the head
copies, which mean "delivered up to here". A chat that is behind is told of again, and again with
pauses until its head copy has come along. If telling is of no use, the relay delivers by itself.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from tidings.actions.content.vault import Vault
from tidings.delivery.chat_states import RUN_ENTRIES_MAX, NotInLog
from tidings.model.entries import head_of
from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Appended, Bus
from tidings.ports.delivery import Changes, ContentExpired, DeliveryStore, EntryWritten
from tidings.ports.log import Log
from tidings.ports.world import Clock

log = logging.getLogger("tidings.relay")

LATE_SECONDS: Final = 3.0
OLD_MS: Final = 90_000
"""So old by the store's clock, which tells minutes at the worst, an entry is due at once."""
PAUSE_SECONDS: Final = 1.0
AGAIN_SECONDS_FIRST: Final = 5.0
AGAIN_SECONDS_MAX: Final = 60.0
CHECKED_AT_ONCE: Final = 100
OWED_CHATS_MAX: Final = 20_000
"""If so many chats are behind, no more is read: the store keeps it for a day."""
HINTS_MAX: Final = 2
"""After so many nobody seems to listen."""
ATTEMPTS_MAX: Final = 5
MANY_CHANGES: Final = 500
"""So many at once: there are more, and they do not wait for the next turn."""
DELIVERED_AT_ONCE: Final = 16


class Delivers(Protocol):
    """Someone who can deliver without any event."""

    async def deliver(self, chat: ChatId, *, after: int, up_to: int) -> None:
        """Deliver a stretch of a chat's log and have the head copy say so."""
        ...


class _Owed(msgspec.Struct):
    """A chat that may be behind."""

    sequence: int
    due: float
    attempts: int = 0


class Relay:
    """Compares and makes good for as long as it runs. Several of them do no harm."""

    def __init__(
        self,
        changes: Changes,
        deliveries: DeliveryStore,
        deliverer: Delivers,
        clock: Clock,
        *,
        hint: Callable[[ChatId, int], Awaitable[bool]] | None,
        cleaned: Callable[[ChatId, tuple[int, ...]], None],
    ) -> None:
        """`hint` tells workers how far a log reaches, and says whether they will hear of it.

        Without one the relay delivers by itself. `cleaned` is told of messages that expired and
        were deleted.
        """
        self._changes = changes
        self._deliveries = deliveries
        self._deliverer = deliverer
        self._clock = clock
        self._hint = hint
        self._cleaned = cleaned
        self._young: deque[tuple[float, dict[ChatId, int]]] = deque()
        self._owed: dict[ChatId, _Owed] = {}
        self._free = asyncio.Semaphore(DELIVERED_AT_ONCE)
        self._task: asyncio.Task[None] | None = None
        self.compared = 0
        self.behind = 0
        self.hinted = 0
        self.delivered = 0
        self.given_up = 0

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop at once: whoever reads the same changes later finds the same."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            is_more = False
            try:
                is_more = await self.turn()
            except StoreUnavailable:
                log.warning("the store does not answer", extra={"action": "relay_waits"})
            except Exception:
                log.exception("the relay failed", extra={"action": "relay_failed"})
            if not is_more:
                await asyncio.sleep(PAUSE_SECONDS)

    async def turn(self) -> bool:
        """Read some changes and compare those that are due; whether there may be more at once."""
        is_more = False
        if len(self._owed) < OWED_CHATS_MAX:
            changes = await self._changes.poll()
            self._sort([one for one in changes if isinstance(one, EntryWritten)])
            self._report_cleaned([one for one in changes if isinstance(one, ContentExpired)])
            is_more = len(changes) >= MANY_CHANGES
        await self._compare()
        return is_more

    def _sort(self, written: list[EntryWritten]) -> None:
        """What is old is due now, the rest after a while; of each chat only the last place."""
        now, loop_now = self._clock.now(), asyncio.get_running_loop().time()
        young: dict[ChatId, int] = {}
        for one in written:
            if now - one.at >= OLD_MS:
                self._owe(one.chat, one.sequence, loop_now)
            else:
                young[one.chat] = max(one.sequence, young.get(one.chat, 0))
        if young:
            self._young.append((loop_now + LATE_SECONDS, young))
        while self._young and self._young[0][0] <= loop_now:
            for chat, sequence in self._young.popleft()[1].items():
                self._owe(chat, sequence, loop_now)

    def _owe(self, chat: ChatId, sequence: int, due: float) -> None:
        owed = self._owed.get(chat)
        if owed is None:
            self._owed[chat] = _Owed(sequence, due)
        else:
            owed.sequence = max(owed.sequence, sequence)

    def _report_cleaned(self, cleaned: list[ContentExpired]) -> None:
        by_chat: dict[ChatId, list[int]] = {}
        for one in cleaned:
            by_chat.setdefault(one.chat, []).append(one.sequence)
        for chat, sequences in by_chat.items():
            self._cleaned(chat, tuple(sequences))

    # Comparing.

    async def _compare(self) -> None:
        now = asyncio.get_running_loop().time()
        due = [chat for chat, owed in self._owed.items() if owed.due <= now]
        for start in range(0, len(due), CHECKED_AT_ONCE):
            chats = due[start : start + CHECKED_AT_ONCE]
            reached = await self._deliveries.reached(chats)
            self.compared += len(chats)
            async with asyncio.TaskGroup() as group:
                for chat in chats:
                    if reached.get(chat, 0) >= self._owed[chat].sequence:
                        del self._owed[chat]
                    else:
                        group.create_task(self._make_good(chat, reached.get(chat, 0)))

    async def _make_good(self, chat: ChatId, reached: int) -> None:
        """Tell of it, or deliver it; look again after a while, later each time."""
        owed = self._owed[chat]
        self.behind += 1
        owed.attempts += 1
        pause = min(AGAIN_SECONDS_MAX, AGAIN_SECONDS_FIRST * 2 ** (owed.attempts - 1))
        owed.due = asyncio.get_running_loop().time() + pause
        if (
            self._hint is not None
            and owed.attempts <= HINTS_MAX
            and await self._hint(chat, owed.sequence)
        ):
            self.hinted += 1
            return
        async with self._free:
            try:
                await self._deliverer.deliver(chat, after=reached, up_to=owed.sequence)
                self.delivered += 1
            except StoreUnavailable:
                owed.attempts -= 1
            except Exception:
                log.exception("not delivered", extra={"action": "relay_failed", "chat": chat})
                self._give_up_if_hopeless(chat, owed)

    def _give_up_if_hopeless(self, chat: ChatId, owed: _Owed) -> None:
        if owed.attempts >= ATTEMPTS_MAX:
            log.error("given up", extra={"action": "relay_gave_up", "chat": chat})
            self.given_up += 1
            del self._owed[chat]


class Republishing:
    """Puts entries on the bus again; connections drop what they have."""

    def __init__(
        self, log: Log, deliveries: DeliveryStore, vault: Vault, bus: Bus, clock: Clock
    ) -> None:
        self._log = log
        self._deliveries = deliveries
        self._vault = vault
        self._bus = bus
        self._clock = clock

    async def deliver(self, chat: ChatId, *, after: int, up_to: int) -> None:
        """Publish a stretch of a log, of a long one only the end, and advance the head copy.

        Raises:
            NotInLog: There is no such chat, or its log is shorter.
            StoreUnavailable: Not now.
        """
        first = max(after + 1, up_to - RUN_ENTRIES_MAX + 1)
        state = await self._log.state(chat)
        entries = await self._deliveries.entries(chat, after=first - 1, limit=up_to - first + 1)
        if state is None or not entries or entries[-1].sequence < up_to:
            raise NotInLog(f"the log of {chat} does not reach {up_to}")
        await self._vault.open(entries, self._clock.now())
        for entry in entries:
            self._bus.publish(Appended(entry, state))
        count = len(state.members) if state.head == up_to else None
        await self._deliveries.advance(chat, head_of(entries[-1]), count)
