# SPDX-License-Identifier: Apache-2.0
"""Webhook endpoints: addresses of a tenant to which the server posts what happens."""

import re
from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from tidings.model.before_send import is_web_address
from tidings.model.entries import Kind
from tidings.model.ids import ChatId
from tidings.model.limits import DAY_MS, SECOND_MS
from tidings.model.refusals import Invalid

WEBHOOK: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Id of an endpoint. It has no dot, because the id of a request is divided by dots."""
ENDPOINTS_MAX: Final = 10
"""Webhook endpoints of a tenant."""
PREVIOUS_SECRET_MS: Final = DAY_MS
"""How long the previous secret signs as well, after a new one was made."""
TAKES_NOTHING_MS: Final = 5 * DAY_MS
"""An endpoint that has taken nothing for this long is disabled."""
KEPT_MS: Final = 30 * DAY_MS
"""How long events of a tenant, and events that became dead letters, are kept."""
ATTEMPTS_MAX: Final = 10
"""Attempts to deliver an event that the endpoint refuses; then the event becomes a dead letter."""
REFUSED_WAITS_MS: Final = tuple(
    seconds * SECOND_MS for seconds in (5, 10, 30, 60, 180, 300, 600, 900, 1_500)
)
"""Waiting times between these attempts, which together are an hour."""
FIRST_BACK_OFF_MS: Final = SECOND_MS // 2
"""How long an endpoint is left alone after its first failure, if it has just taken an event."""
BACK_OFF_MS: Final = 5 * SECOND_MS
BACK_OFF_MS_MAX: Final = 600 * SECOND_MS
"""Longest time between two requests to an endpoint that fails."""
TIMEOUT_MS: Final = 15 * SECOND_MS
SOCKETS_MAX: Final = 4
"""Requests to one endpoint at the same time."""
TENANT_SOCKETS_MAX: Final = 8
"""Requests to all endpoints of one tenant at the same time."""

ChatEventType = Literal[
    "chat.created",
    "message.created",
    "message.edited",
    "message.redacted",
    "reaction.added",
    "reaction.removed",
    "member.added",
    "member.removed",
    "member.role_changed",
    "chat.renamed",
    "chat.settings",
    "chat.deleted",
]
"""Events that are entries of a chat's log."""
TenantEventType = Literal[
    "user.deleted",
    "report.created",
    "session.revoked",
    "notification.delivered",
    "notification.read",
    "notification.acted",
    "notification.escalated",
    "receipt.read",
    "message.expired",
]
"""Events in the tenant's own event log."""
WebhookEventType = ChatEventType | TenantEventType
EVENT_TYPES: Final[tuple[str, ...]] = (*get_args(ChatEventType), *get_args(TenantEventType))

_OF_KIND: Final[Mapping[Kind, ChatEventType]] = {
    "created": "chat.created",
    "message": "message.created",
    "edited": "message.edited",
    "redacted": "message.redacted",
    "reacted": "reaction.added",
    "unreacted": "reaction.removed",
    "added": "member.added",
    "removed": "member.removed",
    "role": "member.role_changed",
    "renamed": "chat.renamed",
    "settings": "chat.settings",
    "deleted": "chat.deleted",
}

EVENT_LOG: Final = "events"
"""Stream of a tenant's own events. No chat has this id."""
REPLAYED: Final = "~"
"""First character of a stream whose events are delivered once more."""

DisabledBy = Literal["tenant", "gone", "failing"]
"""Who disabled an endpoint: the tenant, the endpoint itself by its answer 410, or the server
because the endpoint took nothing for days."""


class WebhookEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An address of a tenant to which events are posted."""

    tenant: str
    webhook_id: str
    url: str
    """Address to which events are posted; empty if they are pulled."""
    events: tuple[str, ...]
    """Types of the events that the endpoint gets."""
    enabled: bool
    since: int
    """Events before this time are not delivered."""
    salt: str
    """The text from which the secret is derived, with a secret of the deployment."""
    previous_salt: str | None = None
    previous_until: int = 0
    """Until when requests are signed with the previous secret, too."""
    disabled_at: int | None = None
    disabled_by: DisabledBy | None = None
    failing_since: int | None = None
    """When the endpoint began to take nothing; None if it took the last event."""
    is_resuming: bool = False
    """Whether a job still finds out what the endpoint has missed while it was disabled. Nothing is
    delivered meanwhile, so that the events of a chat stay in order."""
    resumes_from: int | None = None
    """When the endpoint was last disabled, while it is resuming or after it has resumed; None if it
    was never disabled."""
    created_at: int
    updated_at: int
    revision: int = 1
    """Number of the version of this record."""

    @property
    def place(self) -> str:
        """Name under which the endpoint's events wait. An endpoint that is deleted and created
        again has another one."""
        return f"{self.tenant}/{self.webhook_id}/{self.created_at}"

    @property
    def is_pulled(self) -> bool:
        """Return True if the endpoint has no address, so its events wait until they are pulled."""
        return not self.url

    @property
    def follows_chats(self) -> bool:
        """Return True if the endpoint gets events of the chats' logs."""
        return not set(self.events).isdisjoint(get_args(ChatEventType))

    @property
    def takes_entries(self) -> bool:
        """Whether new entries of chats are owed to the endpoint now."""
        return self.enabled and self.follows_chats

    def salts(self, now: int) -> list[str]:
        """Return the salts of the secrets that sign a request at this time, the newest first."""
        is_two = self.previous_salt is not None and now < self.previous_until
        return [self.salt, self.previous_salt] if is_two and self.previous_salt else [self.salt]


class EventRefusal(msgspec.Struct, frozen=True):
    """How often an endpoint has refused an event."""

    sequence: int
    attempts: int
    at: int
    """When it was refused last."""

    @property
    def retry_at(self) -> int:
        """Return when the event may be posted again."""
        return self.at + REFUSED_WAITS_MS[min(self.attempts, len(REFUSED_WAITS_MS)) - 1]


class OwedStream(msgspec.Struct, frozen=True):
    """A chat, or the event log, with events that an endpoint has not taken yet."""

    stream: str
    sent: int
    """Sequence up to which the events were delivered, or became dead letters."""
    head: int
    """Sequence up to which there are events."""
    refusal: EventRefusal | None = None
    """The event that was refused last."""

    def refused(self, since: int) -> EventRefusal | None:
        """Return the refusal of the next event, if it came after a time, for example after the
        tenant changed the endpoint; otherwise None."""
        found = self.refusal
        if found is None or found.sequence <= self.sent or found.at < since:
            return None
        return found


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """An event that an endpoint refused too often."""

    stream: str
    sequence: int
    type: str
    status: int
    attempts: int
    at: int

    @property
    def delivery_id(self) -> str:
        """Return the id of the delivery, which locates its event."""
        return f"{self.stream}.{self.sequence}"


class TenantEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event in the tenant's own event log. Its data have ids and numbers, never content."""

    tenant: str
    sequence: int
    type: str
    at: int
    data: dict[str, object]


def event_type(kind: Kind) -> ChatEventType | None:
    """Return the type of the event that an entry of this kind is; None if it is none."""
    return _OF_KIND.get(kind)


def chat_of_stream(stream: str) -> ChatId | None:
    """Return the chat of a stream; None if the stream is the tenant's event log."""
    name = stream.removeprefix(REPLAYED)
    return None if name == EVENT_LOG else ChatId(name)


def check_endpoint(url: str, events: tuple[str, ...]) -> None:
    """Refuse a malformed address, and unknown or repeated types of events.

    An empty address is that of an endpoint whose events are pulled.

    Raises:
        Invalid: The address or a type is not valid.
    """
    if url and not is_web_address(url):
        raise Invalid("url: must be an address such as https://example.com/events", "/url")
    for name in events:
        if name not in EVENT_TYPES:
            raise Invalid(f"events: {name[:64]!r} is not a type of event", "/events")
    if not events or len(set(events)) < len(events):
        raise Invalid("events: must name one or more types of events, each once", "/events")
