# SPDX-License-Identifier: Apache-2.0
"""The step of the schema that adds scheduled messages, and items that become due."""

from typing import Final

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
