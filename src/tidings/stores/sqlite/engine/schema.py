# SPDX-License-Identifier: Apache-2.0
"""The tables, as a list of migration steps. A released step never changes; new ones are added."""

from typing import Final

import apsw

from tidings.model.setup_error import SetupError
from tidings.stores.sqlite.engine.later_schema_steps import LATER_STEPS
from tidings.stores.sqlite.engine.schema_steps import (
    AUDIT_TABLE,
    BANS,
    BLOCKS,
    CHAT_CHANGES,
    CHAT_COUNTS,
    CHAT_DELETIONS,
    CHAT_SETTINGS,
    DECLINED_INVITES,
    DELETION_MARKS,
    ERASED_AUTHORS,
    EXPORT_PARTS,
    IDENTITY_TABLES,
    INVITE_TABLES,
    LISTINGS,
    LOGIN_ATTEMPTS,
    MARKS_AND_TIMES,
    MEMBERS_BY_JOINING,
    MENTIONS,
    OWN_CHATS,
    OWN_CHATS_BEFORE,
    PINS,
    PROFILES,
    QUIET,
    REPLIES,
    REPORTS,
    SEARCH_INDEX,
    TENANT_JOBS,
    TENANT_POSTS,
)

_CHAT_TABLES: Final = """
CREATE TABLE messages (
    chat_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL,
    sender TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    number INTEGER NOT NULL,
    last_message INTEGER NOT NULL,
    active_at INTEGER NOT NULL,
    mark TEXT NOT NULL,
    client_message_id TEXT,
    content_type TEXT,
    box_key INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER,
    edited_at INTEGER,
    redacted INTEGER NOT NULL DEFAULT 0,
    reactions TEXT,
    target INTEGER,
    emoji TEXT,
    people TEXT,
    name TEXT,
    box BLOB, -- last: whoever counts or looks for a head reads no overflow page for it
    PRIMARY KEY (chat_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_expiring ON messages (expires_at)
    WHERE expires_at IS NOT NULL AND box IS NOT NULL;

CREATE TABLE idempotency_keys (
    chat_id TEXT NOT NULL,
    sender TEXT NOT NULL,
    client_message_id TEXT NOT NULL,
    hint INTEGER NOT NULL,
    digest BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, sender, client_message_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE chats (
    chat_id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    type TEXT NOT NULL,
    name TEXT,
    creator TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    member_count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE direct_chats (
    pair TEXT PRIMARY KEY,
    chat_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE chat_memberships (
    chat_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    role TEXT NOT NULL,
    joined_at INTEGER NOT NULL,
    joined INTEGER NOT NULL,
    muted_until INTEGER,
    PRIMARY KEY (chat_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE reactions (
    chat_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    emoji TEXT NOT NULL,
    user_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, sequence, emoji, user_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE delivery_state (
    user_id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    delivered INTEGER NOT NULL,
    read INTEGER NOT NULL,
    read_number INTEGER NOT NULL,
    PRIMARY KEY (user_id, chat_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE request_keys (
    user_id TEXT NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    chat_id TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_keys_expiring ON request_keys (expires_at);
"""

