# SPDX-License-Identifier: Apache-2.0
"""Invitations into groups."""

from typing import Final

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
