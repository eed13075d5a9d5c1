# SPDX-License-Identifier: Apache-2.0
"""The step of the schema that adds escalations of notifications by e-mail."""

from typing import Final

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
