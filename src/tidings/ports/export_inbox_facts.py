# SPDX-License-Identifier: Apache-2.0
"""Facts about inboxes and scheduled messages in an export.

They are part of the file format that `export_facts` describes. Expired notifications, copies,
claimed keys and jobs are not exported, nor are copies beyond a user's limit.
"""

from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

from tidings.model.ids import ChatId, UserKey
from tidings.model.notifications import NOTHING_READ, Broadcast, ReadState
from tidings.model.preferences import CategoryRule, Preferences
from tidings.model.scheduled import State
from tidings.ports.due import DueKind


class FactBase(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="fact",
):
    """One line of an export."""


class TenantSettingsFact(FactBase, frozen=True, kw_only=True, tag="tenant_settings"):
    """A tenant's settings."""

    tenant: str
    settings: dict[str, object]


class InboxFact(FactBase, frozen=True, kw_only=True, tag="inbox"):
    """An inbox. Its notifications, log and claimed keys follow, and then the next inbox."""

    tenant: str
    inbox: str
    title: str
    description: str = ""
    schema_version: str = "1.0"
    categories: tuple[str, ...] | None = None
    late_joiners: bool | None = None
    keep_days: int | None = None
    message_schema: dict[str, object] | None = None
    category_rules: dict[str, CategoryRule] | None = None
    has_preferences: bool = False


class NotificationFact(FactBase, frozen=True, kw_only=True, tag="notification"):
    """A notification for listed users, with the progress of its delivery."""

    tenant: str
    inbox: str
    notification_id: str
    category: str | None = None
    posted_at: int
    expires_at: int
    recipients: int
    box: bytes | None = None
    box_key: int = 0
    collapse: str | None = None
    everyone: bool = False
    log_head: int | None = None
    sequence: int | None = None
    restored: bool = False
    failed: bool = False
    finished_jobs: tuple[int, ...] = ()
    """Numbers of the finished delivery jobs, ascending."""


class BroadcastFact(FactBase, frozen=True, kw_only=True, tag="announcement"):
    """An entry of an inbox's log."""

    tenant: str
    inbox: str
    sequence: int
    kind: Literal["broadcast", "retraction"]
    posted_at: int
    mark: str
    expires_at: int
    category: str | None = None
    late_joiners: bool = True
    recipients: int = 0
    key: str | None = None
    target: str | None = None
    box: bytes | None = None
    box_key: int = 0
    collapse: str | None = None
    is_last: bool = False
    """Whether this is the last entry of its log. The last entry is exported even if it has expired,
    because its sequence determines the sequence of the next entry."""


class PostKeyFact(FactBase, frozen=True, kw_only=True, tag="post_key"):
    """An unexpired claim of an Idempotency-Key by a post."""

    tenant: str
    inbox: str
    key: str
    digest: bytes
    notification_id: str | None = None
    hint: int
    claimed_at: int
    expires_at: int


class StatesFact(FactBase, frozen=True, kw_only=True):
    """What a user did with one notification, with the fields of
    `model.notification_states.NotificationStates`."""

    seen_at: int | None = None
    unseen_since: int | None = None
    read_at: int | None = None
    unread_since: int | None = None
    archived_at: int | None = None
    unarchived_since: int | None = None
    snoozed_until: int | None = None
    acted: str | None = None
    acted_at: int | None = None


class CopyFact(StatesFact, frozen=True, kw_only=True, tag="copy"):
    """A user's reference to a notification."""

    user_id: UserKey
    inbox: str
    notification_id: str
    category: str | None = None
    received_at: int
    expires_at: int
    collapse: str | None = None
    escalated_at: int | None = None


class BroadcastStatesFact(StatesFact, frozen=True, kw_only=True, tag="broadcast_states"):
    """What a user did with one broadcast."""

    user_id: UserKey
    inbox: str
    sequence: int
    expires_at: int


class ReadStateFact(FactBase, frozen=True, kw_only=True, tag="read_state"):
    """A user's read marks in an inbox that are not stored with the copies, and the preferences."""

    user_id: UserKey
    inbox: str
    before: int = 0
    announced: int = 0
    singly: dict[int, int] = msgspec.field(default_factory=dict)
    """When each single broadcast was read, by sequence, ascending."""
    preferences: Preferences | None = None
    seen_before: int = 0
    seen_announced: int = 0
    archived_before: int = 0
    archived_announced: int = 0


class JobFact(FactBase, frozen=True, kw_only=True, tag="job"):
    """A delivery job in the store's own queue."""

    tenant: str
    inbox: str
    notification_id: str
    number: int
    users: tuple[str, ...]
    category: str | None = None
    posted_at: int
    expires_at: int
    collapse: str | None = None


