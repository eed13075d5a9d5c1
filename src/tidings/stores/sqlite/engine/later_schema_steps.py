# SPDX-License-Identifier: Apache-2.0
"""Later steps of the schema, in order; `schema_steps` has the earlier ones."""

from typing import Final

from tidings.stores.sqlite.engine.schema_due import SCHEDULED
from tidings.stores.sqlite.engine.schema_escalations import ESCALATIONS
from tidings.stores.sqlite.engine.schema_inbox_states import INBOX_STATES
from tidings.stores.sqlite.engine.schema_preferences import PREFERENCES
from tidings.stores.sqlite.engine.schema_push import PUSH
from tidings.stores.sqlite.engine.schema_scheduled_files import SCHEDULED_FILES
from tidings.stores.sqlite.engine.schema_scheduled_notifications import (
    FAILED_NOTIFICATIONS,
    SCHEDULED_NOTIFICATIONS,
)
from tidings.stores.sqlite.engine.schema_webhooks import WEBHOOK_REFUSALS, WEBHOOKS

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
)
"""The steps after those of `schema_steps`, in order."""
