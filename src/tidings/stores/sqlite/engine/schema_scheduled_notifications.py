# SPDX-License-Identifier: Apache-2.0
"""The steps of the schema that add notifications with a time of delivery."""

from typing import Final

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
