# SPDX-License-Identifier: Apache-2.0
"""Later steps of the schema, in order; `schema_steps` has the earlier ones."""

from typing import Final

# The sweeper visits each upload once or twice, so the index is partial and small.
ATTACHMENTS: Final = """
ALTER TABLE messages ADD COLUMN files BLOB;
ALTER TABLE tenants ADD COLUMN quota_attachment_bytes_per_day INTEGER;
CREATE TABLE uploads (
    owner TEXT NOT NULL,
    attachment_id TEXT NOT NULL,
    size INTEGER NOT NULL,
    box BLOB NOT NULL,
    box_key INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    parts TEXT NOT NULL,
    thumbnail TEXT,
    chat_id TEXT,
    sequence INTEGER NOT NULL,
    visit_at INTEGER,
    PRIMARY KEY (owner, attachment_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX uploads_to_visit ON uploads (visit_at) WHERE visit_at IS NOT NULL;
"""

# Rows of scheduled messages are changed often and are few, so each keeps its content.
SCHEDULED: Final = """
CREATE TABLE due (
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    item_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    tenant TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    PRIMARY KEY (kind, at, item_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE scheduled (
    user_id TEXT NOT NULL,
    scheduled_id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    client_message_id TEXT NOT NULL,
    send_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    content_type TEXT,
    ttl_seconds INTEGER,
    box BLOB,
    box_key INTEGER NOT NULL,
    digest BLOB NOT NULL,
    reply_to INTEGER,
    mentions TEXT NOT NULL,
    silent INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    sequence INTEGER,
    code TEXT,
    expires_at INTEGER,
    PRIMARY KEY (user_id, scheduled_id)
) STRICT;
CREATE INDEX scheduled_by_expiry ON scheduled (expires_at) WHERE expires_at IS NOT NULL;
"""

# A row of `webhook_owed` is removed as soon as the endpoint has got everything, so the table is
# small while the endpoints take what they get.
WEBHOOKS: Final = """
CREATE TABLE webhooks (
    tenant TEXT NOT NULL,
    webhook_id TEXT NOT NULL,
    place TEXT NOT NULL,
    follows_chats INTEGER NOT NULL,
    endpoint BLOB NOT NULL,
    PRIMARY KEY (tenant, webhook_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_owed (
    place TEXT NOT NULL,
    stream TEXT NOT NULL,
    sent INTEGER NOT NULL,
    head INTEGER NOT NULL,
    PRIMARY KEY (place, stream)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_aside (
    place TEXT NOT NULL,
    stream TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    type TEXT NOT NULL,
    status INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (place, stream, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_aside_by_time ON webhook_aside (at);
CREATE TABLE tenant_events (
    tenant TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (tenant, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX tenant_events_by_time ON tenant_events (at);
"""

# How often an endpoint refused the next event of a stream, so that a restart does not start over.
WEBHOOK_REFUSALS: Final = "ALTER TABLE webhook_owed ADD COLUMN refusal TEXT"

PREFERENCES: Final = """
ALTER TABLE read_states ADD COLUMN preferences TEXT;
ALTER TABLE inboxes ADD COLUMN has_preferences INTEGER NOT NULL DEFAULT 0;
"""

PUSH: Final = """
ALTER TABLE delivery_state ADD COLUMN pushed INTEGER NOT NULL DEFAULT 0;
CREATE TABLE push_devices (
    user_id TEXT NOT NULL,
    device TEXT NOT NULL,
    provider TEXT NOT NULL,
    app TEXT,
    box TEXT NOT NULL,
    digest TEXT NOT NULL,
    session_id TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, device)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX push_devices_by_target ON push_devices (digest);
CREATE TABLE push_settings (
    tenant TEXT PRIMARY KEY,
    content TEXT NOT NULL,
    providers TEXT NOT NULL,
    box TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

SCHEDULED_FILES: Final = """
ALTER TABLE uploads ADD COLUMN scheduled_id TEXT;
ALTER TABLE scheduled ADD COLUMN attachments TEXT NOT NULL DEFAULT '[]';
"""

_STATES: Final = (
    "seen_at INTEGER",
    "unseen_since INTEGER",
    "unread_since INTEGER",
    "archived_at INTEGER",
    "unarchived_since INTEGER",
    "snoozed_until INTEGER",
    "acted TEXT",
    "acted_at INTEGER",
)
_MARKS: Final = ("seen_before", "seen_announced", "archived_before", "archived_announced")
_COLLAPSIBLE: Final = ("notifications", "announcements", "copies", "jobs")

# A broadcast has a row for a user only if the user has changed a state of this one broadcast.
_BROADCAST_STATES: Final = f"""
CREATE TABLE broadcast_states (
    user_id TEXT NOT NULL,
    inbox TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    read_at INTEGER,
    {", ".join(_STATES)},
    PRIMARY KEY (user_id, inbox, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX broadcast_states_expiring ON broadcast_states (expires_at);
"""

INBOX_STATES: Final = "\n".join(
    [
        *(f"ALTER TABLE copies ADD COLUMN {column};" for column in _STATES),
        *(
            f"ALTER TABLE read_states ADD COLUMN {mark} INTEGER NOT NULL DEFAULT 0;"
            for mark in _MARKS
        ),
        *(f"ALTER TABLE {table} ADD COLUMN collapse TEXT;" for table in _COLLAPSIBLE),
        _BROADCAST_STATES,
    ]
)

SCHEDULED_NOTIFICATIONS: Final = """
ALTER TABLE notifications ADD COLUMN everyone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE notifications ADD COLUMN log_head INTEGER;
ALTER TABLE notifications ADD COLUMN sequence INTEGER;
ALTER TABLE notifications ADD COLUMN restored INTEGER NOT NULL DEFAULT 0;
CREATE TABLE held_jobs (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    users TEXT NOT NULL,
    category TEXT,
    posted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    collapse TEXT,
    PRIMARY KEY (tenant, inbox, notification_id, number)
) STRICT, WITHOUT ROWID;
"""

FAILED_NOTIFICATIONS: Final = """
ALTER TABLE notifications ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
"""

ESCALATIONS: Final = """
ALTER TABLE copies ADD COLUMN escalated_at INTEGER;
CREATE TABLE escalations (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    users TEXT NOT NULL,
    category TEXT,
    at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    PRIMARY KEY (tenant, inbox, notification_id, number)
) STRICT, WITHOUT ROWID;
"""

REPORTED_FILES: Final = """
ALTER TABLE uploads ADD COLUMN kept_until INTEGER;
ALTER TABLE reports ADD COLUMN files BLOB;
"""

# The name of the fact that an event reports, so that the same fact is not reported twice.
EVENTS_ONCE: Final = """
ALTER TABLE tenant_events ADD COLUMN once TEXT;
CREATE UNIQUE INDEX tenant_events_once ON tenant_events (tenant, once) WHERE once IS NOT NULL;
"""

LATER_STEPS: Final = (
    ATTACHMENTS,
    SCHEDULED,
    WEBHOOKS,
    PREFERENCES,
    PUSH,
    SCHEDULED_FILES,
    INBOX_STATES,
    SCHEDULED_NOTIFICATIONS,
    FAILED_NOTIFICATIONS,
    WEBHOOK_REFUSALS,
    ESCALATIONS,
    REPORTED_FILES,
    EVENTS_ONCE,
)
"""The steps after those of `schema_steps`, in order."""
