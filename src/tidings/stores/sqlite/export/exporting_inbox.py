# SPDX-License-Identifier: Apache-2.0
"""Export of the inbox: reading its facts from the embedded store, row by row."""

from collections.abc import Iterator
from typing import Any, Final

import apsw
import msgspec

from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.notifications import Broadcast, Copy, InboxConfig, Notification
from tidings.ports.export_inbox_facts import (
    CopyFact,
    DeadLetterFact,
    InboxFact,
    InboxFacts,
    JobFact,
    NotificationFact,
    OfInbox,
    OfUser,
    PostKeyFact,
    TenantSettingsFact,
    announcement_fact,
    converted,
    read_state_facts,
)
from tidings.ports.inboxes import PostKey
from tidings.ports.jobs import Job
from tidings.stores.sqlite.engine.rows import columns, from_row
from tidings.stores.sqlite.inbox.copies import read_state
from tidings.stores.sqlite.inbox.jobs import ASIDE, aside_from_row, job_from_row
from tidings.stores.sqlite.inbox.notifications import announcement_from_row

# Each part is in the order of its key, so that SQLite merges them as it reads.
_INBOXES: Final = """
SELECT tenant, inbox FROM inboxes UNION SELECT tenant, inbox FROM notifications
UNION SELECT tenant, inbox FROM announcements UNION SELECT tenant, inbox FROM post_keys
ORDER BY tenant, inbox
"""
_USERS: Final = """
SELECT user_id, inbox FROM copies UNION SELECT user_id, inbox FROM read_states
UNION SELECT user_id, inbox FROM read_announcements ORDER BY user_id, inbox
"""
_HERE: Final = "tenant = ? AND inbox = ?"
_NOTIFICATIONS: Final = f"""
SELECT {columns(Notification)} FROM notifications
WHERE {_HERE} AND expires_at > ? ORDER BY notification_id
"""
_FINISHED: Final = f"""
SELECT number FROM finished_jobs WHERE {_HERE} AND notification_id = ? ORDER BY number
"""
_LAST: Final = f"SELECT max(sequence) FROM announcements WHERE {_HERE}"
_LOG: Final = f"""
SELECT {columns(Broadcast)} FROM announcements
WHERE {_HERE} AND (expires_at > ? OR sequence = ?) ORDER BY sequence
"""
_POST_KEYS: Final = f"""
SELECT key, {columns(PostKey)} FROM post_keys WHERE {_HERE} AND expires_at > ? ORDER BY key
"""
_COPIES: Final = f"""
SELECT {columns(Copy)} FROM copies WHERE user_id = ? AND inbox = ? AND expires_at > ?
ORDER BY notification_id DESC LIMIT {limits.USER_COPIES_MAX}
"""
# By time of posting, so that the target engine does the oldest jobs first.
_JOBS: Final = f"""
SELECT {columns(Job)} FROM jobs WHERE expires_at > ?
ORDER BY notification_id, number, tenant, inbox
"""

_settings = msgspec.json.Decoder(dict[str, Any])
_config = msgspec.json.Decoder(InboxConfig)


def inbox_facts(db: apsw.Connection, now: int) -> Iterator[InboxFacts]:
    """Yield the facts of the inbox that are valid at `now`, in the order of an export."""
    for tenant, text in db.execute("SELECT tenant, settings FROM tenant_settings ORDER BY tenant"):
        yield TenantSettingsFact(tenant=tenant, settings=_settings.decode(text))
    for tenant, inbox in db.execute(_INBOXES):
        yield from _of_inbox(db, tenant, inbox, now)
    for user, inbox in db.execute(_USERS):
        yield from _of_user(db, user, inbox, now)
    for row in db.execute(_JOBS, (now,)):
        yield converted(JobFact, job_from_row(row))
    for row in db.execute(f"{ASIDE} ORDER BY aside_id"):
        aside = aside_from_row(row)
        yield converted(DeadLetterFact, aside, job=converted(JobFact, aside.job))


def _of_inbox(db: apsw.Connection, tenant: str, inbox: str, now: int) -> Iterator[OfInbox]:
    here = (tenant, inbox)
    for (text,) in db.execute(f"SELECT config FROM inboxes WHERE {_HERE}", here):
        yield converted(InboxFact, _config.decode(text), tenant=tenant, inbox=inbox)
    for row in db.execute(_NOTIFICATIONS, (*here, now)):
        notification = from_row(Notification, row)
        finished = db.execute(_FINISHED, (*here, notification.notification_id))
        numbers = tuple(number for (number,) in finished)
        yield converted(NotificationFact, notification, finished_jobs=numbers)
    last = db.execute(_LAST, here).get
    for row in db.execute(_LOG, (*here, now, last)):
        entry = announcement_from_row(row)
        yield announcement_fact(entry, now, is_last=entry.sequence == last)
    for key, *row in db.execute(_POST_KEYS, (*here, now)):
        claim = from_row(PostKey, tuple(row))
        yield converted(PostKeyFact, claim, tenant=tenant, inbox=inbox, key=key)


def _of_user(db: apsw.Connection, user: UserKey, inbox: str, now: int) -> Iterator[OfUser]:
    for row in reversed(db.execute(_COPIES, (user, inbox, now)).fetchall()):
        yield converted(CopyFact, from_row(Copy, row), user_id=user, inbox=inbox)
    yield from read_state_facts(user, inbox, read_state(db, user, inbox))
