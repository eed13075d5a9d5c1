# SPDX-License-Identifier: Apache-2.0
"""The delivery worker: takes published events and delivers the entries of each chat in order.

Chats are delivered concurrently, but the events of one chat in order. While a run is dispatched,
the events of the next run are collected. The head copy of a chat is written at intervals, for all
runs that were dispatched since the last write. An event is finished when all its work is done.

An event becomes a dead letter if it fails several times although the store answers for other chats.
While the store does not answer at all, no event becomes a dead letter.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec

from tidings.delivery.deliverer import Deliverer, DispatchedRun, UnreadRecount
from tidings.metrics.counts import report_counts
from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Feed, FeedEvent, FeedUnavailable
from tidings.ports.world import Clock
from tidings.tasks import Backlog, Tasks
from tidings.tracing import spans
from tidings.tracing.spans import (
    CHAT_NAME,
    CONNECTIONS,
    MESSAGE_COUNT,
    OPERATION_NAME,
    OPERATION_TYPE,
    PARTITION,
    SYSTEM,
    Attributes,
    Span,
    Tracer,
)
from tidings.wire.events import CleanedEvent, EntryEvent, NotAnEvent, WireEvent, decode_event

log = logging.getLogger("tidings.delivery")

EVENTS_MAX: Final = 2_000
"""Limit on unfinished events. At the limit no more events are taken."""
EVENTS_AT_ONCE: Final = 500
RUN_EVENTS_MAX: Final = 256
CHATS_AT_ONCE: Final = 64
ATTEMPTS_MAX: Final = 5


class _WaitingEvent(msgspec.Struct, frozen=True):
    received: FeedEvent
    event: WireEvent


class _ChatEvents(msgspec.Struct, eq=False):
    """Events of one chat that wait or are being delivered."""

    waiting: deque[_WaitingEvent] = msgspec.field(default_factory=deque)
    is_dispatching: bool = False
    unsettled: list[tuple[list[_WaitingEvent], list[DispatchedRun]]] = msgspec.field(
        default_factory=list
    )
    is_settling: bool = False


class Worker:
    """Background task that takes events and delivers them."""

    def __init__(
        self,
        feed: Feed,
        deliverer: Deliverer,
        unread_recount: UnreadRecount,
        back_off: Callable[[int], Awaitable[None]],
        backlog: Backlog,
        clock: Clock,
    ) -> None:
        """Set up the worker; `back_off(n)` waits before the n-th retry, with jitter, at most a few
        seconds.

        `backlog` gets the events that are not finished, with the age of their entries.
        """
        self._feed = feed
        self._deliverer = deliverer
        self._unread_recount = unread_recount
        self._back_off = back_off
        self._backlog = backlog
        self._clock = clock
        self._by_chat: dict[ChatId, _ChatEvents] = {}
        self._unfinished = 0
        self._has_room = asyncio.Event()
        self._free = asyncio.Semaphore(CHATS_AT_ONCE)
        self._tasks = Tasks("worker")
        self.taken = 0
        self.dead_letter = 0
        self.settled_runs = 0
        self.failed_attempts = 0
        report_counts(self, "worker")

    def start(self) -> None:
        """Start the background task. Services that are not reachable yet are tried again."""
        self._tasks.start(self._run())

    async def close(self) -> None:
        """Stop. Unfinished events are received again, by another worker or after a restart."""
        await self._tasks.close()
        await self._feed.close()

    async def _run(self) -> None:
        attempt = 0
        while True:
            try:
                received = await self._feed.take(EVENTS_AT_ONCE)
            except Exception as error:
                if not isinstance(error, FeedUnavailable):
                    log.exception("taking events failed", extra={"action": "taking_failed"})
                if not attempt:
                    self._backlog.begin(self._feed)  # Kafka may have events that are not seen yet
                attempt += 1
                await self._back_off(attempt)
                continue
            attempt = 0
            self._backlog.end(self._feed)
            for event in received:
                self._sort(event)
            while self._unfinished >= EVENTS_MAX:
                self._has_room.clear()
                await self._has_room.wait()

    def _sort(self, received: FeedEvent) -> None:
        """Put an event into the queue of its chat."""
        self.taken += 1
        self._unfinished += 1
        try:
            event = decode_event(received.value)
        except NotAnEvent as reason:
            self._tasks.start(self._keep_dead_letter(received, str(reason)))
            return
        made_at = event.entry.created_at if isinstance(event, EntryEvent) else None
        age_ms = 0 if made_at is None else self._clock.now() - made_at
        self._backlog.begin((received.partition, received.offset), age_ms / 1_000)
        chat_events = self._by_chat.setdefault(event.chat, _ChatEvents())
        chat_events.waiting.append(_WaitingEvent(received, event))
        if not chat_events.is_dispatching:
            chat_events.is_dispatching = True
            self._tasks.start(self._dispatch(event.chat, chat_events))

    # Step 1, then steps 2 to 4 (see `deliverer.py`).

    async def _dispatch(self, chat: ChatId, chat_events: _ChatEvents) -> None:
        """Dispatch the waiting events of a chat until none is left."""
        while chat_events.waiting:
            async with self._free:
                most = min(len(chat_events.waiting), RUN_EVENTS_MAX)
                run = [chat_events.waiting.popleft() for _ in range(most)]
                await self._dispatch_or_divide(chat, chat_events, run)
        chat_events.is_dispatching = False
        self._let_go(chat, chat_events)

    async def _dispatch_or_divide(
        self, chat: ChatId, chat_events: _ChatEvents, run: list[_WaitingEvent]
    ) -> None:
        """Dispatch a run; if it fails, dispatch its events one by one to find the bad event."""
        dispatched: list[DispatchedRun] = []
        events = [waiting.event for waiting in run]
        span = None if spans.tracer is None else _begin_span(spans.tracer, chat, run)
        reason = await self._attempted(partial(self._first_step, chat, events, dispatched))
        if span is not None:
            reached = sum(len(batch.sent_to) for done in dispatched for batch in done.batches)
            span.end({CONNECTIONS: reached}, error=None if reason is None else "not_delivered")
        if reason is None:
            chat_events.unsettled.append((run, dispatched))
            if not chat_events.is_settling:
                chat_events.is_settling = True
                self._tasks.start(self._settle(chat, chat_events))
        elif len(run) == 1:
            await self._keep_dead_letter(run[0].received, reason)
        else:
            for waiting in run:
                await self._dispatch_or_divide(chat, chat_events, [waiting])

    async def _first_step(
        self, chat: ChatId, events: list[WireEvent], dispatched: list[DispatchedRun]
    ) -> None:
        appended = [event for event in events if not isinstance(event, CleanedEvent)]
        if appended:
            dispatched += await self._deliverer.dispatch(chat, appended)
        if len(appended) < len(events):
            await self._unread_recount.send(chat)

    async def _settle(self, chat: ChatId, chat_events: _ChatEvents) -> None:
        """Perform steps 2 to 4 of `deliverer.py` for dispatched runs, until no such run is left.

        An event whose entries were dispatched before also waits here, because steps 2 to 4 may
        still be missing for these entries.
        """
        while chat_events.unsettled:
            runs, chat_events.unsettled = chat_events.unsettled, []
            dispatched = [run for _, some in runs for run in some]
            reason = await self._attempted(partial(self._other_steps, dispatched))
            if reason is not None:
                self._deliverer.states.forget(chat)
            for waiting, _ in runs:
                for event in waiting:
                    if reason is None:
                        self._finish(event.received)
                    else:
                        await self._keep_dead_letter(event.received, reason)
        chat_events.is_settling = False
        self._let_go(chat, chat_events)

    async def _other_steps(self, dispatched: list[DispatchedRun]) -> None:
        if dispatched:
            await self._deliverer.write_head(dispatched)
            async with self._free:
                await self._deliverer.dispatch_again(dispatched)

    def _let_go(self, chat: ChatId, chat_events: _ChatEvents) -> None:
        if (
            not chat_events.is_dispatching
            and not chat_events.is_settling
            and self._by_chat.get(chat) is chat_events
        ):
            del self._by_chat[chat]

    # Failures.

    async def _attempted(self, work: Callable[[], Awaitable[None]]) -> str | None:
        """Repeat the work until it succeeds and return None, or give up and return the reason.

        It gives up only after several failures that the work itself caused. While the store does
        not answer at all, it tries again without a limit.
        """
        blamed = attempt = 0
        others = self.settled_runs
        while True:
            try:
                await work()
            except StoreUnavailable:
                reason = "the store does not answer for this chat"
                is_to_blame = self.settled_runs > others
            except Exception as error:
                if not attempt:
                    log.exception("delivery failed", extra={"action": "delivery_failed"})
                reason = f"{type(error).__name__}: {error}"
                is_to_blame = True
            else:
                self.settled_runs += 1
                return None
            others = self.settled_runs
            self.failed_attempts += 1
            attempt += 1
            blamed += is_to_blame
            if blamed >= ATTEMPTS_MAX:
                return reason
            await self._back_off(attempt)

    async def _keep_dead_letter(self, received: FeedEvent, reason: str) -> None:
        where = {"partition": received.partition, "offset": received.offset}
        log.error(
            "event is a dead letter",
            extra={"action": "event_dead_letter", "reason": reason, **where},
        )
        attempt = 0
        while True:
            try:
                await self._feed.dead_letter(received, reason)
                break
            except FeedUnavailable:
                attempt += 1
                await self._back_off(attempt)
        self.dead_letter += 1
        self._finish(received)

    def _finish(self, received: FeedEvent) -> None:
        self._feed.finish(received)
        self._backlog.end((received.partition, received.offset))
        self._unfinished -= 1
        self._has_room.set()


def _begin_span(tracer: Tracer, chat: ChatId, run: list[_WaitingEvent]) -> Span | None:
    """Begin the span of a run whose events were published in traces.

    It links to the spans that published the events, and belongs to none of them, because a run may
    have events of several traces.
    """
    traces = [trace for waiting in run if (trace := waiting.received.trace) is not None]
    if not traces:
        return None
    attributes: Attributes = {
        SYSTEM: "kafka",
        OPERATION_NAME: "deliver",
        OPERATION_TYPE: "process",
        MESSAGE_COUNT: len(run),
        PARTITION: str(run[0].received.partition),
        CHAT_NAME: chat,
    }
    return tracer.link("deliver", traces, kind="consumer", attributes=attributes)
