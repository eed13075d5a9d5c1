# SPDX-License-Identifier: Apache-2.0
"""The tables of logging in, and what tenants and users have since then."""

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

# A number leads to one user. Earlier nobody looked: of several with the same one the first keeps
# it, as after a move between engines; the others have to be given theirs again.
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
