# SPDX-License-Identifier: Apache-2.0
"""The statements that store inbox facts of an export in SQLite."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tidings.model.escalations import Escalation
from tidings.model.notifications import Broadcast, InboxConfig, Notification
from tidings.model.scheduled import Scheduled
from tidings.ports.bus import DeadLetter, Job
from tidings.ports.due import due_of
from tidings.ports.escalations import due_of_escalation
from tidings.ports.export_inbox_facts import (
    BroadcastFact,
    BroadcastStatesFact,
    CopyFact,
    DeadLetterFact,
    EscalationFact,
    HeldJobFact,
    InboxFact,
    InboxFacts,
    JobFact,
    NotificationFact,
    PostKeyFact,
    ReadStateFact,
    ScheduledFact,
    TenantSettingsFact,
    converted,
    read_state_of,
    waits_for_log,
)
from tidings.ports.scheduled_notifications import due_of_job, due_of_notification
from tidings.stores.sqlite.chat.scheduled import (
    KEEP_SCHEDULED,
    PUT_DUE,
    due_row,
    to_scheduled_row,
)
from tidings.stores.sqlite.engine.rows import (
    insert_once,
)
from tidings.stores.sqlite.inbox.escalations import PUT_ESCALATION, escalation_row
from tidings.stores.sqlite.inbox.jobs import (
    KEEP_DEAD_LETTER,
    PUT_JOB,
    dead_letter_to_row,
    job_to_row,
)
from tidings.stores.sqlite.inbox.notifications import (
    APPEND_BROADCAST,
    PUT_NOTIFICATION,
    config_to_column,
)
from tidings.stores.sqlite.inbox.preferences import preferences_to_column
from tidings.stores.sqlite.inbox.scheduled_notifications import HOLD_JOB
from tidings.stores.sqlite.inbox.states import MARKS, marks_row

INBOX_TABLES: Final = (
    "tenant_settings", "inboxes", "notifications", "finished_jobs", "announcements", "post_keys",
    "copies", "read_states", "read_announcements", "broadcast_states", "jobs", "jobs_aside",
    "scheduled", "due", "held_jobs", "escalations",
)  # fmt: skip

_SETTINGS: Final = "INSERT OR IGNORE INTO tenant_settings (tenant, settings) VALUES (?, ?)"
_INBOX: Final = """
INSERT OR IGNORE INTO inboxes (tenant, inbox, config, has_preferences) VALUES (?, ?, ?, ?)
"""
_FINISHED: Final = """
INSERT OR IGNORE INTO finished_jobs (tenant, inbox, notification_id, number) VALUES (?, ?, ?, ?)
"""
_POST_KEY: Final = insert_once("post_keys", PostKeyFact)
_COPY: Final = insert_once("copies", CopyFact)
_STATES: Final = insert_once("broadcast_states", BroadcastStatesFact)
_READ_STATE: Final = f"""
INSERT OR IGNORE INTO read_states (user_id, inbox, {MARKS}, preferences)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_READ_ONE: Final = """
INSERT OR IGNORE INTO read_announcements (user_id, inbox, sequence, read_at) VALUES (?, ?, ?, ?)
"""

Statement = tuple[str, tuple[Any, ...]]


def inbox_statements(fact: InboxFacts) -> Iterator[Statement]:
    """Yield the statements that store an inbox fact, each with its values."""
    match fact:
        case TenantSettingsFact():
            yield _SETTINGS, (fact.tenant, _json(fact.settings))
        case InboxFact():
            config = config_to_column(converted(InboxConfig, fact))
            yield _INBOX, (fact.tenant, fact.inbox, config, fact.has_preferences)
        case NotificationFact():
            yield from _notification(fact)
        case HeldJobFact():
            job = converted(Job, fact)
            yield HOLD_JOB, job_to_row(job)
            yield PUT_DUE, due_row(due_of_job(job))
        case EscalationFact():
            escalation = converted(Escalation, fact)
            yield PUT_ESCALATION, escalation_row(escalation)
            yield PUT_DUE, due_row(due_of_escalation(escalation, fact.at))
        case BroadcastFact():
            yield APPEND_BROADCAST, msgspec.structs.astuple(converted(Broadcast, fact))
        case PostKeyFact():
            yield _POST_KEY, msgspec.structs.astuple(fact)
        case CopyFact():
            yield _COPY, msgspec.structs.astuple(fact)
        case ReadStateFact():
            yield from _read_state(fact)
        case BroadcastStatesFact():
            yield _STATES, msgspec.structs.astuple(fact)
        case JobFact():
            yield PUT_JOB, job_to_row(converted(Job, fact))
        case DeadLetterFact():
            dead_letter = converted(DeadLetter, fact, job=converted(Job, fact.job))
            yield KEEP_DEAD_LETTER, dead_letter_to_row(dead_letter)
        case ScheduledFact():
            message = converted(Scheduled, fact)
            yield KEEP_SCHEDULED, to_scheduled_row(message)
            if message.is_open:
                yield PUT_DUE, due_row(due_of(message))


def _notification(fact: NotificationFact) -> Iterator[Statement]:
    notification = converted(Notification, fact)
    yield PUT_NOTIFICATION, msgspec.structs.astuple(notification)
    if waits_for_log(fact):
        yield PUT_DUE, due_row(due_of_notification(notification, fact.posted_at))
    for number in fact.finished_jobs:
        yield _FINISHED, (fact.tenant, fact.inbox, fact.notification_id, number)


def _read_state(fact: ReadStateFact) -> Iterator[Statement]:
    key = (fact.user_id, fact.inbox)
    preferences = preferences_to_column(fact.preferences)
    yield _READ_STATE, (*key, *marks_row(read_state_of(fact)), preferences)
    for sequence, read_at in fact.singly.items():
        yield _READ_ONE, (*key, sequence, read_at)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
