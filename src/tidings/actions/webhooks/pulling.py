# SPDX-License-Identifier: Apache-2.0
"""Return the events of an endpoint without an address to a program that asks for them."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.actions.identity.caller import Caller
from tidings.actions.webhooks.attempts import EventReader, WebhookEvent
from tidings.actions.webhooks.configuring import ConfigureWebhooks
from tidings.model.ids import CHAT
from tidings.model.refusals import Invalid
from tidings.model.webhooks import EVENT_LOG, REPLAYED, OwedStream, WebhookEndpoint
from tidings.ports.webhooks import WebhookQueue, Webhooks

PULLED_MAX: Final = 50
"""Maximum number of events in one answer, and of events that one request confirms."""
_STREAMS_MAX: Final = 10
_OF_STREAM_MAX: Final = 10
"""Maximum number of events of one chat that are read for one answer. Those of types that the
endpoint does not get count too."""
_PULLED: Final = re.compile(rf"({REPLAYED}?(?:{CHAT.pattern}|{EVENT_LOG}))\.([1-9][0-9]{{0,15}})")


class PulledEvent(msgspec.Struct, frozen=True):
    """An event, and the id with which the caller confirms it."""

    delivery_id: str
    event: WebhookEvent


class PullEvents(msgspec.Struct, frozen=True):
    """Return events that an endpoint is owed, those of a chat in order.

    An event is returned again and again until the caller confirms it, so nothing is lost if the
    caller dies.
    """

    configure: ConfigureWebhooks
    store: Webhooks
    queue: WebhookQueue
    read: EventReader

    async def __call__(
        self, caller: Caller, tenant: str, webhook_id: str, done: Sequence[str]
    ) -> list[PulledEvent]:
        """Confirm the events `done`, and return the next ones.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            WebhookNotFound: The tenant has no such endpoint.
            Invalid: The endpoint has an address, or an id is malformed.
        """
        endpoint = await self.configure.get(caller, tenant, webhook_id)
        if not endpoint.is_pulled:
            raise Invalid(
                "events of an endpoint with an address are posted to it, and cannot be pulled"
            )
        await self._confirm(endpoint, done)
        await self._show_life(endpoint)
        pulled: list[PulledEvent] = []
        for owed in await self.queue.owed(endpoint.place, "", _STREAMS_MAX):
            pulled += await self._next(endpoint, owed)
        return pulled[:PULLED_MAX]

    async def _confirm(self, endpoint: WebhookEndpoint, done: Sequence[str]) -> None:
        reached: dict[str, int] = {}
        for delivery_id in done:
            named = _PULLED.fullmatch(delivery_id)
            if named is None:
                raise Invalid("done: has an id that is not the id of a delivery", "/done")
            reached[named[1]] = max(reached.get(named[1], 0), int(named[2]))
        for stream, sequence in reached.items():
            await self.queue.advance(endpoint.place, OwedStream(stream, sequence, sequence))

    async def _show_life(self, endpoint: WebhookEndpoint) -> None:
        """Record that somebody pulls, because an endpoint is disabled if nobody does for days."""
        if endpoint.failing_since is not None:
            fields = {"failing_since": None, "revision": endpoint.revision + 1}
            await self.store.change(endpoint, msgspec.structs.replace(endpoint, **fields))

    async def _next(self, endpoint: WebhookEndpoint, owed: OwedStream) -> list[PulledEvent]:
        """Return the next events of a stream; pass over those that the endpoint does not get."""
        found: list[PulledEvent] = []
        passed = at = owed.sent
        for _ in range(_OF_STREAM_MAX):
            at, event = await self._step(endpoint, owed, at)
            if event is not None:
                found.append(PulledEvent(f"{owed.stream}.{at}", event))
            elif not found:
                passed = at
            if at >= owed.head:
                break
        if passed > owed.sent:
            reached = msgspec.structs.replace(owed, sent=passed)
            await self.queue.advance(endpoint.place, reached, owed.sent)
        return found

    async def _step(
        self, endpoint: WebhookEndpoint, owed: OwedStream, at: int
    ) -> tuple[int, WebhookEvent | None]:
        """Return the next position in a stream, and the event there if the endpoint gets it."""
        event = await self.read.after(endpoint.tenant, owed.stream, at)
        if event is None or event.sequence > owed.head:
            return owed.head, None  # a restore has removed the events, or they are too old
        if event.at < endpoint.since and not owed.stream.startswith(REPLAYED):
            return await self.read.before(endpoint.since, owed, event.sequence), None
        return event.sequence, event if event.type in endpoint.events else None
