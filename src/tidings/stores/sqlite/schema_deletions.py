# SPDX-License-Identifier: Apache-2.0
"""Chats that are being deleted, or were."""

from typing import Final

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
