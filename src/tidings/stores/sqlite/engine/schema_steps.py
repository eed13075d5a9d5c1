# SPDX-License-Identifier: Apache-2.0
"""The later migration steps: login, audit, invitations, counts, deletions, and erasures."""

from typing import Final

_TENANTS_AND_USERS: Final = """
ALTER TABLE tenants ADD COLUMN suspended_at INTEGER;
ALTER TABLE tenants ADD COLUMN quota_users INTEGER;
ALTER TABLE tenants ADD COLUMN quota_chats_per_day INTEGER;
ALTER TABLE tenants ADD COLUMN quota_messages_per_day INTEGER;
ALTER TABLE users ADD COLUMN deactivated_at INTEGER;
ALTER TABLE users ADD COLUMN revoked_at INTEGER;
CREATE TABLE token_issuers (
    tenant TEXT PRIMARY KEY,
    issuer TEXT,
    document BLOB NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

# A phone number identifies one user, but earlier versions did not enforce this. If several users
# have the same number, the first one keeps it, as in an import. The others must be given a number
# again.
_PHONE_NUMBERS: Final = """
UPDATE users SET phone_number = NULL WHERE phone_number IS NOT NULL AND user_id NOT IN (
    SELECT min(user_id) FROM users WHERE phone_number IS NOT NULL
    GROUP BY substr(user_id, 1, instr(user_id, ':') - 1), phone_number);
CREATE UNIQUE INDEX users_by_phone ON users
    (substr(user_id, 1, instr(user_id, ':') - 1), phone_number)
    WHERE phone_number IS NOT NULL;
"""

_LOGINS: Final = """
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    device TEXT NOT NULL,
    refresh_digest BLOB NOT NULL,
    previous_digest BLOB,
    sealed_refresh BLOB,
    created_at INTEGER NOT NULL,
    rotated_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_of_users ON sessions (user_id, created_at) WHERE revoked_at IS NULL;
