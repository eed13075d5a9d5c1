# SPDX-License-Identifier: Apache-2.0
"""The relay: makes sure that every entry is delivered, even if its event was lost.

It reads the store's own stream of changes. Three seconds after a change, it compares the entry with
the chat's head copy, which is the sequence up to which the chat is delivered. If the head copy is
behind, the relay sends workers a hint. If it is still behind after two hints, the relay delivers
the entries itself.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from tidings.actions.content.vault import Vault
from tidings.delivery.chat_states import DISPATCHED_ENTRIES_MAX, NotInLog
from tidings.metrics import declared
from tidings.metrics.counts import report_counts
from tidings.metrics.meters import report
from tidings.model.entries import head_of
from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Appended, Bus, Expired
from tidings.ports.delivery import Changes, ContentExpired, DeliveryStore, EntryWritten
from tidings.ports.log import Log
from tidings.ports.world import Clock

log = logging.getLogger("tidings.relay")

LATE_SECONDS: Final = 3.0
OLD_MS: Final = 90_000
"""Entries of this age or older are compared at once, without the delay, and workers are not told of
deletions of this age. It is this high because the store's clock may round times to minutes."""
MINUTE_MS: Final = 60_000
PAUSE_SECONDS: Final = 1.0
AGAIN_SECONDS_FIRST: Final = 5.0
AGAIN_SECONDS_MAX: Final = 60.0
CHECKED_AT_ONCE: Final = 100
OWED_CHATS_MAX: Final = 20_000
"""Limit on chats that wait for a comparison. At the limit no more changes are read; the store keeps
changes for a day."""
HINTS_MAX: Final = 2
"""Number of hints after which the relay delivers the entries itself."""
ATTEMPTS_MAX: Final = 5
MANY_CHANGES: Final = 500
"""If a poll returns at least this many changes, the next poll follows without a pause."""
DELIVERED_AT_ONCE: Final = 16


class Delivers(Protocol):
    """Delivers entries for which there is no event."""

    async def deliver(self, chat: ChatId, *, after: int, up_to: int) -> None:
        """Deliver a range of a chat's entries, and advance the head copy."""
        ...


class _Owed(msgspec.Struct):
    """A chat whose head copy may be behind."""

    sequence: int
    due: float
    since: float
    """When the comparison was due for the first time."""
    attempts: int = 0


