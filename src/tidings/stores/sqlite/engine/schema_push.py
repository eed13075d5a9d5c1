# SPDX-License-Identifier: Apache-2.0
"""The step of the schema that adds push: registrations, settings of tenants, claims of notices."""

from typing import Final

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
