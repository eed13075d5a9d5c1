# SPDX-License-Identifier: Apache-2.0
"""The facts of the inbox as rows of the embedded store. One that is there stays as it is."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tidings.model.notifications import Announcement, InboxConfig, Notification
from tidings.ports.jobs import Job, SetAside
from tidings.ports.moving_inbox import (
    AnnouncementFact,
    CopyFact,
    InboxFact,
    InboxFacts,
    JobFact,
    NotificationFact,
    PostKeyFact,
    ReadStateFact,
    SetAsideFact,
    TenantSettingsFact,
    converted,
)
from tidings.stores.sqlite.inbox_jobs import PUT_JOB, job_to_row
from tidings.stores.sqlite.inbox_jobs_aside import KEEP_ASIDE, aside_to_row
from tidings.stores.sqlite.inbox_notifications import ANNOUNCE, PUT_NOTIFICATION
from tidings.stores.sqlite.plain_rows import insert_once

INBOX_TABLES: Final = (
    "tenant_settings", "inboxes", "notifications", "finished_jobs", "announcements", "post_keys",
    "copies", "read_states", "read_announcements", "jobs", "jobs_aside",
)  # fmt: skip

_SETTINGS: Final = "INSERT OR IGNORE INTO tenant_settings (tenant, settings) VALUES (?, ?)"
_INBOX: Final = "INSERT OR IGNORE INTO inboxes (tenant, inbox, config) VALUES (?, ?, ?)"
_FINISHED: Final = """
INSERT OR IGNORE INTO finished_jobs (tenant, inbox, notification_id, number) VALUES (?, ?, ?, ?)
"""
_POST_KEY: Final = insert_once("post_keys", PostKeyFact)
_COPY: Final = insert_once("copies", CopyFact)
_READ_STATE: Final = """
INSERT OR IGNORE INTO read_states (user_id, inbox, before, announced) VALUES (?, ?, ?, ?)
"""
_READ_ONE: Final = """
INSERT OR IGNORE INTO read_announcements (user_id, inbox, sequence, read_at) VALUES (?, ?, ?, ?)
"""

_Statement = tuple[str, tuple[Any, ...]]


def inbox_statements(fact: InboxFacts) -> Iterator[_Statement]:
    """What keeps a fact."""
    match fact:
        case TenantSettingsFact():
            yield _SETTINGS, (fact.tenant, _json(fact.settings))
        case InboxFact():
            yield _INBOX, (fact.tenant, fact.inbox, _json(converted(InboxConfig, fact)))
        case NotificationFact():
            yield from _notification(fact)
        case AnnouncementFact():
            yield ANNOUNCE, msgspec.structs.astuple(converted(Announcement, fact))
        case PostKeyFact():
            yield _POST_KEY, msgspec.structs.astuple(fact)
        case CopyFact():
            yield _COPY, msgspec.structs.astuple(fact)
        case ReadStateFact():
            yield from _read_state(fact)
        case JobFact():
            yield PUT_JOB, job_to_row(converted(Job, fact))
        case SetAsideFact():
            aside = converted(SetAside, fact, job=converted(Job, fact.job))
            yield KEEP_ASIDE, aside_to_row(aside)


def _notification(fact: NotificationFact) -> Iterator[_Statement]:
    yield PUT_NOTIFICATION, msgspec.structs.astuple(converted(Notification, fact))
    for number in fact.finished_jobs:
        yield _FINISHED, (fact.tenant, fact.inbox, fact.notification_id, number)


def _read_state(fact: ReadStateFact) -> Iterator[_Statement]:
    place = (fact.user_id, fact.inbox)
    yield _READ_STATE, (*place, fact.before, fact.announced)
    for sequence, read_at in fact.singly.items():
        yield _READ_ONE, (*place, sequence, read_at)


def _json(said: object) -> str:
    return msgspec.json.encode(said).decode()