CREATE INDEX sessions_ending ON sessions (coalesce(revoked_at, expires_at));
CREATE TABLE login_codes (
    tenant TEXT NOT NULL,
    phone_number TEXT NOT NULL,
    digest BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, phone_number)
) STRICT, WITHOUT ROWID;
CREATE INDEX login_codes_expiring ON login_codes (expires_at);
CREATE TABLE budgets (
    name TEXT PRIMARY KEY,
    spent INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX budgets_expiring ON budgets (expires_at);
"""

IDENTITY_TABLES: Final = _TENANTS_AND_USERS + _PHONE_NUMBERS + _LOGINS


# The trigger restricts every program that opens the file: only the outcome of an entry can be set,
# and only once.
AUDIT_TABLE: Final = """
CREATE TABLE audit (
    at INTEGER NOT NULL,
    entry_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    actor TEXT NOT NULL,
    actor_id TEXT,
    action TEXT NOT NULL,
    fields TEXT NOT NULL,
    acts TEXT NOT NULL,
    outcome TEXT,
    code TEXT,
    PRIMARY KEY (at, entry_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_by_tenant ON audit (tenant, at, entry_id);
CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit
WHEN old.outcome IS NOT NULL
    OR (new.at, new.entry_id, new.tenant, new.actor, new.action, new.fields)
        IS NOT (old.at, old.entry_id, old.tenant, old.actor, old.action, old.fields)
    OR new.actor_id IS NOT old.actor_id
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
"""


INVITE_TABLES: Final = """
CREATE TABLE invites (
    user_id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    inviter TEXT NOT NULL,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    invited_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, chat_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX invites_expiring ON invites (expires_at);
"""

DECLINED_INVITES: Final = "ALTER TABLE invites ADD COLUMN declined_at INTEGER;"


# The times are packed by `model.receipt_times`; rows from before have none.
MARKS_AND_TIMES: Final = """
ALTER TABLE delivery_state ADD COLUMN unread_from INTEGER NOT NULL DEFAULT 0;
ALTER TABLE delivery_state ADD COLUMN unread_number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE delivery_state ADD COLUMN hidden_number INTEGER NOT NULL DEFAULT -1;
ALTER TABLE delivery_state ADD COLUMN delivered_times BLOB NOT NULL DEFAULT x'';
ALTER TABLE delivery_state ADD COLUMN read_times BLOB NOT NULL DEFAULT x'';
"""


LOGIN_ATTEMPTS: Final = """
ALTER TABLE login_codes ADD COLUMN asked_by TEXT;
ALTER TABLE login_codes ADD COLUMN attempts_elsewhere INTEGER NOT NULL DEFAULT 0;
"""
"""`asked_by` is a keyed digest of an address; the address itself is not stored."""


MEMBERS_BY_JOINING: Final = """
CREATE INDEX chat_memberships_by_joining ON chat_memberships (chat_id, joined, user_id);
"""

# Triggers keep the counts, because both requests and imports add receipts, and an import may
# replace a row.
CHAT_COUNTS: Final = """
CREATE TABLE chat_counts (
    user_id TEXT PRIMARY KEY,
    chats INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO chat_counts SELECT user_id, count(*) FROM delivery_state GROUP BY user_id;
CREATE TRIGGER receipts_come BEFORE INSERT ON delivery_state WHEN NOT EXISTS (
    SELECT 1 FROM delivery_state WHERE user_id = new.user_id AND chat_id = new.chat_id) BEGIN
    INSERT INTO chat_counts VALUES (new.user_id, 1) ON CONFLICT DO UPDATE SET chats = chats + 1;
END;
CREATE TRIGGER receipts_go AFTER DELETE ON delivery_state BEGIN
    UPDATE chat_counts SET chats = chats - 1 WHERE user_id = old.user_id;
END;
"""


OWN_CHATS: Final = "ALTER TABLE delivery_state ADD COLUMN is_own INTEGER NOT NULL DEFAULT 0;"

# Fills the column for older rows: otherwise people who have written to each other for years would
# be strangers until they write again. One pass over the log collects each pair of chat and author;
# a search per member would read long chats once for each silent member. If a user left and joined
# again, only the messages since the user joined again are considered.
OWN_CHATS_BEFORE: Final = """
UPDATE delivery_state SET is_own = 1 FROM (
    SELECT DISTINCT m.chat_id, m.user_id
    FROM messages AS e
    JOIN chat_memberships AS m ON m.chat_id = e.chat_id AND m.user_id = e.sender
    WHERE e.kind = 'message' AND e.sequence > m.joined
) AS own
WHERE delivery_state.user_id = own.user_id AND delivery_state.chat_id = own.chat_id;
UPDATE delivery_state SET is_own = 1 FROM (
    SELECT c.chat_id, c.creator
    FROM chats AS c
    JOIN chat_memberships AS m ON m.chat_id = c.chat_id AND m.user_id = c.creator
    WHERE m.joined = 1
) AS own
WHERE delivery_state.user_id = own.creator AND delivery_state.chat_id = own.chat_id;
"""


CHAT_DELETIONS: Final = """
ALTER TABLE chats ADD COLUMN deleted_at INTEGER;
CREATE TABLE chat_deletions (
    chat_id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    deleted_by TEXT NOT NULL,
    phase TEXT NOT NULL,
    emptied INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_deletions_unfinished ON chat_deletions (created_at) WHERE phase <> 'done';
"""


# A chat of an earlier version has no such time until its next change.
CHAT_CHANGES: Final = "ALTER TABLE chats ADD COLUMN updated_at INTEGER;"

CHAT_SETTINGS: Final = """
ALTER TABLE messages ADD COLUMN settings TEXT;
ALTER TABLE chats ADD COLUMN frozen INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN slow_mode_seconds INTEGER NOT NULL DEFAULT 0;
"""

BLOCKS: Final = """
CREATE TABLE blocks (
    user_id TEXT NOT NULL,
    blocked TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    chat_id TEXT,
    delivered INTEGER NOT NULL,
    read INTEGER NOT NULL,
    PRIMARY KEY (user_id, blocked)
) STRICT, WITHOUT ROWID;
CREATE INDEX blocks_by_blocked ON blocks (blocked);
"""

PROFILES: Final = """
ALTER TABLE users ADD COLUMN avatar_url TEXT;
ALTER TABLE users ADD COLUMN metadata TEXT;
ALTER TABLE users ADD COLUMN email TEXT;
ALTER TABLE users ADD COLUMN phone_verified_at INTEGER;
ALTER TABLE users ADD COLUMN hidden_at INTEGER;
"""

# The order of each list that is not the order of a primary key.
LISTINGS: Final = """
CREATE INDEX tenants_by_creation ON tenants (created_at, tenant);
CREATE INDEX tenant_keys_by_creation ON tenant_keys (tenant, created_at, key_id);
CREATE INDEX chats_by_tenant ON chats (tenant, chat_id) WHERE deleted_at IS NULL;
"""


TENANT_JOBS: Final = """
CREATE TABLE tenant_jobs (
    tenant TEXT NOT NULL,
    job_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    phase TEXT NOT NULL,
    state TEXT NOT NULL,
    pending TEXT NOT NULL,
    cursor TEXT,
    counts TEXT NOT NULL,
    result TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tenant_jobs_unfinished ON tenant_jobs (tenant, created_at, job_id)
    WHERE state = 'running';
"""


# Earlier versions recorded only the end of a data key, not the erasure of its author. On this
# engine both happened in the same transaction.
ERASED_AUTHORS: Final = """
INSERT INTO revocations (kind, subject, at)
    SELECT 'author', subject, at FROM revocations WHERE kind = 'data_key' ORDER BY place;
CREATE INDEX erased_authors ON revocations (substr(subject, 1, instr(subject, ':') - 1), place)
    WHERE kind = 'author';
"""


EXPORT_PARTS: Final = """
CREATE TABLE export_parts (
    tenant TEXT NOT NULL,
    job_id TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    number INTEGER NOT NULL,
    box BLOB NOT NULL,
    box_key INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, job_id, started_at, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX export_parts_expiring ON export_parts (expires_at);
"""


# Few messages are replies, so the index is partial.
REPLIES: Final = """
ALTER TABLE messages ADD COLUMN reply_to INTEGER;
ALTER TABLE messages ADD COLUMN reply_count INTEGER NOT NULL DEFAULT 0;
CREATE INDEX messages_by_target ON messages (chat_id, reply_to, sequence)
    WHERE reply_to IS NOT NULL;
"""


# The user `*` stands for all members. The column in the table of messages comes after the content,
# so counting mentions there would read the content too.
MENTIONS: Final = """
ALTER TABLE messages ADD COLUMN mentions TEXT;
CREATE TABLE mentions (
    chat_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, sequence, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX mentions_by_user ON mentions (user_id, created_at, chat_id, sequence);
"""


PINS: Final = """
ALTER TABLE messages ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
CREATE INDEX messages_pinned ON messages (chat_id, pinned) WHERE pinned > 0;
"""


QUIET: Final = """
ALTER TABLE messages ADD COLUMN silent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chat_memberships ADD COLUMN except_mentions INTEGER NOT NULL DEFAULT 0;
"""


BANS: Final = "ALTER TABLE users ADD COLUMN banned_until INTEGER;"


REPORTS: Final = """
CREATE TABLE reports (
    report_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    state TEXT NOT NULL,
    reporter TEXT NOT NULL,
    reported TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    chat_id TEXT,
    sequence INTEGER NOT NULL,
    client_message_id TEXT,
    content_type TEXT,
    sent_at INTEGER NOT NULL,
    box BLOB,
    box_key INTEGER NOT NULL,
    comment BLOB,
    comment_key INTEGER NOT NULL,
    note BLOB,
    note_key INTEGER NOT NULL,
    action TEXT,
    updated_at INTEGER,
    PRIMARY KEY (tenant, report_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX reports_by_state ON reports (tenant, state, report_id);
CREATE INDEX reports_by_reporter ON reports (reporter, reported);
CREATE INDEX reports_expiring ON reports (expires_at);
"""


TENANT_POSTS: Final = "ALTER TABLE messages ADD COLUMN posted_by TEXT;"


# A deleted user or tenant leaves a mark. A deleted user is not counted. The index also finds the
# sessions that have ended.
DELETION_MARKS: Final = """
ALTER TABLE users ADD COLUMN deleted_at INTEGER;
ALTER TABLE tenants ADD COLUMN deleted_at INTEGER;
DROP TRIGGER users_come;
CREATE TRIGGER users_come AFTER INSERT ON users WHEN new.deleted_at IS NULL BEGIN
    INSERT INTO user_counts VALUES (substr(new.user_id, 1, instr(new.user_id, ':') - 1), 1)
        ON CONFLICT DO UPDATE SET users = users + 1;
END;
DROP TRIGGER users_go;
CREATE TRIGGER users_go AFTER DELETE ON users WHEN old.deleted_at IS NULL BEGIN
    UPDATE user_counts SET users = users - 1
        WHERE tenant = substr(old.user_id, 1, instr(old.user_id, ':') - 1);
END;
CREATE TABLE known_erasures (
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (kind, subject)
) STRICT, WITHOUT ROWID;
DROP INDEX sessions_of_users;
CREATE INDEX sessions_of_users ON sessions (user_id, created_at);
"""


# The parts are last, so that a search for a version reads no overflow page for them.
SEARCH_INDEX: Final = """
CREATE TABLE search_states (
    chat_id TEXT NOT NULL PRIMARY KEY,
    until INTEGER NOT NULL,
    mark TEXT NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE search_segments (
    chat_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    until INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    unlisted INTEGER NOT NULL,
    unlisted_until INTEGER NOT NULL,
    parts BLOB NOT NULL,
    PRIMARY KEY (chat_id, number)
) STRICT;
"""
