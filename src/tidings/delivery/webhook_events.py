# SPDX-License-Identifier: Apache-2.0
"""Raises the events of tenants that other parts of the process publish on the bus.

These are read marks, expired messages, and notifications for everyone. They are gathered for some
seconds, so that many of them cost little. Events that are not stored yet are lost if the process
dies. Tenants take turns, so that the many events of one tenant do not hold up those of others.

On DynamoDB, each relay reads which contents the store has deleted, and reads the same again after a
restart. Therefore what expired in one minute is gathered until the minute is over, and its event is
named after what it tells. Whoever gathers the same raises no second event.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final

from tidings.actions.webhooks.events import TenantEvents
from tidings.metrics.counts import report_counts
from tidings.model.ids import ChatId, UserKey, rfc3339, tenant_of, user_id
from tidings.model.refusals import Unavailable
from tidings.model.webhooks import TenantEventType
from tidings.ports.bus import Bus, Expired, InboxRead, ReceiptMoved, StatesChanged
from tidings.ports.log import Log
from tidings.ports.world import Clock
from tidings.tasks import Tasks

GATHER_SECONDS: Final = 5.0
SEQUENCES_MAX: Final = 500
"""Maximum number of expired messages in one event."""
GATHERED_MAX: Final = 10_000
"""Events that wait; beyond this number, new ones are dropped."""
TENANT_GATHERED_MAX: Final = 2_000
"""Events of one tenant that wait; beyond this number, new ones are dropped."""
SETTLED_MS: Final = 90_000
"""Time from the beginning of a minute until everything that expired in it was read."""
EXPIRED_MS_MAX: Final = 60 * 60 * 1_000
"""Age at which expired messages are no longer reported. A relay that starts reads those of a whole
day again."""
_Event = tuple[TenantEventType, Mapping[str, object]]
_Minute = tuple[ChatId, int | None]
"""A chat, and when the minute began in which the store deleted contents; None if this process
deleted them."""

log = logging.getLogger("tidings.webhooks")


class BusEvents:
    """Background task that turns events of the bus into events of tenants."""

    def __init__(
        self,
        events: TenantEvents,
        log: Log,
        clock: Clock,
        back_off: Callable[[int], Awaitable[None]],
    ) -> None:
        """Set up the task; `back_off(n)` waits before the n-th retry."""
        self._events = events
        self._log = log
        self._clock = clock
        self._back_off = back_off
        self._gathered: dict[str, dict[tuple[str, ...], _Event]] = {}
        """The events of each tenant, by what they are about."""
        self._waiting = 0
        self._expired: dict[_Minute, set[int]] = {}
        self._asked = asyncio.Event()
        self._tasks = Tasks("webhook_events")
        self.dropped = 0
        """Number of events that were not raised."""
        self._logged = 0
        report_counts(self, "webhook events")

    def listen(self, bus: Bus) -> None:
        """Gather what is published on the bus from now on."""
        bus.subscribe(self.on_receipt, ReceiptMoved)
        bus.subscribe(self.on_inbox_read, InboxRead)
        bus.subscribe(self.on_states_changed, StatesChanged)
        bus.subscribe(self.on_expired, Expired)

    def start(self) -> None:
        """Start the background task."""
        self._tasks.repeat(self._run)

    async def close(self) -> None:
        """Store the gathered events, if the store answers soon, and stop."""
        await self._tasks.close()
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                await self.raise_all()

    def on_receipt(self, event: ReceiptMoved) -> None:
        """Note how far a member of a small chat has read."""
        receipt = event.receipt
        if event.by_reading:
            data = {
                "chat_id": event.chat,
                "user_id": user_id(receipt.user),
                "read": receipt.read,
                "read_at": rfc3339(self._clock.now()),
            }
            self._note(receipt.user, "receipt.read", data, event.chat)

    def on_inbox_read(self, event: InboxRead) -> None:
        """Note that a user has read notifications of an inbox."""
        if event.by_reading:
            self._note_read(event.user, event.inbox)

    def on_states_changed(self, event: StatesChanged) -> None:
        """Note that a user has read notifications of an inbox, or has chosen an action."""
        if event.change.read:
            self._note_read(event.user, event.inbox)

    def _note_read(self, user: UserKey, inbox: str) -> None:
        read_at = rfc3339(self._clock.now())
        data = {"inbox": inbox, "user_id": user_id(user), "read_at": read_at}
        self._note(user, "notification.read", data, inbox)

    def on_expired(self, event: Expired) -> None:
        """Note messages whose content was removed because their lifetime is over."""
        key = (event.chat, event.minute)
        if event.minute is not None and self._clock.now() - event.minute >= EXPIRED_MS_MAX:
            return
        if key not in self._expired and len(self._expired) >= GATHERED_MAX:
            self.dropped += 1
            return
        self._expired.setdefault(key, set()).update(event.sequences)
        self._asked.set()

    def _note(
        self, user: UserKey, kind: TenantEventType, data: Mapping[str, object], subject: str
    ) -> None:
        tenant, name = tenant_of(user), (kind, user, subject)
        if not self._events.is_wanted(tenant, kind):
            return
        gathered = self._gathered.setdefault(tenant, {})
        if name not in gathered:
            if self._waiting >= GATHERED_MAX or len(gathered) >= TENANT_GATHERED_MAX:
                self.dropped += 1
                return
            self._waiting += 1
        gathered[name] = (kind, data)
        self._asked.set()

    async def _run(self) -> None:
        if not self._gathered and not self._expired:
            self._asked.clear()
            await self._asked.wait()
        await asyncio.sleep(GATHER_SECONDS)
        attempt = 0
        while self._gathered or self._settled():
            try:
                await self.raise_all()
            except Unavailable:
                attempt += 1
                await self._back_off(attempt)
        if self.dropped > self._logged:
            extra = {"action": "events_dropped", "dropped": self.dropped - self._logged}
            log.warning("events of webhooks were dropped", extra=extra)
            self._logged = self.dropped

    async def raise_all(self) -> None:
        """Raise everything that was gathered, except for minutes that are not over.

        Raises:
            Unavailable: The store does not answer. Events that were not raised are still gathered.
        """
        while self._gathered:
            for tenant in list(self._gathered):
                await self._raise_next(tenant, self._gathered[tenant])
        for key in self._settled():
            await self._raise_expired(key)

    def _settled(self) -> list[_Minute]:
        """Return the chats and minutes of which nothing more is expected."""
        until = self._clock.now() - SETTLED_MS
        return [key for key in self._expired if key[1] is None or key[1] <= until]

    async def _raise_expired(self, key: _Minute) -> None:
        """Raise the events about contents that were deleted in one minute."""
        (chat, minute), sequences = key, self._expired[key]
        while sequences:
            told = sorted(sequences)[:SEQUENCES_MAX]
            entry = await self._log.entry(chat, 1)
            if entry is not None:
                data = {"chat_id": chat, "sequences": told}
                once = None if minute is None else f"expired {chat} {minute} {_digest(told)}"
                await self._raise(tenant_of(entry.sender), "message.expired", data, once)
            sequences.difference_update(told)
        del self._expired[key]

    async def _raise_next(self, tenant: str, gathered: dict[tuple[str, ...], _Event]) -> None:
        """Raise the first event of a tenant that waits."""
        if gathered:
            name, event = next(iter(gathered.items()))
            await self._raise(tenant, *event)
            if gathered[name] is event:  # otherwise there is news of the same
                del gathered[name]
                self._waiting -= 1
        if not gathered:
            del self._gathered[tenant]

    async def _raise(
        self,
        tenant: str,
        kind: TenantEventType,
        data: Mapping[str, object],
        once: str | None = None,
    ) -> None:
        try:
            await self._events(tenant, kind, data, once)
        except Unavailable:
            raise
        except Exception:
            # An event that cannot be raised must not hold up all others.
            self.dropped += 1
            log.exception("event not raised", extra={"action": "event_failed", "tenant": tenant})


def _digest(sequences: list[int]) -> str:
    return sha256(repr(sequences).encode()).hexdigest()