class Relay:
    """Background task that finds and delivers missed entries. Several relays may run at a time."""

    def __init__(
        self,
        changes: Changes,
        deliveries: DeliveryStore,
        deliverer: Delivers,
        clock: Clock,
        *,
        hint: Callable[[ChatId, int], Awaitable[bool]] | None,
        cleaned: Callable[[Expired, bool], None],
        written: Callable[[Sequence[EntryWritten]], None] | None = None,
    ) -> None:
        """Set up the relay.

        Args:
            changes: The store's stream of changes.
            deliveries: Head copies.
            deliverer: Delivers the entries if hints do not help.
            clock: The time.
            hint: Sends workers the head of a log, and returns whether it was published. If None,
                the relay always delivers by itself.
            cleaned: Called for messages that have expired and whose content was removed, and
                whether this happened just now: after each start, the relay reads those of a whole
                day.
            written: Called for all entries that are read from the stream.
        """
        self._changes = changes
        self._deliveries = deliveries
        self._deliverer = deliverer
        self._clock = clock
        self._hint = hint
        self._cleaned = cleaned
        self._written = written
        self._young: deque[tuple[float, dict[ChatId, int]]] = deque()
        self._owed: dict[ChatId, _Owed] = {}
        self._free = asyncio.Semaphore(DELIVERED_AT_ONCE)
        self._task: asyncio.Task[None] | None = None
        self.compared = 0
        self.behind = 0
        self.hinted = 0
        self.delivered = 0
        self.given_up = 0
        report_counts(self, "relay")
        report(self, lambda relay: [(declared.relay_late, (), relay.behind)])

    def start(self) -> None:
        """Start the background task."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop at once. Another relay will read the same changes later."""
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
        """Read some changes, and compare the chats that are due with their head copies.

        Return True if more changes may wait to be read.
        """
        is_more = False
        if len(self._owed) < OWED_CHATS_MAX:
            changes = await self._changes.poll()
            written = [change for change in changes if isinstance(change, EntryWritten)]
            self._sort(written)
            if self._written is not None:
                self._written(written)
            self._report_cleaned([c for c in changes if isinstance(c, ContentExpired)])
            is_more = len(changes) >= MANY_CHANGES
        await self._compare()
        return is_more

    def _sort(self, written: list[EntryWritten]) -> None:
        """Schedule the comparison of each changed chat: now for old entries, later for young ones.

        Only the last entry of a chat is kept.
        """
        now, loop_now = self._clock.now(), asyncio.get_running_loop().time()
        young: dict[ChatId, int] = {}
        for entry in written:
            if now - entry.at >= OLD_MS:
                self._owe(entry.chat, entry.sequence, loop_now)
            else:
                young[entry.chat] = max(entry.sequence, young.get(entry.chat, 0))
        if young:
            self._young.append((loop_now + LATE_SECONDS, young))
        while self._young and self._young[0][0] <= loop_now:
            for chat, sequence in self._young.popleft()[1].items():
                self._owe(chat, sequence, loop_now)

    def _owe(self, chat: ChatId, sequence: int, due: float) -> None:
        owed = self._owed.get(chat)
        if owed is None:
            self._owed[chat] = _Owed(sequence, due, due)
        else:
            owed.sequence = max(owed.sequence, sequence)

    def _report_cleaned(self, cleaned: list[ContentExpired]) -> None:
        now = self._clock.now()
        reports: dict[tuple[ChatId, int, bool], list[int]] = {}
        for message in cleaned:
            minute, is_new = message.at - message.at % MINUTE_MS, now - message.at < OLD_MS
            reports.setdefault((message.chat, minute, is_new), []).append(message.sequence)
        for (chat, minute, is_new), sequences in reports.items():
            self._cleaned(Expired(chat, tuple(sequences), minute), is_new)

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
                        group.create_task(self._hint_or_deliver(chat, reached.get(chat, 0)))

    async def _hint_or_deliver(self, chat: ChatId, reached: int) -> None:
        """Send the workers a hint about a chat that is behind or, after too many hints, deliver its
        entries here. Compare again after a pause, which grows with each attempt."""
        owed = self._owed[chat]
        self.behind += 1
        declared.relay_late_seconds.of[()].observe(asyncio.get_running_loop().time() - owed.since)
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
                log.exception(
                    "the relay cannot deliver a chat",
                    extra={"action": "relay_failed", "chat": chat},
                )
                self._give_up_if_hopeless(chat, owed)

    def _give_up_if_hopeless(self, chat: ChatId, owed: _Owed) -> None:
        if owed.attempts >= ATTEMPTS_MAX:
            log.error(
                "the relay gave up on a chat", extra={"action": "relay_gave_up", "chat": chat}
            )
            self.given_up += 1
            del self._owed[chat]


class Republisher:
    """Delivers in a single process by publishing entries again. Connections drop duplicates."""

    def __init__(
        self, log: Log, deliveries: DeliveryStore, vault: Vault, bus: Bus, clock: Clock
    ) -> None:
        self._log = log
        self._deliveries = deliveries
        self._vault = vault
        self._bus = bus
        self._clock = clock

    async def deliver(self, chat: ChatId, *, after: int, up_to: int) -> None:
        """Publish the last entries of this range of a log again, and advance the head copy.

        Raises:
            NotInLog: There is no such chat, or its log is shorter.
            StoreUnavailable: The store does not answer.
        """
        first = max(after + 1, up_to - DISPATCHED_ENTRIES_MAX + 1)
        state = await self._log.state(chat)
        entries = await self._deliveries.entries(chat, after=first - 1, limit=up_to - first + 1)
        if state is None or not entries or entries[-1].sequence < up_to:
            raise NotInLog(f"the log of {chat} does not reach {up_to}")
        await self._vault.open(entries, self._clock.now())
        for entry in entries:
            self._bus.publish(Appended(entry, state))
        end = entries[-1]
        last = next((entry for entry in entries if entry.sequence == end.last_message), None)
        await self._deliveries.advance(chat, head_of(end), last)
