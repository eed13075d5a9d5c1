# SPDX-License-Identifier: Apache-2.0
"""The step of the schema that adds the states of notifications, and collapse keys."""

from typing import Final

_STATES: Final = (
    "seen_at INTEGER",
    "unseen_since INTEGER",
    "unread_since INTEGER",
    "archived_at INTEGER",
    "unarchived_since INTEGER",
    "snoozed_until INTEGER",
    "acted TEXT",
    "acted_at INTEGER",
)
_MARKS: Final = ("seen_before", "seen_announced", "archived_before", "archived_announced")
_COLLAPSIBLE: Final = ("notifications", "announcements", "copies", "jobs")

# A broadcast has a row for a user only if the user has changed a state of this one broadcast.
_BROADCAST_STATES: Final = f"""
CREATE TABLE broadcast_states (
    user_id TEXT NOT NULL,
    inbox TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    read_at INTEGER,
    {", ".join(_STATES)},
    PRIMARY KEY (user_id, inbox, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX broadcast_states_expiring ON broadcast_states (expires_at);
"""

INBOX_STATES: Final = "\n".join(
    [
        *(f"ALTER TABLE copies ADD COLUMN {column};" for column in _STATES),
        *(
            f"ALTER TABLE read_states ADD COLUMN {mark} INTEGER NOT NULL DEFAULT 0;"
            for mark in _MARKS
        ),
        *(f"ALTER TABLE {table} ADD COLUMN collapse TEXT;" for table in _COLLAPSIBLE),
        _BROADCAST_STATES,
    ]
)
