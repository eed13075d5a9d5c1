# SPDX-License-Identifier: Apache-2.0
"""Does what is due, such as sending scheduled messages. Several processes share the work.

Items wait in the store until they are due. A process reads the due items of its shards once a
second, and four times a second while something is due. Tenants take turns among these items. If one
tenant has very many, the process searches behind them for the items of other tenants. An item is
removed after its work is done, so the work is repeated if a process dies in it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple

from tidings.delivery.due_drops import DueDrops
from tidings.delivery.due_memory import HeldItems
from tidings.delivery.due_searches import DueSearches
from tidings.diagnosis import report_queue
from tidings.metrics import declared
from tidings.metrics.counts import report_counts
from tidings.metrics.meters import Reading, report
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import StoreUnavailable, Unavailable
from tidings.ports.due import LEASE_MS, Due, DueItems, DueKind, DueWork
from tidings.ports.store import Requester, set_requester
from tidings.ports.tenant_jobs import NotYet
from tidings.ports.world import Clock
from tidings.tasks import Tasks

log = logging.getLogger("tidings.delivery")

POLL_SECONDS: Final = 1.0
ASK_MS: Final = LEASE_MS // 3
"""How often a process asks for its shards. It gets those of a process that has died, too."""
READ_MAX: Final = 500
"""Items of one shard that are read at once."""
AT_ONCE: Final = 64
"""Items whose work is done concurrently."""
WIDTH_MIN: Final = 4.0
"""Items whose work is done concurrently although the store does not answer in time."""


class Pace(NamedTuple):
    """How often a timer looks, and how much it does at once."""

    poll_seconds: float = POLL_SECONDS
    at_once: int = AT_ONCE
    tenant_at_once: int = AT_ONCE
    """Items of one tenant whose work is done concurrently."""
    grace_seconds: float = 0.0
    """How long work that has begun may go on when the process ends."""


USUAL_PACE: Final = Pace()
EMAIL_PACE: Final = Pace(poll_seconds=5.0, at_once=16, tenant_at_once=2, grace_seconds=10.0)
"""The work waits for a mail server, which may be slow. At least 8 tenants have their turn. Nobody
would know the outcome of an e-mail that is broken off."""
FAILURES_MAX: Final = 5
RETRY_MS: Final = 1 * SECOND_MS
RETRY_MS_MAX: Final = 30 * SECOND_MS


class Timer:
    """Background task that does what is due."""

    def __init__(
        self,
        *,
        due: DueItems,
        kinds: Mapping[DueKind, DueWork],
        clock: Clock,
        holder: str,
        back_off: Callable[[int], Awaitable[None]],
        pace: Pace = USUAL_PACE,
    ) -> None:
        """Set up the timer; `back_off(n)` waits before the n-th retry, a few seconds at most."""
        self._due = due
        self._kinds = kinds
        self._clock = clock
        self._holder = holder
        self._back_off = back_off
        self._pace = pace
        self._leases: dict[DueKind, tuple[Sequence[int], int]] = {}
        """Shards of this process, and when it asked for them."""
        self._held = HeldItems()
        self._searches = DueSearches()
        self._looks = 0
        self._enough = 0
        """Number of items in memory with which the next look need not wait any more."""
        self._has_room = asyncio.Event()
        self._width = float(pace.at_once)
        """Items whose work may be done concurrently now."""
        self._narrowed_at = 0
        self._is_closing = False
        self._running = 0
        self._running_of: Counter[str] = Counter()
        self._busy: set[str] = set()
        """Tenants of whom no further item may be begun."""
        self._tasks = Tasks("timer")
        self._drop_done = DueDrops(due, self._tasks)
        self.done = 0
        self.failed_attempts = 0
        report_queue("due items", self)
        report_counts(self, "timer")
        report(self, _readings)

    def depths(self) -> Mapping[str, int]:
        """Return the number of items in memory, and of those whose work is being done."""
        return {"held": len(self._held), "running": self._running}

    def start(self) -> None:
        """Start the background task. Services that are not reachable yet are tried again."""
        self._tasks.repeat(self._run)

    async def close(self) -> None:
        """Stop, and give back the shards. Work that is left is done after the next start, here or
        elsewhere."""
        self._is_closing = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pace.grace_seconds):
                while self._running:
                    self._has_room.clear()
                    await self._has_room.wait()
        await self._tasks.close()
        for kind in self._leases:
            with suppress(Unavailable):
                await self._due.give_back(kind, self._holder)

    async def _run(self) -> None:
        attempt = 0
        while True:
            began = monotonic()
            try:
                has_more = await self.look()
            except Unavailable:
                attempt += 1
                await self._back_off(attempt)
                continue
            attempt = 0
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait_seconds(monotonic() - began)):
                    await self._until_half_is_done(has_more=has_more)

    def _wait_seconds(self, took_seconds: float) -> float:
        """Return how long the timer waits before it looks again. When something is due, it looks
        more often, because more is likely to become due; but not if looks take long."""
        most = self._pace.poll_seconds
        return min(most, max(most / 4, took_seconds)) if self._held else most

    async def _until_half_is_done(self, *, has_more: bool) -> None:
        """Wait until half of the items in memory are done. If there are no more, wait on."""
        self._enough = len(self._held) // 2 if has_more else -1
        self._has_room.clear()
        if len(self._held) > self._enough:
            await self._has_room.wait()

    async def look(self) -> bool:
        """Read the items of this process that are due, and begin to do their work.

        Returns True if more items are due than fit into memory.

        Raises:
            Unavailable: The store does not answer.
        """
        self._looks += 1
        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(self._look_or_fail(kind)) for kind in self._kinds]
        found = [look.result() for look in looks]
        for one in found:
            if isinstance(one, Unavailable):
                raise one
        return True in found

    async def _look_or_fail(self, kind: DueKind) -> bool | Unavailable:
        """Look for items of a kind. If the store does not answer, the other kinds go on."""
        try:
            return await self._look_for(kind)
        except Unavailable as error:
            return error

    async def _look_for(self, kind: DueKind) -> bool:
        shards = await self._shards(kind)
        first = self._looks % max(1, len(shards))  # each shard is the first in turn
        has_more = False
        for shard in (*shards[first:], *shards[:first]):
            has_more |= await self._read(kind, shard)
        return has_more

    async def _shards(self, kind: DueKind) -> Sequence[int]:
        shards, asked_at = self._leases.get(kind, ((), 0))
        now = self._clock.now()
        if now < asked_at + ASK_MS:
            return shards
        leased = await self._due.lease(kind, self._holder, now)
        if list(leased) != list(shards):
            extra = {"action": "shards_leased", "kind": kind, "count": len(leased)}
            log.info("leased shards of due items", extra=extra)
        self._leases[kind] = (leased, now)
        return leased

    async def _read(self, kind: DueKind, shard: int) -> bool:
        """Read items of a shard; return True if some have to wait until others are done."""
        try:
            return await self._read_shard(kind, shard)
        finally:
            self._searches.stop((kind, shard), self._clock.now())

    async def _read_shard(self, kind: DueKind, shard: int) -> bool:
        """Read items of a shard, once or several times.

        Items that are in memory or paused are read again. There may be more of them than are read
        at once, so reading continues behind them.
        """
        now, name, has_more = self._clock.now(), (kind, shard), False
        since: int | None = 0
        passed_by: set[str] = set()
        last: Due | None = None
        while self._held.has_room(kind):
            crowded = self._held.crowded(kind)
            if crowded and not passed_by:
                paused_since = self._held.paused_since(kind, crowded, now)
                if (since := self._searches.begin(name, crowded, paused_since, now)) is None:
                    return True
                has_more = True
            passed_by.update(crowded)
            found = await self._due.read(kind, shard, now, READ_MAX, crowded, last, since or 0)
            has_more |= self._held.take(found, now)
            if len(found) < READ_MAX and passed_by and self._held.has_room(kind):
                # Some items of a tenant who has as many as fit since now were left out, too.
                self._searches.end(name, passed_by.union(self._held.crowded(kind)))
            self._go_on()
            if len(found) < READ_MAX:
                return has_more
            last = found[-1]
        return True

    def _go_on(self) -> None:
        while self._running < self._most and (due := self._held.next(self._busy)) is not None:
            self._running += 1
            self._count(due.tenant, 1)
            self._tasks.start(self._do(due))

    @property
    def _most(self) -> int:
        """Number of items whose work may be done concurrently now."""
        return 0 if self._is_closing else int(self._width)

    def _count(self, tenant: str, change: int) -> None:
        self._running_of[tenant] += change
        if self._running_of[tenant] >= self._pace.tenant_at_once:
            self._busy.add(tenant)
        else:
            self._busy.discard(tenant)
        if not self._running_of[tenant]:
            del self._running_of[tenant]

    async def _do(self, due: Due) -> None:
        # Tenants take turns at the store, too.
        set_requester(Requester(due.tenant))
        try:
            await self._try(due)
        finally:
            self._running -= 1
            self._count(due.tenant, -1)
            self._held.let_go(due)
            if len(self._held) <= self._enough or self._is_closing:
                self._has_room.set()
            self._go_on()

    async def _try(self, due: Due) -> None:
        work, now, is_done = self._kinds[due.kind], self._clock.now(), False
        try:
            is_over = await work.do(due)
            is_done = True
            await (self._drop_done(due) if is_over else self._due.drop(due))
        except NotYet as wait:
            self._held.pause(due, wait.until)
        except Unavailable as error:
            self._held.pause(due, self._clock.now() + RETRY_MS)
            if isinstance(error, StoreUnavailable):  # not the hook of a single tenant
                self._narrow()
        except Exception:
            extra = {"action": "due_failed", "tenant": due.tenant, "kind": due.kind}
            log.exception("what was due failed", extra=extra)
            await self._failed(due, is_done=is_done)
        else:
            self.done += 1
            self._width = min(self._pace.at_once, self._width + 1 / self._width)
            declared.timer_late_seconds.of[due.kind].observe((now - due.at) / SECOND_MS)
            self._held.forget_failures(due)

    def _narrow(self) -> None:
        """Do less at once, because the store does not answer in time. Otherwise the store would be
        busy with work that is given up and repeated."""
        now = self._clock.now()
        if now >= self._narrowed_at + RETRY_MS:
            self._narrowed_at = now
            self._width = max(WIDTH_MIN, self._width / 2)

    async def _failed(self, due: Due, *, is_done: bool) -> None:
        """Try an item again after an unexpected error; after several, give it up. An item whose
        work is done, and only its removal fails, is never given up."""
        self.failed_attempts += 1
        if is_done:
            self._held.pause(due, self._clock.now() + RETRY_MS_MAX)
            return
        failures = self._held.count_failure(due)
        if failures < FAILURES_MAX:
            wait_ms = min(RETRY_MS * 2**failures, RETRY_MS_MAX)
            self._held.pause(due, self._clock.now() + wait_ms)
            return
        try:
            await self._kinds[due.kind].give_up(due)
            await self._due.drop(due)
            self._held.forget_failures(due)
        except Exception:
            extra = {"action": "due_failed", "tenant": due.tenant, "kind": due.kind}
            log.exception("what was due cannot be given up", extra=extra)
            self._held.pause(due, self._clock.now() + RETRY_MS_MAX)


def _readings(timer: Timer) -> list[Reading]:
    depths = timer.depths()
    return [
        (declared.due_items, "waiting", depths["held"] - depths["running"]),
        (declared.due_items, "running", depths["running"]),
    ]