class HeldJobFact(FactBase, frozen=True, kw_only=True, tag="held_job"):
    """A delivery job that waits for the time of its notification."""

    tenant: str
    inbox: str
    notification_id: str
    number: int
    users: tuple[str, ...]
    category: str | None = None
    posted_at: int
    expires_at: int
    collapse: str | None = None


class EscalationFact(FactBase, frozen=True, kw_only=True, tag="escalation"):
    """A portion of users who get an e-mail if they have not read a notification in time."""

    tenant: str
    inbox: str
    notification_id: str
    number: int
    users: tuple[str, ...]
    category: str | None = None
    at: int
    expires_at: int
    attempt: int = 0


class DeadLetterFact(FactBase, frozen=True, kw_only=True, tag="job_set_aside"):
    """A delivery job that failed too often and waits for an operator."""

    aside_id: str
    job: JobFact
    reason: str
    at: int


class ScheduledFact(FactBase, frozen=True, kw_only=True, tag="scheduled"):
    """A scheduled message, with the fields of `model.scheduled.Scheduled`. Its content stays
    encrypted."""

    user_id: UserKey
    scheduled_id: str
    chat_id: ChatId
    client_message_id: str
    send_at: int
    state: State = "pending"
    content_type: str | None = None
    ttl_seconds: int | None = None
    box: bytes | None = None
    box_key: int = 0
    digest: bytes
    reply_to: int | None = None
    mentions: tuple[str, ...] = ()
    silent: bool = False
    created_at: int
    updated_at: int
    sequence: int | None = None
    code: str | None = None
    expires_at: int | None = None
    attachments: tuple[str, ...] = ()


OfInbox = InboxFact | NotificationFact | HeldJobFact | EscalationFact | BroadcastFact | PostKeyFact
OfUser = CopyFact | ReadStateFact | BroadcastStatesFact
InboxFacts = TenantSettingsFact | OfInbox | OfUser | JobFact | DeadLetterFact | ScheduledFact

_S = TypeVar("_S", bound=msgspec.Struct)


def converted(kind: type[_S], source: msgspec.Struct, **others: object) -> _S:
    """Convert a struct to its fact, or back; `others` are fields that the source lacks."""
    fields = (name for name in kind.__struct_fields__ if name not in others)
    return kind(**others, **{name: getattr(source, name) for name in fields})


def first_due(facts: Iterable[msgspec.Struct]) -> dict[DueKind, int]:
    """Return the earliest time at which something in these facts is due, for each kind."""
    first: dict[DueKind, int] = {}
    for fact in facts:
        found = _due(fact)
        if found is not None:
            kind, at = found
            first[kind] = min(at, first.get(kind, at))
    return first


def _due(fact: msgspec.Struct) -> tuple[DueKind, int] | None:
    match fact:
        case ScheduledFact():
            return "message", fact.send_at
        case NotificationFact() if waits_for_log(fact):
            return "inbox", fact.posted_at
        case HeldJobFact():
            return "inbox", fact.posted_at
        case EscalationFact():
            return "escalation", fact.at
        case _:
            return None


def waits_for_log(fact: NotificationFact) -> bool:
    """Return True if the notification is a scheduled broadcast that still has to be appended."""
    is_open = fact.everyone and fact.sequence is None
    return is_open and fact.box is not None and not (fact.restored or fact.failed)


def broadcast_fact(broadcast: Broadcast, now: int, *, is_last: bool) -> BroadcastFact:
    """Return a log entry as a fact. Expired content is omitted, even if it is still stored."""
    fact = converted(BroadcastFact, broadcast, is_last=is_last)
    if fact.box is None or fact.expires_at <= now:
        return msgspec.structs.replace(fact, box=None, box_key=0)
    return fact


def read_state_facts(
    user: UserKey, inbox: str, state: ReadState, now: int
) -> Iterable[ReadStateFact | BroadcastStatesFact]:
    """Yield a user's marks and preferences in an inbox as a fact, and each broadcast with states of
    its own."""
    # Engines store the single marks in different orders, and the order has no meaning.
    singly = dict(sorted(state.singly.items()))
    if msgspec.structs.replace(state, broadcasts={}) != NOTHING_READ:
        yield converted(ReadStateFact, state, user_id=user, inbox=inbox, singly=singly)
    for _, states in sorted(state.broadcasts.items()):
        if states.expires_at > now:
            yield converted(BroadcastStatesFact, states, user_id=user, inbox=inbox)


def read_state_of(fact: ReadStateFact) -> ReadState:
    """Return the marks in a fact; the states of single broadcasts are facts of their own."""
    return converted(ReadState, fact, broadcasts={})
