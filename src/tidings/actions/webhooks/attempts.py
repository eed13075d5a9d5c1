# SPDX-License-Identifier: Apache-2.0
"""Reads an event as it is now, and posts it to a webhook endpoint once."""

from collections.abc import Callable
from time import monotonic
from typing import Final, Literal

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.webhooks.configuring import webhook_secret
from tidings.metrics import declared
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, rfc3339, tenant_of, user_id
from tidings.model.refusals import StoreUnavailable
from tidings.model.webhooks import (
    REPLAYED,
    TIMEOUT_MS,
    OwedStream,
    WebhookEndpoint,
    chat_of_stream,
    event_type,
)
from tidings.ports.log import Log
from tidings.ports.outgoing import EventPosts, PostFailed
from tidings.ports.webhooks import TenantEventLog
from tidings.ports.world import Clock
from tidings.wire.records import mention_record

AttemptOutcome = Literal["taken", "refused", "failed", "gone"]
"""What became of an attempt. `refused` is about this event; `failed` and `gone` are about the
endpoint as a whole."""

_GONE: Final = 410
_RETRIED: Final = frozenset({408, 425, 429})
"""Statuses below 500 that are about the endpoint, not about the event."""


class WebhookEvent(msgspec.Struct, frozen=True):
    """An event, as it is now."""

    sequence: int
    type: str | None
    """None if no endpoint gets such events."""
    at: int
    data: object


class EventBody(msgspec.Struct, frozen=True):
    """Body of a request to an endpoint."""

    type: str
    timestamp: str
    data: object


class ChangeEvent(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Data of an event that is an entry, but not a message."""

    chat_id: str
    sequence: int
    sender_id: str
    created_at: str
    target: int | None = None
    """Sequence of the message that was edited or redacted, or to which somebody reacted."""
    message: object = None
    """The edited message, as it is now."""
    emoji: str | None = None
    users: list[str] | None = None
    role: str | None = None
    name: str | None = None
    frozen: bool | None = None
    slow_mode_seconds: int | None = None


class AttemptResult(msgspec.Struct, frozen=True):
    """The result of one request to an endpoint."""

    outcome: AttemptOutcome
    status: int | None
    """Status of the answer; None if there was none."""
    reason: str | None = None
    """Why there was no answer."""


class EventReader:
    """Reads events. Content that was redacted, expired or erased meanwhile is not in them."""

    def __init__(self, log: Log, events: TenantEventLog, vault: Vault, clock: Clock) -> None:
        self._log = log
        self._events = events
        self._vault = vault
        self._clock = clock

    async def after(self, tenant: str, stream: str, sequence: int) -> WebhookEvent | None:
        """Return the first event of a stream after a sequence; None if there is none.

        Raises:
            StoreUnavailable: The store, or a data key, cannot be read now.
        """
        chat = chat_of_stream(stream)
        if chat is not None:
            return await self._entry(tenant, chat, sequence + 1)
        found = await self._events.after(tenant, sequence)
        if found is None:
            return None
        return WebhookEvent(found.sequence, found.type, found.at, found.data)

    async def before(self, since: int, owed: OwedStream, sent: int) -> int:
        """Return the sequence of the last event of a stream before the time `since`. If that is
        lower than `sent`, return `sent`."""
        chat = chat_of_stream(owed.stream)
        if chat is None:
            return max(sent, min(since - 1, owed.head))
        return max(sent, await first_since(self._log, chat, owed.head, since) - 1)

    async def at(self, tenant: str, stream: str, sequence: int) -> WebhookEvent | None:
        """Return the event of a stream at a sequence, as `after` does."""
        found = await self.after(tenant, stream, sequence - 1)
        return found if found is not None and found.sequence == sequence else None

    async def _entry(self, tenant: str, chat: ChatId, sequence: int) -> WebhookEvent | None:
        entry = await self._log.entry(chat, sequence)
        if entry is None or tenant_of(entry.sender) != tenant:
            return None
        kind = event_type(entry.kind)
        data = None if kind is None else await self._data(entry)
        return WebhookEvent(sequence, kind, entry.created_at, data)

    async def _data(self, entry: Entry) -> object:
        if entry.kind == "message":
            return await self._message(entry)
        people, settings = entry.people, entry.settings
        target = None
        if entry.kind == "edited" and entry.target is not None:
            target = await self._log.entry(entry.chat_id, entry.target)
        return ChangeEvent(
            chat_id=entry.chat_id,
            sequence=entry.sequence,
            sender_id=user_id(entry.sender),
            created_at=rfc3339(entry.created_at),
            target=entry.target,
            message=None if target is None else await self._message(target),
            emoji=entry.emoji,
            users=[user_id(person.user) for person in people] or None,
            role=people[0].role if people and entry.kind in ("added", "role") else None,
            name=entry.name,
            frozen=None if settings is None else settings.frozen,
            slow_mode_seconds=None if settings is None else settings.slow_mode_seconds,
        )

    async def _message(self, entry: Entry) -> object:
        await self._vault.open([entry], self._clock.now(), for_good=True)
        return mention_record(entry)


class WebhookAttempts:
    """Posts events to endpoints, signed as the Standard Webhooks specification says."""

    def __init__(self, posts: EventPosts, digest: Callable[..., bytes], clock: Clock) -> None:
        self._posts = posts
        self._digest = digest
        self._clock = clock

    async def __call__(
        self, endpoint: WebhookEndpoint, stream: str, event: WebhookEvent
    ) -> AttemptResult:
        """Post one event. The id of the request is the same at each attempt."""
        assert event.type is not None, "only events with a type are posted"
        if endpoint.is_pulled:
            return AttemptResult("failed", None, "its events are pulled")
        body = msgspec.json.encode(EventBody(event.type, rfc3339(event.at), event.data))
        post_id = f"{endpoint.webhook_id}.{stream.removeprefix(REPLAYED)}.{event.sequence}"
        salts = endpoint.salts(self._clock.now())
        secrets = [webhook_secret(self._digest, endpoint, salt) for salt in salts]
        began = monotonic()
        try:
            status = await self._posts.send(endpoint.url, post_id, body, secrets, TIMEOUT_MS)
            result = AttemptResult(_outcome(status), status)
        except PostFailed as failed:
            result = AttemptResult("failed", None, str(failed))
        declared.webhook_seconds.of[_label(result)].observe(monotonic() - began)
        return result


def _outcome(status: int) -> AttemptOutcome:
    if 200 <= status < 300:
        return "taken"
    if status == _GONE:
        return "gone"
    return "refused" if 400 <= status < 500 and status not in _RETRIED else "failed"


def _label(result: AttemptResult) -> str:
    """Return the outcome of an attempt as the metric names it."""
    if result.status is None:
        return "unanswered"
    return {"taken": "accepted", "gone": "refused"}.get(result.outcome, result.outcome)


async def first_since(log: Log, chat: ChatId, head: int, since: int) -> int:
    """Return the sequence of the first entry of a chat that is not before a time.

    The entries of a log are in the order of their times, so only a few are read. Returns
    `head + 1` if all entries up to the head are before the time.
    """
    low, high = 1, head + 1
    while low < high:
        middle = (low + high) // 2
        entry = await log.entry(chat, middle)
        if entry is None:
            raise StoreUnavailable
        if entry.created_at < since:
            low = middle + 1
        else:
            high = middle
    return low
