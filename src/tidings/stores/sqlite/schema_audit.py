# SPDX-License-Identifier: Apache-2.0
"""The table of the audit trail. By time, since it is read and swept by time."""

from typing import Final

# The trigger holds for every program that opens the file: an outcome is added once, all else stays.
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