_PEOPLE_TABLES: Final = """
CREATE TABLE tenants (
    tenant TEXT PRIMARY KEY,
    name TEXT,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE tenant_keys (
    key_id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE signing_keys (
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    public BLOB NOT NULL,
    sealed_private BLOB NOT NULL,
    master_key_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, key_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE users (
    user_id TEXT PRIMARY KEY,
    display_name TEXT,
    phone_number TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_seen_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    author TEXT NOT NULL,
    generation INTEGER NOT NULL,
    wrapped BLOB,
    master_key_id TEXT,
    PRIMARY KEY (author, generation)
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_by_master ON keys (master_key_id);
CREATE TABLE sealed_secrets (
    name TEXT PRIMARY KEY,
    master_key_id TEXT NOT NULL,
    sealed BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE deployment (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""

_REVOCATION_TABLE: Final = """
CREATE TABLE revocations (
    place INTEGER PRIMARY KEY, -- one more than the last: rows are never deleted
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
"""

_INBOX_TABLES: Final = """
CREATE TABLE tenant_settings (
    tenant TEXT PRIMARY KEY,
    settings TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE inboxes (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    config TEXT NOT NULL,
    PRIMARY KEY (tenant, inbox)
) STRICT, WITHOUT ROWID;
CREATE TABLE notifications (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    category TEXT,
    posted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    recipients INTEGER NOT NULL,
    box_key INTEGER NOT NULL,
    box BLOB,
    PRIMARY KEY (tenant, inbox, notification_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX notifications_expiring ON notifications (expires_at);
CREATE TABLE finished_jobs (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (tenant, inbox, notification_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE post_keys (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    notification_id TEXT,
    hint INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, inbox, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX post_keys_expiring ON post_keys (expires_at);
CREATE TABLE announcements (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL,
    posted_at INTEGER NOT NULL,
    mark TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    category TEXT,
    late_joiners INTEGER NOT NULL,
    recipients INTEGER NOT NULL,
    key TEXT,
    target TEXT,
    box_key INTEGER NOT NULL,
    box BLOB,
    PRIMARY KEY (tenant, inbox, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX announcements_expiring ON announcements (expires_at) WHERE box IS NOT NULL;

CREATE TABLE copies (
    user_id TEXT NOT NULL,
    inbox TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    category TEXT,
    received_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL, -- no index: it would cost every copy a page
    read_at INTEGER,
    PRIMARY KEY (user_id, inbox, notification_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE read_states (
    user_id TEXT NOT NULL,
    inbox TEXT NOT NULL,
    before INTEGER NOT NULL,
    announced INTEGER NOT NULL,
    PRIMARY KEY (user_id, inbox)
) STRICT, WITHOUT ROWID;
CREATE TABLE read_announcements (
    user_id TEXT NOT NULL,
    inbox TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    read_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, inbox, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    place INTEGER PRIMARY KEY AUTOINCREMENT, -- one is never used twice
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    category TEXT,
    posted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    users TEXT NOT NULL,
    UNIQUE (tenant, inbox, notification_id, number)
) STRICT;
CREATE INDEX jobs_by_tenant ON jobs (tenant, place);
CREATE TABLE jobs_aside (
    aside_id TEXT PRIMARY KEY,
    job TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

# Triggers keep the counts, because both requests and imports add users.
_USER_COUNTS: Final = """
CREATE TABLE user_counts (
    tenant TEXT PRIMARY KEY,
    users INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO user_counts
    SELECT substr(user_id, 1, instr(user_id, ':') - 1), count(*) FROM users GROUP BY 1;
CREATE TRIGGER users_come AFTER INSERT ON users BEGIN
    INSERT INTO user_counts VALUES (substr(new.user_id, 1, instr(new.user_id, ':') - 1), 1)
        ON CONFLICT DO UPDATE SET users = users + 1;
END;
CREATE TRIGGER users_go AFTER DELETE ON users BEGIN
    UPDATE user_counts SET users = users - 1
        WHERE tenant = substr(old.user_id, 1, instr(old.user_id, ':') - 1);
END;
"""

MIGRATIONS: Final = (
    _CHAT_TABLES,
    _PEOPLE_TABLES,
    _REVOCATION_TABLE,
    _INBOX_TABLES + _USER_COUNTS,
    IDENTITY_TABLES,
    LOGIN_ATTEMPTS,
    OWN_CHATS,
    MEMBERS_BY_JOINING,
    AUDIT_TABLE,
    CHAT_COUNTS,
    INVITE_TABLES,
    CHAT_DELETIONS,
    DECLINED_INVITES,
    OWN_CHATS_BEFORE,
    LISTINGS,
    CHAT_CHANGES,
    TENANT_JOBS,
    ERASED_AUTHORS,
    MARKS_AND_TIMES,
    EXPORT_PARTS,
    PROFILES,
    DELETION_MARKS,
    REPLIES,
    MENTIONS,
    PINS,
    QUIET,
    TENANT_POSTS,
    CHAT_SETTINGS,
    BLOCKS,
    SEARCH_INDEX,
    REPORTS,
    BANS,
    *LATER_STEPS,
)
VERSION: Final = len(MIGRATIONS)
ADDITIVE: Final[tuple[str, ...]] = ()
"""Steps that an older version need not know: they only create tables and indexes, and nothing in
these tables has to change when the older version writes. If a store has only such steps beyond
those that an older version knows, that version opens it, so that an upgrade can be undone without
loss."""
OLDEST_READER: Final = "oldest_reader"
"""Name of the stored number of the oldest schema whose version may use the store."""


def migrate(db: apsw.Connection) -> None:
    """Migrate the file to the schema of this version, with one transaction per step.

    A file of a newer version is left as it is, if this version may use it.

    Raises:
        SetupError: A newer version wrote the file, and this version may not use it.
    """
    if refuse_newer(db):
        return
    found = db.pragma("user_version")
    for version, step in enumerate(MIGRATIONS[found:], start=found + 1):
        with db:
            db.execute(step)
            _tell_older_versions(db, version)
            db.pragma("user_version", version)


def refuse_newer(db: apsw.Connection) -> bool:
    """Return True if a newer version wrote the file, and this version may use it.

    Raises:
        SetupError: A newer version wrote the file, and this version may not use it.
    """
    found = db.pragma("user_version")
    if found <= VERSION:
        return False
    oldest = db.execute("SELECT value FROM deployment WHERE name = ?", (OLDEST_READER,)).get
    if oldest is not None and int(oldest) <= VERSION:
        return True
    raise SetupError(
        f"the store has schema {found}, this version of Tidings supports up to {VERSION}: "
        "run the newer version, or restore a backup made before the upgrade"
    )


def _tell_older_versions(db: apsw.Connection, version: int) -> None:
    """Store which versions may use the file after this step."""
    if MIGRATIONS[version - 1] in ADDITIVE:
        new = (OLDEST_READER, str(version - 1))
        db.execute("INSERT OR IGNORE INTO deployment VALUES (?, ?)", new)
    elif db.execute("SELECT 1 FROM sqlite_master WHERE name = 'deployment'").get is not None:
        db.execute("DELETE FROM deployment WHERE name = ?", (OLDEST_READER,))
