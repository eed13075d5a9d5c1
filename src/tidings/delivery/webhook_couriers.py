# SPDX-License-Identifier: Apache-2.0
"""Delivers events to webhook endpoints, with a courier for each endpoint.

The store lists, for each endpoint, the chats with events that the endpoint is owed. A courier reads
some of them, posts their events, and stores how far it came. The next event of a chat is posted
only after the endpoint has taken the one before. An endpoint that fails is left alone for a growing
time, and is then tried with one event. Its chats wait meanwhile, and no other endpoint notices.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Final

from tidings.actions.webhooks.attempts import (
    AttemptResult,
    EventReader,
    WebhookAttempts,
    WebhookEvent,
)
from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.actions.webhooks.health import EndpointHealth
from tidings.actions.webhooks.resuming import ResumeEndpoints
from tidings.delivery.courier import Courier, Name
from tidings.diagnosis import report_queue
from tidings.metrics.counts import report_counts
from tidings.model import webhooks as model
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import Unavailable
from tidings.model.webhooks import REPLAYED, EventRefusal, OwedStream, SetAside, WebhookEndpoint
from tidings.ports.webhooks import WebhookQueue
from tidings.ports.world import Clock
from tidings.tasks import Tasks

log = logging.getLogger("tidings.webhooks")

STREAMS_AT_ONCE: Final = 64
"""Streams that a courier reads from the store at a time."""
EVENTS_IN_TURN: Final = 100
"""Events of a stream that a courier delivers before the other streams have their turn."""
STORED_SECONDS: Final = 1.0
"""How often a courier stores how far it came in a long stream."""
REQUESTS_MAX: Final = 512
"""Requests to all endpoints at the same time."""
RETRY_MS: Final = 1 * SECOND_MS


class WebhookCouriers:
    """Runs a courier for each endpoint that is owed something."""

    def __init__(
        self,
        *,
        directory: WebhookDirectory,
        queue: WebhookQueue,
        read: EventReader,
        attempt: WebhookAttempts,
        health: EndpointHealth,
        resume: ResumeEndpoints,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._queue = queue
        self._read = read
        self._attempt = attempt
        self._health = health
        self._resume = resume
        self._clock = clock
        self._may_run: Callable[[Name], bool] = lambda _: True
        self._couriers: dict[Name, Courier] = {}
        self._free = asyncio.Semaphore(REQUESTS_MAX)
        self._of_tenant: dict[str, asyncio.Semaphore] = {}
        self._is_closed = False
        self._tasks = Tasks("webhooks")
        self.delivered = 0
        self.set_aside = 0
        self.failed_attempts = 0
        report_queue("webhooks", self)
        report_counts(self, "webhooks")

    def run_only(self, may_run: Callable[[Name], bool]) -> None:
        """End each courier for which `may_run` returns False, because another process has it."""
        self._may_run = may_run

    def depths(self) -> Mapping[str, int]:
        """Return the number of endpoints that are owed something, and of those that fail."""
        failing = sum(courier.failures > 0 for courier in self._couriers.values())
        return {"endpoints": len(self._couriers), "failing": failing}

    async def start(self) -> None:
        """Begin with the endpoints that were owed something when the process started.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        for name in await self._queue.unfinished():
            self.wake(name)

    async def close(self) -> None:
        """Stop. Events that are owed are delivered after the next start, here or elsewhere."""
        self._is_closed = True
        await self._tasks.close()

    def wake(self, name: Name) -> None:
        """Deliver the events that an endpoint is owed, because there may be more of them than
        before."""
        if self._is_closed:
            return
        courier = self._couriers.get(name)
        if courier is None:
            courier = self._couriers[name] = Courier(name)
            self._tasks.start(self._run(courier))
        courier.asked.set()

    def is_busy(self, name: Name) -> bool:
        """Return True if an endpoint has a courier."""
        return name in self._couriers

    async def _run(self, courier: Courier) -> None:
        try:
            while (wait_ms := await self._turn_or_wait(courier)) is not None:
                if wait_ms:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(wait_ms / SECOND_MS):
                            await courier.asked.wait()
        finally:
            self._couriers.pop(courier.name, None)
            if not self._is_of_anybody(courier.name[0]):
                self._of_tenant.pop(courier.name[0], None)

    def _is_of_anybody(self, tenant: str) -> bool:
        return any(name[0] == tenant for name in self._couriers)

    async def _turn_or_wait(self, courier: Courier) -> int | None:
        courier.asked.clear()
        try:
            wait_ms = await self.turn(courier)
        except Unavailable:
            return RETRY_MS
        except Exception:
            extra = {
                "action": "webhook_failed",
                "tenant": courier.name[0],
                "webhook": courier.name[1],
            }
            log.exception("deliveries to an endpoint failed", extra=extra)
            return RETRY_MS
        return 0 if wait_ms is None and courier.asked.is_set() else wait_ms

    async def turn(self, courier: Courier) -> int | None:
        """Deliver some of the events that an endpoint is owed.

        Returns the milliseconds until the next turn; None if the endpoint is owed nothing more.

        Raises:
            Unavailable: The store does not answer.
        """
        endpoint = await self._endpoint(courier)
        if endpoint is None:
            return courier.resumed_in
        courier.learn(endpoint)
        now = self._clock.now()
        if now < courier.retry_at:
            return courier.retry_at - now
        if endpoint.is_pulled:
            return await self._leave(courier, endpoint, now)
        ready, is_owed = await self._ready(courier, endpoint, now)
        waiting = deque(ready)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(model.SOCKETS_MAX, len(waiting))):
                group.create_task(self._deliver_all(courier, endpoint, waiting))
        if not is_owed:
            return None
        return self._wait_ms(courier, has_more=bool(ready))

    async def _endpoint(self, courier: Courier) -> WebhookEndpoint | None:
        """Return an endpoint if this process may deliver events to it now.

        The cache may be some seconds old. Perhaps nobody wakes this courier again, so the store is
        asked, too, before the courier ends.
        """
        endpoint: WebhookEndpoint | None = None
        name, courier.resumed_in = courier.name, None
        for find in (self._directory.find, self._directory.find_stored):
            if not self._may_run(name):
                return None
            endpoint = await find(*name)
            if endpoint is not None and endpoint.enabled and not endpoint.is_resuming:
                return endpoint
        if endpoint is not None and endpoint.enabled:
            courier.resumed_in = await self._resume.make_sure(endpoint)
        return None

    async def _leave(self, courier: Courier, endpoint: WebhookEndpoint, now: int) -> int | None:
        """Leave events to a program that pulls them. If none does for days, the endpoint is
        disabled."""
        if not await self._queue.owed(endpoint.place, "", 1):
            return None
        courier.retry_at = now + model.BACK_OFF_MS_MAX
        await self._health.left(endpoint, now)
        return model.BACK_OFF_MS_MAX

    async def _ready(
        self, courier: Courier, endpoint: WebhookEndpoint, now: int
    ) -> tuple[list[OwedStream], bool]:
        """Return streams whose next event may be posted, and whether the endpoint is owed any."""
        is_owed, begins = False, deque(dict.fromkeys((courier.after, "")))
        courier.refused_until = 0
        while begins:
            page = await self._queue.owed(endpoint.place, begins.popleft(), STREAMS_AT_ONCE)
            is_owed = is_owed or bool(page)
            ready = [one for one in page if courier.is_ready(one, now)]
            if courier.failures:
                del ready[1:]  # one event shows whether the endpoint is back
            if ready:
                has_all = len(page) < STREAMS_AT_ONCE and not courier.failures
                courier.after = "" if has_all else ready[-1].stream
                return ready, is_owed
            if len(page) == STREAMS_AT_ONCE:
                begins.appendleft(page[-1].stream)
        return [], is_owed

    def _wait_ms(self, courier: Courier, *, has_more: bool) -> int:
        now = self._clock.now()
        if courier.retry_at > now:
            return courier.retry_at - now
        if has_more:
            return 0
        return max(courier.refused_until - now, 0) or RETRY_MS

    async def _deliver_all(
        self, courier: Courier, endpoint: WebhookEndpoint, waiting: deque[OwedStream]
    ) -> None:
        while waiting and self._clock.now() >= courier.retry_at:
            owed = waiting.popleft()
            most = 1 if courier.failures else EVENTS_IN_TURN
            try:
                sent = await self._deliver(courier, endpoint, owed, most)
                if sent > owed.sent:
                    await self._advance(endpoint, owed, sent)
            except Unavailable:  # the others finish what they have begun
                courier.retry_at = max(courier.retry_at, self._clock.now() + RETRY_MS)

    async def _deliver(
        self, courier: Courier, endpoint: WebhookEndpoint, owed: OwedStream, most: int
    ) -> int:
        """Deliver events of a stream; return the sequence up to which this is done."""
        sent, stored_at = owed.sent, monotonic()
        for _ in range(most):
            if sent >= owed.head or self._clock.now() < courier.retry_at:
                break
            try:
                event = await self._read.after(endpoint.tenant, owed.stream, sent)
            except Unavailable:
                if sent == owed.sent:
                    raise
                break  # what the endpoint has taken is stored first, so that it comes once
            if event is None or event.sequence > owed.head:
                return owed.head  # a restore has removed the events, or they are too old
            if event.at < endpoint.since and not owed.stream.startswith(REPLAYED):
                sent = await self._read.before(endpoint.since, owed, event.sequence)
                continue
            if event.type in endpoint.events:
                result = await self._post(endpoint, owed.stream, event)
                if not await self._is_done(courier, endpoint, owed, event, result):
                    break
            sent = event.sequence
            if monotonic() - stored_at >= STORED_SECONDS:
                await self._advance(endpoint, owed, sent)
                stored_at = monotonic()
        return sent

    async def _post(
        self, endpoint: WebhookEndpoint, stream: str, event: WebhookEvent
    ) -> AttemptResult:
        own = self._of_tenant.setdefault(
            endpoint.tenant, asyncio.Semaphore(model.TENANT_SOCKETS_MAX)
        )
        # A tenant waits for its own requests first, so that it takes few of the common places.
        async with own, self._free:
            return await self._attempt(endpoint, stream, event)

    async def _is_done(
        self,
        courier: Courier,
        endpoint: WebhookEndpoint,
        owed: OwedStream,
        event: WebhookEvent,
        result: AttemptResult,
    ) -> bool:
        """Note the result of an attempt; return True if the stream goes on after this event."""
        now = self._clock.now()
        if result.outcome == "taken":
            self.delivered += 1
            courier.take(now)
            await self._health.took(endpoint)
            return True
        self.failed_attempts += 1
        if result.outcome == "refused":
            return await self._is_set_aside(courier, endpoint, owed, event, result)
        if courier.back_off(now, owed.stream, event.sequence) or result.outcome == "gone":
            await self._health.failed(endpoint, result, now)
        return False

    async def _is_set_aside(
        self,
        courier: Courier,
        endpoint: WebhookEndpoint,
        owed: OwedStream,
        event: WebhookEvent,
        result: AttemptResult,
    ) -> bool:
        now = self._clock.now()
        courier.failures = courier.retry_at = 0  # the endpoint answers
        before = owed.refused(endpoint.updated_at)
        is_same = before is not None and before.sequence == event.sequence
        attempts = (before.attempts if before is not None and is_same else 0) + 1
        if attempts < model.ATTEMPTS_MAX:
            refusal = EventRefusal(event.sequence, attempts, now)
            await self._queue.refuse(endpoint.place, owed.stream, refusal)
            return False
        aside = SetAside(
            stream=owed.stream.removeprefix(REPLAYED),
            sequence=event.sequence,
            type=event.type or "",
            status=result.status or 0,
            attempts=attempts,
            at=now,
        )
        await self._queue.set_aside(endpoint.place, aside)
        self.set_aside += 1
        named = {"tenant": endpoint.tenant, "webhook": endpoint.webhook_id}
        extra = {"action": "webhook_set_aside", **named, "event": aside.delivery_id}
        log.warning("an endpoint refuses an event", extra=extra)
        await self._health.refused(endpoint, result, now)
        return True

    async def _advance(self, endpoint: WebhookEndpoint, owed: OwedStream, sent: int) -> None:
        reached = OwedStream(owed.stream, sent, owed.head)
        await self._queue.advance(endpoint.place, reached, owed.sent)
